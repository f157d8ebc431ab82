"""The simulator's shell around one `StageTask`: what Spark's task shell does, one step at a time."""

from __future__ import annotations

import contextlib
import enum
import json
import math
import os
import random
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.common.errors import JobExecutionError, ProgramError
from firesteel.common.options import CACHED_FILES
from firesteel.plan.executor import Deployment, Master
from firesteel.plan.messages import (
    CheckpointAborted,
    CheckpointCompleted,
    MasterMessage,
    TaskFinished,
    TaskId,
    TaskStarted,
    TextOutput,
)
from firesteel.plan.results import ResultOutput
from firesteel.runtime.call_loop import CallLoop, SteppedLoop
from firesteel.runtime.pace import Pace
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.stage_task import StageTask
from firesteel.runtime.subtask_snapshot import SnapshotFile, SubtaskSnapshot, declined
from firesteel.runtime.task_clock import TaskClock
from firesteel.testing._simulated_channel import SimulatedChannel
from firesteel.testing._simulated_pace import SimulatedPace
from firesteel.testing.manual_clock import ManualClock

__all__ = ["SimulatedServices", "SimulatedTask", "TaskState"]


class SimulatedServices:
    """What a simulated task sees of the world: simulated time, seeded chance, the job master."""

    def __init__(
        self,
        deployment: Deployment,
        task: TaskId,
        master: Master,
        clock: ManualClock,
        seed: int,
        wake: Callable[[], None],
        storage: Callable[[str], Storage] = open_storage,
        local_copies: LocalCopies | None = None,
    ) -> None:
        self.job_id = deployment.job_id
        self._open_storage = storage
        self.local_copies = local_copies
        self.attempt = deployment.attempt
        self.random = random.Random(f"{seed}:{task.stage}:{task.index}")
        self.pace: Pace = SimulatedPace(random.Random(f"{seed}:{task.stage}:{task.index}:pace"))
        self._clock = clock
        self.now = TaskClock(clock.now, clock.monotonic).now  # so that clocks that are set reach tasks
        self.wake = wake
        self._task = task
        self._master = master
        self._options = deployment.plan.options
        self._collections: list[ResultOutput] = []
        self._call_loop = SteppedLoop(self.now)

    def moment(self, when: float) -> float:
        """When `now` will come to ``when``, by the clock that nobody can set; a little later while `now` is slow."""
        return self._clock.monotonic() + (when - self.now())

    def call_loop(self) -> CallLoop:
        """An event loop in simulated time."""
        return self._call_loop

    def write_text(self, text: str, to_stderr: bool = False) -> None:
        """Lines for whoever started the job."""
        self._master.deliver(self._task, TextOutput(text, "stderr" if to_stderr else "stdout"))

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> ResultOutput:
        """The way for results to the driver."""
        collection = self._master.open_collection(collect_id, subtask, start, origin)
        self._collections.append(collection)
        return collection

    def close_collections(self) -> None:
        """The task has done everything."""
        for collection in self._collections:
            collection.close()

    def storage(self, root: str) -> Storage:
        """Where the files of a checkpoint are."""
        return self._open_storage(root)

    def cached_file(self, name: str) -> str:
        """Path of a registered file: this process can read the original."""
        files: Mapping[str, str] = json.loads(self._options.get(CACHED_FILES.key) or "{}")
        if name not in files:
            raise ProgramError(
                f"no cached file {name!r}; register it with env.register_cached_file(path, {name!r}), "
                f"registered are {sorted(files)}"
            )
        return files[name].removeprefix("file://")


class TaskState(enum.Enum):
    """Where a task is in its life."""

    NEW = "new"
    RUNNING = "running"
    DRAINING = "draining"  # all input processed; the last rows still have to leave
    ENDED = "ended"


