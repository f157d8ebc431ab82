"""Whole jobs in this process, without a JVM, in an order drawn from a seed.

The simulator drives the same `StageTask`s as Spark does. At every step the seed chooses one task and one
thing that it could do: take one row from one of its channels, poll its sources, send what it has - as if it
were busy or idle. Rows between tasks are bytes in queues that behave like Spark's (`SimulatedChannel`).
Time stands still while anything can happen, then jumps to the next moment at which a source wants to be
asked again. The same seed gives the same run, unless a source runs in a thread of its own.

In BATCH mode the tasks of a stage start when those of the stage before have ended.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.local_directories import open_local_copies
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.common.configuration import Configuration
from firesteel.common.errors import JobCancelledError, JobExecutionError
from firesteel.common.options import METRICS_INTERVAL, SIMULATOR_SEED
from firesteel.plan.executor import Deployment, Master
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    CancelTask,
    MasterMessage,
    TaskCancelled,
    TaskId,
    TaskInquiry,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.task_failure import to_message
from firesteel.runtime.task_inquiries import TaskInquiries
from firesteel.testing._simulated_channel import SimulatedChannel
from firesteel.testing._simulated_task import SimulatedServices, SimulatedTask, TaskState
from firesteel.testing.manual_clock import ManualClock

__all__ = ["SEED", "SimulatedAttempt", "SimulationDeadlockError", "SimulatorExecutor", "simulate_program"]

#: The option with the seed; an integer, 0 when it is missing.
SEED = SIMULATOR_SEED.key

_PAUSE = 0.001


class SimulationDeadlockError(JobExecutionError):
    """No task can do anything any more, and yet the job has not ended."""


class SimulatorExecutor:
    """`plan.executor.Executor` in this process.

    ``patience``: seconds to wait for a silent source thread, None for ever. ``clock``: the time of the jobs, which begins
    where that clock stands and moves it on; each job has one of its own when none is given. Restarts wait in that time,
    too, so nobody waits for them.
    """

    is_trial = True

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        seed: int | None = None,
        patience: float | None = 60.0,
        clock: ManualClock | None = None,
    ) -> None:
        configured = 0 if configuration is None else configuration.get_integer(SEED, 0)
        self._seed = configured if seed is None else seed
        self._patience = patience
        self._clock = clock
        self._clocks: dict[str, ManualClock] = {}  # by job

    def pass_time(self, job_id: str, seconds: float) -> None:
        """A restart waits: the time of the job moves on."""
        self._clock_of(job_id).advance(seconds)

    def _clock_of(self, job_id: str) -> ManualClock:
        return self._clock or self._clocks.setdefault(job_id, ManualClock())

    def start(self, deployment: Deployment, master: Master) -> SimulatedAttempt:
        """Run the job in a thread of this process."""
        clock = self._clock_of(deployment.job_id)
        attempt = SimulatedAttempt(deployment, master, self._seed, self._patience, clock=clock)
        name = f"firesteel-simulator-{deployment.job_id[:8]}"
        threading.Thread(target=attempt.run, name=name, daemon=True).start()
        return attempt


def simulate_program(configuration: Configuration) -> SimulatorExecutor:
    """The executor of ``firesteel run --simulate``: simulated time begins now, and sources may be silent for ever."""
    return SimulatorExecutor(configuration, patience=None, clock=ManualClock(time.time()))


@dataclass(frozen=True, slots=True)
class _Temper:
    """What makes one seed's run different in kind from another's, not only in order."""

    capacity: int | None
    idle_chance: float
    burst: int

    @classmethod
    def drawn(cls, rng: random.Random, plan: JobPlan) -> _Temper:
        capacity = rng.choice((2, 3, 8, None)) if plan.mode is RuntimeMode.STREAMING else None
        return cls(capacity, rng.choice((0.1, 0.5, 0.9)), rng.choice((1, 4, 32)))


class SimulatedAttempt:
    """A job at work in the simulator; `plan.executor.Attempt`."""

    def __init__(
        self,
        deployment: Deployment,
        master: Master,
        seed: int,
        patience: float | None = 60.0,
        *,
        clock: ManualClock | None = None,
        storage: Callable[[str], Storage] = open_storage,
        local_copies: Callable[[Configuration, str, int], LocalCopies | None] = open_local_copies,
    ) -> None:
        self.clock = clock or ManualClock()
        self._storage = storage
        self._local_copies = local_copies
        self._plan = deployment.plan
        self._master = master
        self._seed = seed
        self._patience = patience
        self._rng = random.Random(seed)
        self._temper = _Temper.drawn(self._rng, self._plan)
        self._mails: deque[tuple[SimulatedTask, MasterMessage]] = deque()
        self._thread = 0  # in which all tasks work
        self._signal = threading.Event()
        self._over = threading.Event()
        self._killed = False
        self._error: BaseException | None = None
        options = Configuration.from_dict(dict(self._plan.options))
        self._report_seconds = options.get(METRICS_INTERVAL).to_millis() / 1000
        self._next_report = time.monotonic() + self._report_seconds
        self._tasks = self._create_tasks(deployment)
        self._active = self._find_active()
        self._awake = list(self._active)

    # What the job master calls ------------------------------------------------------------------------

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the run is over."""
        return self._over.wait(timeout)

    def error(self) -> BaseException | None:
        """Why it ended before all tasks had finished."""
        return self._error

    def kill(self) -> None:
        """Stop at the next step."""
        self._killed = True
        self._signal.set()

    def _post(self, task: SimulatedTask, message: MasterMessage) -> None:
        if isinstance(message, TaskInquiry):
            TaskInquiries(partial(self._master.deliver, task.id), self._thread).answer(message)
            return
        self._mails.append((task, message))
        self._signal.set()

    # The run ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the job to its end, in the calling thread."""
        self._thread = threading.get_ident()
        try:
            self.connect()
            while not self.is_over:
                if not self.step():
                    self._pass_time(self._active)
                    self._awake = list(self._active)
                if time.monotonic() >= self._next_report:
                    self._report_figures()
        except BaseException as error:  # noqa: BLE001 - kept for whoever awaits the attempt
            self._annotate(error)
            self._error = error
        finally:
            self.abandon()
            self._over.set()

    def _report_figures(self) -> None:
        """Tell how far the tasks have come, for who watches: every so often in real time, which changes no result."""
        self._next_report = time.monotonic() + self._report_seconds
        for task in self._active:
            task.report()

    def connect(self) -> None:
        """Make the tasks known to the master; before the first `step`."""
        for task in self._tasks:
            self._master.connected(task.id, partial(self._post, task))

    @property
    def is_over(self) -> bool:
        """Whether all tasks have ended."""
        return not self._active

    def step(self) -> bool:
        """Choose a task and let it do something; False when none can do anything before time passes.

        A task that was found with nothing to do sleeps until something happens beside it, so not all have
        to be asked every time.
        """
        if self._signal.is_set():
            self._obey()
            self._awake = list(self._active)
        while self._awake:
            task = self._rng.choices(self._awake, [task.weight for task in self._awake])[0]
            if task.enabled():
                if self._burst(task):
                    self._rouse_beside(task)
                if task.state is TaskState.ENDED:
                    self._active = self._find_active()
                    self._awake = list(self._active)
                return True
            self._awake.remove(task)
        return False

    def rouse(self) -> None:
        """Time has passed: look at all tasks again."""
        self._awake = list(self._active)

    def next_poll(self) -> float:
        """When a task wants to be looked at again; infinity when only a message can change anything."""
        return min((when for task in self._active if (when := task.next_poll) is not None), default=math.inf)

    def _rouse_beside(self, task: SimulatedTask) -> None:
        """After ``task`` moved something its neighbours are awake, and sources that had nothing to give."""
        stage = task.id.stage
        near = [other for other in self._active if other is not task and abs(other.id.stage - stage) == 1]
        near += [other for other in self._active if other is not task and other.forgive()]
        self._awake += [other for other in dict.fromkeys(near) if other not in self._awake]

    def _burst(self, task: SimulatedTask) -> bool:
        """Some steps of one task; whether any of them moved something."""
        moved = False
        try:
            for _ in range(self._temper.burst):
                moved |= task.step(self._rng, self._temper.idle_chance)
                if not task.enabled():
                    break
        except BaseException as error:
            self._report(task, error)
            raise
        return moved

    def _find_active(self) -> list[SimulatedTask]:
        """The tasks that are on: all that have not ended, in BATCH only those of the lowest stage."""
        alive = [task for task in self._tasks if task.state is not TaskState.ENDED]
        if self._plan.mode is RuntimeMode.BATCH and alive:
            stage = alive[0].id.stage
            alive = [task for task in alive if task.id.stage == stage]
        return alive

    def _pass_time(self, active: list[SimulatedTask]) -> None:
        """Nothing can happen now: move the clock to when something can, or wait for a source's thread."""
        held_up = any(task.waits for task in active)  # and so may be all that send to it
        if self._plan.mode is RuntimeMode.STREAMING and not held_up and any(task.stuck for task in active):
            if any(task.enabled() for task in active):
                return  # what a task waited for, in a thread beside this one, has happened since it was last looked at
            raise self._deadlock("all tasks are idle, and not everything that was sent has arrived")
        polls = [when for task in active if (when := task.next_poll) is not None]
        if not polls and any(task.stays for task in active):
            polls = [math.inf]  # tasks wait for the checkpoint that ends the job
        if not polls:
            raise self._deadlock("no task can do anything, and no source is left that could change that")
        forgiven = [task.forgive() for task in active]
        if any(forgiven):  # ready at once, they said, and gave nothing: they must be waiting for real time
            self.clock.advance(_PAUSE)
            self._signal.wait(_PAUSE)
        elif (until := min(polls)) != math.inf:
            self.clock.advance_to(until)
        elif not self._await_signal():
            raise self._deadlock(f"sources wait to be woken, and for {self._patience} s none was")

    def _await_signal(self) -> bool:
        """Wait for a source's thread; who watches learns meanwhile how far the tasks have come."""
        until_report = max(self._next_report - time.monotonic(), 0)
        if self._signal.wait(until_report if self._patience is None else min(until_report, self._patience)):
            return True
        self._report_figures()
        return self._signal.wait(self._patience)

    def _deadlock(self, why: str) -> SimulationDeadlockError:
        tasks = "\n  ".join(task.describe() for task in self._tasks if task.state is not TaskState.ENDED)
        return SimulationDeadlockError(
            f"the job stands still: {why}. A payload that stays on its way was not followed by a flush row "
            f"when its task became idle.\n  {tasks}"
        )

    def _obey(self) -> None:
        self._signal.clear()  # before the look: what comes after it sets it again
        if self._killed:
            raise JobCancelledError("the attempt was killed")
        while self._mails:
            task, message = self._mails.popleft()
            if isinstance(message, CancelTask):
                # The master cancels all tasks. One alone would look like lost data to those behind it.
                raise JobCancelledError("the job was cancelled")
            task.obey(message)

    # The end ------------------------------------------------------------------------------------------

    def _report(self, task: SimulatedTask, error: BaseException) -> None:
        self._annotate(error)
        message = to_message(error)
        task.abandon()
        self._master.deliver(task.id, replace(message, summary=f"{message.summary}\n{self._note()}"))

    def abandon(self) -> None:
        """Close the tasks that did not come to their end; they count as cancelled."""
        for task in self._tasks:
            if task.abandon():
                self._master.deliver(task.id, TaskCancelled())

    def _annotate(self, error: BaseException) -> None:
        if self._note() not in getattr(error, "__notes__", ()):
            error.add_note(self._note())

    def _note(self) -> str:
        return f"simulator seed: {self._seed} (option '{SEED}' repeats this run)"

    # Construction -------------------------------------------------------------------------------------

    def _create_tasks(self, deployment: Deployment) -> list[SimulatedTask]:
        """All tasks, stage by stage, with a channel between any two of neighbouring stages."""
        tasks: list[SimulatedTask] = []
        inputs: list[list[SimulatedChannel]] = [[] for _ in range(self._plan.stages[0].tasks)]
        for stage in self._plan.stages:
            last = stage.index + 1 == len(self._plan.stages)
            receivers = 0 if last else self._plan.stages[stage.index + 1].tasks
            outputs = [self._channels(receivers) for _ in range(stage.tasks)]
            tasks += [
                self._create_task(deployment, TaskId(stage.index, index), inputs[index], outputs[index])
                for index in range(stage.tasks)
            ]
            inputs = [[sender[receiver] for sender in outputs] for receiver in range(receivers)]
        return tasks

    def _channels(self, count: int) -> list[SimulatedChannel]:
        return [SimulatedChannel(self._temper.capacity) for _ in range(count)]

    def _create_task(
        self,
        deployment: Deployment,
        task: TaskId,
        inputs: list[SimulatedChannel],
        outputs: list[SimulatedChannel],
    ) -> SimulatedTask:
        wake: Callable[[], None] = self._signal.set
        copies = None
        if deployment.checkpointing:
            configuration = Configuration.from_dict(dict(self._plan.options))
            copies = self._local_copies(configuration, deployment.job_id, deployment.attempt)
        services = SimulatedServices(
            deployment, task, self._master, self.clock, self._seed, wake, self._storage, copies
        )
        weight = self._rng.choice((0.1, 1.0, 1.0, 4.0))
        return SimulatedTask(deployment, task, inputs, outputs, services, self._master, weight)