class SimulatedTask:
    """One task of the job; `step` does one of the things it could do now."""

    def __init__(
        self,
        deployment: Deployment,
        task: TaskId,
        inputs: Sequence[SimulatedChannel],
        outputs: Sequence[SimulatedChannel],
        services: SimulatedServices,
        master: Master,
        weight: float = 1.0,
    ) -> None:
        self.id = task
        self.weight = weight  # how often its turn comes, against others
        self.state = TaskState.NEW
        self._deployment = deployment
        self._inputs = inputs
        self._outputs = outputs
        self._services = services
        self._master = master
        self._task: StageTask | None = None
        self._leaving: deque[tuple[int, bytes]] = deque()
        self._orders: list[MasterMessage] = []  # what the master wanted while the task could not listen
        self._files: dict[SubtaskSnapshot, SnapshotFile] = {}
        self._form = TaskSettings.of(deployment.plan).snapshot_form
        self._local = services.local_copies
        self._dirty = False  # something happened since the last time the task was told that it is idle
        self._fruitless = (
            False  # a source said it was ready and gave nothing: ask again when something changed
        )

    # What could happen --------------------------------------------------------------------------------

    def enabled(self) -> bool:
        """Whether the task can do something now."""
        if self.state is TaskState.NEW:
            return True
        if self.state is TaskState.ENDED:
            return False
        if self._leaving:
            return not self._blocked()
        if self._task is not None and self._task.paused:
            return not self._task.waits
        if self._task is not None and self._task.unread:
            return True
        if self.state is TaskState.DRAINING or self._dirty or self._complete() or self._busy():
            return True
        return self._task is not None and self._task.has_snapshots

    @property
    def next_poll(self) -> float | None:
        """When a source or a timer wants to be asked; infinity: when a source wakes the task; None: never.

        By the clock that nobody can set.
        """
        if self._task is None or self.state is not TaskState.RUNNING:
            return None
        when = self._services.moment(self._task.next_poll())
        return when if self._task.has_sources or when != math.inf else None

    def forgive(self) -> bool:
        """Let sources that gave nothing be asked again; whether there were any."""
        was, self._fruitless = self._fruitless, False
        return was

    def describe(self) -> str:
        """For the report on a deadlock."""
        names = ", ".join(self._task.names) if self._task is not None else "not started"
        return (
            f"stage {self.id.stage} task {self.id.index} [{names}] is {self.state.value}, "
            f"{self.stuck} payload(s) on the way to it"
        )

    @property
    def stays(self) -> bool:
        """Whether the task waits for a message of the master when everything is processed."""
        return self._task is not None and self._task.stays

    @property
    def waits(self) -> bool:
        """Whether user code holds the task up until something outside of it has happened."""
        return self._task is not None and self._task.waits

    @property
    def stuck(self) -> int:
        """How many payloads are on the way to this task."""
        return sum(channel.stuck for channel in self._inputs)

    def _busy(self) -> bool:
        return self._pollable() or (
            self._may_receive() and any(channel.deliverable for channel in self._inputs)
        )

    def _may_receive(self) -> bool:
        return self._task is not None and self._task.may_receive

    def _pollable(self) -> bool:
        return not self._fruitless and self._task is not None and self._task.ready()

    def _blocked(self) -> bool:
        return self._outputs[self._leaving[0][0]].full

    def _complete(self) -> bool:
        """Whether no input can come any more."""
        if self.id.stage == 0:
            return self._task is not None and self._task.finished
        if (
            self._task is None
            or not self._task.may_receive
            or not all(channel.drained for channel in self._inputs)
        ):
            return False
        return self._task.finished or not self._task.stays

    # What happens -------------------------------------------------------------------------------------

    def step(self, rng: random.Random, idle_chance: float) -> bool:
        """Do one of the things that are possible (`enabled` says that there is one); whether anything moved."""
        if self._task is None:
            return self._open()
        if self._leaving:
            return self._send()
        if self._task.paused:
            self._resume(self._task)
            return True
        if self.state is TaskState.DRAINING:
            return self._finish(self._task)
        return self._work(self._task, rng, idle_chance)

    def _open(self) -> bool:
        self._task = StageTask(
            self._deployment.plan.for_stage(self.id.stage),
            self.id,
            self._services,
            checkpointing=self._deployment.checkpointing,
        )
        self._task.open(self._deployment.restore)
        self.state = TaskState.RUNNING
        self._obey_orders(self._task)
        self._dirty = True
        queryable = tuple(self._task.queryable.take_new())
        self._master.deliver(
            self.id, TaskStarted(socket.gethostname(), os.getpid(), self._deployment.attempt, queryable)
        )
        return True

    def _work(self, task: StageTask, rng: random.Random, idle_chance: float) -> bool:
        ways: list[Callable[[], bool]] = []
        if task.unread:
            ways.append(partial(self._resume, task))
        elif task.may_receive:
            ways += [partial(self._receive, task, channel) for channel in self._inputs if channel.deliverable]
        if self._pollable():
            ways.append(partial(self._poll, task))
        if task.has_snapshots:
            ways.append(partial(self._work_on_snapshot, task))
        if self._dirty:
            ways.append(partial(self._take, task, idle=rng.random() < idle_chance))
        if self._complete() and not task.unread:
            ways.append(partial(self._drain, task))
        moved = ways[int(rng.random() * len(ways))]()
        for message in task.take_messages():
            self._master.deliver(self.id, message)
            moved = True
        return moved

    def _receive(self, task: StageTask, channel: SimulatedChannel) -> bool:
        task.receive(channel.take())
        self._dirty = True
        self._let_out(task)
        return True

    def _resume(self, task: StageTask) -> bool:
        task.resume()
        self._dirty = True
        self._fruitless = False
        self._let_out(task)
        self._obey_orders(task)
        return True

    def _obey_orders(self, task: StageTask) -> None:
        """What the master wanted while the task could not listen."""
        while self._orders and not task.paused:
            task.obey(self._orders.pop(0))
            self._let_out(task)

    def _let_out(self, task: StageTask) -> None:
        """What a call that has paused waits for."""
        if task.paused:
            self._leaving.extend(task.take(idle=False))

    def _poll(self, task: StageTask) -> bool:
        fruitful = task.poll()
        self._let_out(task)
        if task.paused:
            self._dirty = True
            return True
        self._fruitless = not fruitful and task.ready()
        self._dirty = True
        return fruitful

    def _take(self, task: StageTask, idle: bool) -> bool:
        rows = task.take(idle)
        self._leaving.extend(rows)
        self._dirty = not idle
        return bool(rows)

    def _send(self) -> bool:
        while self._leaving and not self._blocked():
            target, payload = self._leaving.popleft()
            self._outputs[target].put(bytes(payload))
        return True

    def _drain(self, task: StageTask) -> bool:
        if self._inputs:
            task.input_ended()
        if not task.finished:
            raise JobExecutionError(f"{self.describe()}: all its input has ended, but it has not finished")
        self._take(task, idle=True)
        self.state = TaskState.DRAINING
        return True

    def _finish(self, task: StageTask) -> bool:
        self.state = TaskState.ENDED
        self._abort_snapshots()
        if self._local is not None:
            self._local.end_job()
        errors = task.close()
        if errors:
            raise errors[0]
        self._services.close_collections()
        self._master.deliver(self.id, task.report())
        for channel in self._outputs:
            channel.sender_ended = True
        self._master.deliver(self.id, TaskFinished())
        return True

    def report(self) -> None:
        """Tell the master how far the task has come."""
        if self._task is not None and self.state is not TaskState.ENDED:
            self._master.deliver(self.id, self._task.report())

    def obey(self, message: MasterMessage) -> None:
        """Do what the job master wants, when the task is open."""
        if self.state is TaskState.NEW:
            self._orders.append(message)
        elif self._task is not None and self.state is TaskState.RUNNING:
            self._obey_in_turn(self._task, message)
        match message:
            case CheckpointCompleted(checkpoint_id) if self._local is not None:
                self._local.checkpoint_completed(checkpoint_id)
            case CheckpointAborted(checkpoint_id) if self._local is not None:
                self._local.checkpoint_aborted(checkpoint_id)

    def _obey_in_turn(self, task: StageTask, message: MasterMessage) -> None:
        """Obey, or wait until the call that has paused has ended: as messages wait in a mailbox."""
        if task.paused:
            self._orders.append(message)
        else:
            task.obey(message)
            self._let_out(task)
        self._dirty = True

    def _work_on_snapshot(self, task: StageTask) -> bool:
        snapshot = task.work_on_snapshots()
        assert snapshot is not None
        file = self._files.get(snapshot)
        try:
            if file is None:
                file = self._files[snapshot] = SnapshotFile(snapshot, self._services, self._form)
            file.write(snapshot.drain())
            if snapshot.is_serialised:
                del self._files[snapshot]
                self._master.deliver(self.id, file.finish())
        except Exception as error:  # noqa: BLE001 - whatever it is, the checkpoint fails and not the task
            self._files.pop(snapshot, None)
            if file is not None:
                file.abort()
            snapshot.failure = error
            self._master.deliver(self.id, declined(snapshot, error))
        return True

    def abandon(self) -> bool:
        """Close whatever is open, without looking at errors; whether the task was still alive."""
        alive = self.state is not TaskState.ENDED
        self.state = TaskState.ENDED
        if alive and self._task is not None:
            self._task.close()
        self._abort_snapshots()
        if self._local is not None:
            self._local.close()
        return alive

    def _abort_snapshots(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(Exception):  # a storage that fails changes nothing any more
                file.abort()
        self._files.clear()
