"""A whole job with checkpoints in one thread, in an order drawn from a seed, in which anything may crash.

Everything that decides is the real thing: the master's core, tasks, operators, backends, storage formats. Only the shells
are simulated: messages are queues that deliver in order for each task but with any delay against others, storage is a
dictionary that fails before, after or in the middle of a step. Time stands still while anything can happen, or, with
other seeds, goes on meanwhile: then sources produce and checkpoints begin while earlier records and barriers are still on
their way, and much waits at alignments. At every step the seed chooses what happens next, and now and then it chooses
a fault:

- a task is lost: its attempt ends, at once or as a zombie that goes on for a while and still sends messages;
- the master is lost, with everything it knew; another one takes the job up from storage, with another parallelism;
- the tasks of an attempt are frozen, and wake up later or never. They were not missed, or their silence was noticed and
  another attempt has taken their place; then they find out, too, and do nothing any more;
- the master is frozen, somewhere or in the middle of publishing a checkpoint. Another one takes the job up, and then the
  first one wakes up and goes on, with its tasks, as if nothing had happened;
- a step of the storage fails, before or after it took effect, or leaves half a file behind;
- some looks at the storage fail, or a list is empty that should not be;
- the volume is away for some operations: all files seem not to exist, and what is written goes nowhere;
- the machine loses its power: everything ends, and what was not forced to disk may be lost;
- the storage hangs while a checkpoint is being published, often beyond the checkpoint's time-out;
- a notification that a checkpoint is complete gets lost;
- somebody sets the clock, by hours, in both directions;
- local copies of state cannot be written, get lost, are torn or changed, one or all. This happens all the time, for it
  must not matter.

People do things, too: they ask for savepoints, stop the job with one to resume from it with another parallelism, and change its
parallelism while it runs. Now and then there are too few slots then, and it has to go on as it was. Jobs of some seeds make
do with the slots that there are, which are others every time they are counted.

Old checkpoints are deleted beside everything else, at any time after it was asked for.

In the end the output of the transactions must be that of a run without faults, and not much more time may have passed
than the faults explain. An attempt that is not a zombie fails
for no other reason than a fault: recovery would make up for the damage, and hide it. A failure names its seed, which
repeats it exactly.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from firesteel.checkpoint import stored_checkpoint
from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.matching import ProgramOperator
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.configuration import Configuration
from firesteel.common.errors import (
    HeartbeatError,
    JobCancelledError,
    NotEnoughSlotsError,
    StateError,
    StorageError,
    TaskLostError,
)
from firesteel.common.job_status import JobStatus
from firesteel.common.options import CHECKPOINTING_NUM_RETAINED, LOCAL_RECOVERY
from firesteel.compiler.program_plans import Bounds, ProgramPlans
from firesteel.jobmaster import events, instructions
from firesteel.jobmaster.checkpoints import store as checkpoint_store
from firesteel.jobmaster.checkpoints.deletions import PendingDeletions
from firesteel.jobmaster.checkpoints.settings import read_checkpoint_settings
from firesteel.jobmaster.checkpoints.takeover import TakenOver, Takeover
from firesteel.jobmaster.elasticity import ElasticSettings
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.master_core import BY_ITSELF, MasterCore, MasterSettings
from firesteel.jobmaster.restart_policy import create_policy
from firesteel.plan.executor import ON_LOOPBACK, ControlEndpoint, Deployment, Listening, SlotWait
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    Alive,
    CheckpointCompleted,
    MasterMessage,
    TaskFinished,
    TaskId,
    TaskMessage,
)
from firesteel.plan.results import ResultOutput
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.simulator import SimulatedAttempt
from firesteel_support.crash_programs import MAX_PARALLELISM, CrashProgram, check_output
from firesteel_support.faulty_storage import FaultyStorage, SimulatedVolume
from firesteel_support.ledger import Ledger
from firesteel_support.simulated_heartbeats import HEARTBEAT, SimulatedHeartbeats

__all__ = ["CrashSimulation", "Outcome", "simulate"]

_FAULTS = (
    "task",
    "zombie",
    "frozen tasks",
    "master",
    "frozen master",
    "frozen publisher",
    "storage",
    "storage",
    "torn",
    "look",
    "look",
    "lie",
    "lie",
    "away",
    "power",
    "hang",
    "lost notification",
    "clock",
)
#: What the storage asks at its steps for each fault of its own.
_STORAGE_FAULTS = {
    "storage": ("before", "after", "unforced"),
    "torn": ("torn",),
    "look": ("look",),
    "lie": ("lie",),
}
_MAX_SECONDS = 200.0  # of simulated time, hours less than the clock is set by
_LONGEST_WAIT = 60.0  # of a source, by far
_WISHES = ("savepoint", "stop", "drain")
_MAX_STEPS = 2_000_000
_HURRY_SECONDS = 0.02  # by which time may go on at once while anything can happen
_STORAGE = "memory://crash-simulation"
_LOCAL = "memory://crash-simulation-local"


@dataclass(slots=True)
class Outcome:
    """What a run was like."""

    seed: int
    steps: int = 0
    masters: int = 0
    attempts: int = 0
    checkpoints: int = 0
    savepoints: int = 0
    rescales: int = 0
    refused_rescales: int = 0
    local_reads: int = 0  # segments that were restored from local copies
    local_losses: int = 0  # local copies that got lost, were torn or changed
    faults: list[str] = field(default_factory=list)


class _DeletionsAside:
    """What a master has to delete, at any time after it was asked for. See `deletions.Deletions`."""

    def __init__(self) -> None:
        self._delete: Callable[[instructions.Deletion], object]
        self._pending = PendingDeletions()

    def calling(self, delete: Callable[[instructions.Deletion], object]) -> _DeletionsAside:
        self._delete = delete
        return self

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, deletion: instructions.Deletion) -> None:
        self._pending.add(deletion)

    def finish(self, *, drop: bool) -> None:
        if drop:
            self._pending.clear()
        while self.delete_next():
            pass

    def delete_next(self) -> bool:
        deletion = self._pending.take()
        if deletion is None:
            return False
        self._delete(deletion)
        return True


@dataclass(slots=True)
class _Incarnation:
    """One life of the master: its core, what it waits for, the attempts it started."""

    core: MasterCore
    store: checkpoint_store.CheckpointStore
    plan: JobPlan
    plans: ProgramPlans
    deletions: _DeletionsAside
    mailbox: deque[events.Event] = field(default_factory=deque)
    storage_work: deque[instructions.StorageInstruction] = field(default_factory=deque)
    hangs_until: float = 0.0  # the storage does nothing before
    late_answer: events.Event | None = None  # of what it had done before it hung
    timers: list[tuple[float, int, events.Event]] = field(default_factory=list)
    complete: instructions.CompleteJob | None = None
    stops: set[int] = field(default_factory=set)  # requests to stop with a savepoint
    rescales: dict[int, JobPlan] = field(
        default_factory=dict
    )  # plans that the job is asked to go on as, by request
    is_new_plan: bool = False  # the next attempt is the first one of its plan
    frozen_until: float = 0.0
    steps_left: float = math.inf  # when another master has taken its place


class _Attempt:
    """One attempt: its tasks, and the messages on their way in both directions. `plan.executor.Master` for the tasks."""

    def __init__(self, number: int, owner: _Incarnation, clock: ManualClock) -> None:
        self.number = number
        self.owner = owner
        self._clock = clock
        self.heartbeats = SimulatedHeartbeats(clock.monotonic())
        self.answers: deque[tuple[TaskId, int]] = deque()  # of the master, to questions of tasks
        self.simulated: SimulatedAttempt
        self.to_master: dict[TaskId, deque[events.Event]] = {}
        self.to_tasks: dict[TaskId, deque[MasterMessage]] = {}
        self.senders: dict[TaskId, Callable[[MasterMessage], None]] = {}
        self.steps_left: float = math.inf  # of a zombie
        self.frozen_until = 0.0
        self._frozen_since = 0.0
        self.was_silent = False  # for so long that the master may have noticed
        self.ended = False  # the engine has ended it, as far as the master knows

    def endpoint(self, listening: Listening = ON_LOOPBACK) -> ControlEndpoint:
        raise NotImplementedError("tasks of a simulation are in this process")

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        self.senders[task] = send
        self.to_tasks[task] = deque()
        self.heartbeats.connected(task, self._clock.monotonic())
        self.to_master[task] = deque([events.TaskConnected(events.TaskOrigin(self.number, task))])

    def deliver(self, task: TaskId, message: TaskMessage) -> None:
        self.to_master[task].append(events.TaskSaid(events.TaskOrigin(self.number, task), message))
        if isinstance(message, TaskFinished):
            self.heartbeats.finished(task)

    def freeze(self, until: float) -> None:
        """Stop its processes."""
        now = self._clock.monotonic()
        if self.frozen_until <= now:
            self._frozen_since = now
        self.frozen_until = max(self.frozen_until, until)
        if self.frozen_until - self._frozen_since > HEARTBEAT.timeout - 2 * HEARTBEAT.interval:
            self.was_silent = True

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> ResultOutput:
        raise NotImplementedError("a simulation does not collect")

    def is_wanted(self) -> bool:
        return True

    def awaits_slots(self, wait: SlotWait | None) -> None:
        raise AssertionError("a simulation has slots for all its tasks")


class CrashSimulation:
    """One seed. ``max_faults`` bounds how often something goes wrong, so that the job comes to its end.

    ``kinds`` are the faults to draw from; all, when nothing is said.
    """

    def __init__(self, seed: int, max_faults: int | None = None, kinds: Sequence[str] = ()) -> None:
        self._kinds = tuple(kinds) or _FAULTS
        self.outcome = Outcome(seed)
        self._rng = random.Random(f"crash {seed}")
        self._uri = f"{_STORAGE}-{seed}"
        self._program = CrashProgram.drawn(seed, self._uri)
        self._faults_left = self._rng.randint(0, 8) if max_faults is None else max_faults
        self._fault_chance = self._rng.choice((0.002, 0.01, 0.05))
        self._storage_fault = ""
        self._wishes_left = self._rng.choice((0, 0, 1, 3))
        self._stopped_at: str | None = None  # the savepoint with which somebody stopped the job
        self._began_at: str | None = None  # the savepoint that drivers are told to begin with
        self._local_uri = f"{_LOCAL}-{seed}"
        self._local_rng = random.Random(f"local copies {seed}")
        self._local_fault_chance = self._local_rng.choice((0.0, 0.0, 0.1))
        self._local_damage = self._local_rng.choice((0.0, 0.2, 0.6))  # between attempts
        self._local_copies: list[LocalCopies] = []
        self._scale_rng = random.Random(f"rescale {seed}")
        self._rescales_left = self._scale_rng.choice((0, 1, 5))
        self._is_elastic = self._scale_rng.random() < 0.3
        self._time_rng = random.Random(f"time {seed}")
        self._hurry = self._time_rng.choice((0.0, 0.1, 0.5))  # how often time goes on meanwhile
        self._hurries_left = 300  # for ever would be more than the tasks can keep up with
        self._clock = ManualClock()
        self._began = self._clock.monotonic()
        self._numbers = itertools.count(1)  # no two requests have the same; 0 is the job itself
        self._attempts: list[_Attempt] = []
        self._master: _Incarnation
        self._replaced: list[_Incarnation] = []  # masters that were frozen and may still do something
        self._publishes = False  # whether the master is about to complete a checkpoint
        MemoryStorage.forget(self._uri)
        self._volume = SimulatedVolume(MemoryStorage.shared(self._uri).files)

    def run(self) -> Outcome:
        """Run the job to its end and check its output."""
        Ledger.forget(self._program.ledger)
        MemoryStorage.forget(self._local_uri)
        try:
            self._start_master()
            while (complete := self._master.complete) is None or self._resumes():
                self._step()
                self.outcome.steps += 1
                if self.outcome.steps > _MAX_STEPS:
                    raise AssertionError("the job makes no progress")
            if complete.status is not JobStatus.FINISHED:
                raise AssertionError(f"the job ended as {complete.status.name}") from complete.error
            check_output(self._program, Ledger.named(self._program.ledger).committed)
            self._check_time()
            self.outcome.local_reads = sum(copies.segments_read for copies in self._local_copies)
        except BaseException as error:
            error.add_note(f"crash simulation seed {self.outcome.seed}: {self._program}")
            error.add_note(f"what happened: {self.outcome}")
            raise
        finally:
            for attempt in self._attempts:
                attempt.simulated.abandon()
            Ledger.forget(self._program.ledger)
            MemoryStorage.forget(self._uri)
            MemoryStorage.forget(self._local_uri)
        return self.outcome

    def _check_time(self) -> None:
        seconds = self._clock.monotonic() - self._began
        if seconds > _MAX_SECONDS:
            raise AssertionError(f"the job took {seconds:.0f} s")

    # Steps --------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Let one thing happen that can happen now."""
        if self._faults_left and self._rng.random() < self._fault_chance:
            self._fault(self._rng.choice(self._kinds))
        if self._wishes_left and self._rng.random() < 0.01:
            self._wishes_left -= 1
            self._wish(self._rng.choice(_WISHES))
        runs = self._rescales_left and self._master.core.status is JobStatus.RUNNING
        if runs and self._scale_rng.random() < 0.01:
            self._rescales_left -= 1
            self._wish_for_rescale()
        if self._hurries_left and self._time_rng.random() < self._hurry:
            self._hurries_left -= 1
            self._go_to(self._clock.monotonic() + self._time_rng.uniform(0, _HURRY_SECONDS))
        ways = self._ways()
        self._rng.shuffle(ways)
        if not any(way() for way in ways):
            self._pass_time()

    def _ways(self) -> list[Callable[[], bool]]:
        """What could happen; each says whether it did."""
        now = self._clock.monotonic()
        ways: list[Callable[[], bool]] = [partial(way, self._master) for way in self._master_ways]
        for master in self._replaced:
            if master.frozen_until <= now:
                ways += [partial(self._step_replaced, master, way) for way in self._master_ways]
        for attempt in self._attempts:
            if attempt.frozen_until <= now:
                ways.append(partial(self._step_attempt, attempt))
                if attempt.answers:
                    ways.append(partial(self._answer, attempt))
                ways += [
                    partial(self._to_task, attempt, task) for task, mails in attempt.to_tasks.items() if mails
                ]
            if attempt.owner.frozen_until <= now:
                ways += [
                    partial(self._to_master, attempt, task)
                    for task, mails in attempt.to_master.items()
                    if mails
                ]
        return ways

    @property
    def _master_ways(self) -> tuple[Callable[[_Incarnation], bool], ...]:
        return self._handle_event, self._work_on_storage, self._work_on_deletions

    def _step_replaced(self, master: _Incarnation, way: Callable[[_Incarnation], bool]) -> bool:
        """A master that does not know that another one has taken its place goes on; at some time it ends."""
        if master not in self._replaced or not way(master):
            return False
        master.steps_left -= 1
        if master.steps_left <= 0 or master.complete is not None:
            self._replaced.remove(master)
        return True

    def _handle_event(self, master: _Incarnation) -> bool:
        if not master.mailbox:
            return False
        self._handle(master, master.mailbox.popleft())
        return True

    def _work_on_storage(self, master: _Incarnation) -> bool:
        if master.hangs_until > self._clock.monotonic():
            return False
        if master.late_answer is not None:
            master.mailbox.append(master.late_answer)
            master.late_answer = None
            return True
        if not master.storage_work:
            return False
        if self._storage_fault == "hang" and isinstance(
            master.storage_work[0], instructions.PublishCheckpoint
        ):
            self._hang(master)
            return True
        work = master.storage_work.popleft()
        self._publishes = isinstance(work, instructions.PublishCheckpoint) and master is self._master
        answer = master.store.perform(work)
        self._publishes = False
        if answer is not None:
            master.mailbox.append(answer)
        return True

    def _work_on_deletions(self, master: _Incarnation) -> bool:
        return master.deletions.delete_next()

    def _hang(self, master: _Incarnation) -> None:
        """Publishing takes long: it happens at the end of that time, or at its beginning and the answer is late."""
        self._storage_fault = ""
        master.hangs_until = self._clock.monotonic() + self._rng.uniform(0.5, 5.0)
        if self._rng.random() < 0.5:
            master.late_answer = master.store.perform(master.storage_work.popleft())

    def _is_there(self, master: _Incarnation) -> bool:
        """Whether a master lives, in its place or beside the one that has taken it."""
        return master is self._master or any(master is other for other in self._replaced)

    def _to_master(self, attempt: _Attempt, task: TaskId) -> bool:
        if not attempt.to_master[task]:
            return False
        event = attempt.to_master[task].popleft()
        if self._is_there(attempt.owner):  # nobody hears what is said to a dead master
            self._handle(attempt.owner, event)
        return True

    def _answer(self, attempt: _Attempt) -> bool:
        attempt.heartbeats.answered(*attempt.answers.popleft())
        return True

    def _to_task(self, attempt: _Attempt, task: TaskId) -> bool:
        if not attempt.heartbeats.may_act(self._clock.monotonic()):
            return False  # it may be old news, from before the task was given up
        attempt.senders[task](attempt.to_tasks[task].popleft())
        return True

    def _step_attempt(self, attempt: _Attempt) -> bool:
        attempt.steps_left -= 1
        if attempt.steps_left <= 0:
            self._bury(attempt)
            return True
        if not attempt.heartbeats.may_act(self._clock.monotonic()):
            return False  # until the master has answered, see `Trust`
        try:
            moved = attempt.simulated.step()
        except JobCancelledError:
            self._end(attempt, None)
            self._bury(attempt)
            return True
        except Exception as error:  # noqa: BLE001 - whatever fails a task
            self._check_cause(attempt, error)
            self._end(attempt, error)
            self._bury(attempt)
            return True
        if attempt.simulated.is_over:
            self._end(attempt, None)
            self._bury(attempt)
            return True
        return moved

    def _check_cause(self, attempt: _Attempt, error: Exception) -> None:
        """Refuse failures of tasks that no fault explains. To zombies anything may happen: others clean up after them."""
        is_zombie = attempt.ended or attempt.owner is not self._master
        is_fault = isinstance(error, StorageError) and str(error).startswith("simulated: ")
        if isinstance(error, AssertionError) or not (is_zombie or is_fault):
            raise AssertionError(
                f"attempt {attempt.number} failed, and no fault was the cause: {error}"
            ) from error

    def _pass_time(self) -> None:
        """Nothing can happen now: go to the moment when something can."""
        self._check_time()
        until = self._next_moment()
        if until == math.inf:
            raise AssertionError("the job stands still: nothing can happen any more")
        self._go_to(until)

    def _next_moment(self) -> float:
        now = self._clock.monotonic()
        moments = [
            max(min(self._next_poll(attempt), attempt.heartbeats.next_sign), attempt.frozen_until)
            for attempt in self._attempts
        ]
        for master in (self._master, *self._replaced):
            if master.frozen_until > now:
                moments.append(master.frozen_until)
                continue
            if master.timers:
                moments.append(master.timers[0][0])
            if master.hangs_until > now:
                moments.append(master.hangs_until)
        moments += [attempt.frozen_until for attempt in self._attempts if attempt.frozen_until > now]
        return min(moments, default=math.inf)

    def _next_poll(self, attempt: _Attempt) -> float:
        """When a task of an attempt wants to be asked; refuses one that would wait for hours, because a clock was set."""
        if not attempt.heartbeats.may_act(self._clock.monotonic()):
            return math.inf  # asking is of no use before the master has answered
        moment = attempt.simulated.next_poll()
        if _LONGEST_WAIT < moment - self._clock.monotonic() < math.inf:
            raise AssertionError(f"a task waits for {moment - self._clock.monotonic():.0f} s")
        return moment

    def _go_to(self, moment: float) -> None:
        self._clock.advance_to(moment)
        for attempt in list(self._attempts):
            attempt.simulated.rouse()
            self._give_signs_of_life(attempt)
        for master in (self._master, *self._replaced):
            if master.frozen_until > self._clock.monotonic():
                continue
            while master.timers and master.timers[0][0] <= self._clock.monotonic():
                master.mailbox.append(heapq.heappop(master.timers)[2])

    def _give_signs_of_life(self, attempt: _Attempt) -> None:
        now = self._clock.monotonic()
        if attempt.frozen_until > now:
            return
        owner = attempt.owner
        listens = self._is_there(owner) and owner.frozen_until <= now
        for task, question in attempt.heartbeats.speak(now, listens):
            said = events.TaskSaid(events.TaskOrigin(attempt.number, task), Alive(question))
            attempt.to_master[task].append(said)
        if attempt.heartbeats.has_lost_its_master(now):
            self._end(attempt, TaskLostError("simulated: the master gives no sign of life"))
            self._bury(attempt)

    # People -------------------------------------------------------------------------------------------

    def _wish(self, kind: str) -> None:
        directory = f"{self._uri}/savepoints"
        number = next(self._numbers)
        if kind == "savepoint":
            self._master.mailbox.append(events.SavepointRequested(number, directory))
        else:
            self._master.stops.add(number)
            drain = kind == "drain" and self._program.may_drain
            self._master.mailbox.append(events.StopWithSavepointRequested(number, directory, drain))

    def _wish_for_rescale(self) -> None:
        master = self._master
        bounds = master.plans.with_default(self._scale_rng.randint(1, 4))
        plan = self._fitting(master.plans, bounds)
        if plan.parallelism == master.plan.parallelism:
            master.mailbox.append(events.BoundsChanged(bounds))
            return
        number = next(self._numbers)
        master.rescales[number] = plan
        master.mailbox.append(events.RescaleRequested(number, plan, bounds))

    def _fitting(self, plans: ProgramPlans, bounds: Mapping[str, Bounds]) -> JobPlan:
        if not self._is_elastic:
            return plans.plan(bounds)
        return plans.largest(bounds, self._count_slots(plans, bounds)) or plans.smallest(bounds)

    def _count_slots(self, plans: ProgramPlans, bounds: Mapping[str, Bounds]) -> int:
        """At least so many that the job can run."""
        return self._scale_rng.randint(plans.smallest(bounds).slots, plans.plan(bounds).slots)

    def _rescaled(self, master: _Incarnation, answer: instructions.AnswerRescale) -> None:
        is_own = answer.request == BY_ITSELF
        wanted = master.plan if is_own else master.rescales.pop(answer.request)  # nobody is answered twice
        if answer.error is None:
            self.outcome.rescales += 1
            if master.plan != wanted:
                raise AssertionError("the job runs with another plan than it was asked to")
        else:
            self.outcome.refused_rescales += 1

    def _answered(self, master: _Incarnation, answer: instructions.AnswerSavepoint) -> None:
        if answer.path is not None and master is self._master:
            self.outcome.savepoints += 1
            if answer.request in master.stops:
                self._stopped_at = answer.path

    def _resumes(self) -> bool:
        """Whether the job was stopped with a savepoint: then it resumes from there."""
        complete = self._master.complete
        if complete is None or complete.status is not JobStatus.FINISHED or self._stopped_at is None:
            return False
        while (
            self._master.storage_work or self._master.deletions
        ):  # the driver ends when everything is cleaned up
            self._clock.advance_to(self._master.hangs_until)
            self._work_on_storage(self._master)
            self._work_on_deletions(self._master)
        self._began_at, self._stopped_at = self._stopped_at, None
        self._start_master()
        return True

    # The master ---------------------------------------------------------------------------------------

    def _start_master(self) -> None:
        """Start a driver, always with the same command: resume the job, else begin with the savepoint if there is one."""
        plan, program, plans_from = self._program.compile(self._rng.randint(1, min(4, MAX_PARALLELISM)))
        configuration = Configuration.from_dict(dict(plan.options))
        # A new driver on an empty volume cannot know that there was something.
        self._volume.operations_away = 0
        deletions = _DeletionsAside()
        taken = self._persistently(
            lambda: self._takeover(plan, program, configuration, deletions).take_over()
        )
        settings = MasterSettings(
            grace_seconds=0.05,
            policy=create_policy(configuration, self._rng),
            checkpoints=read_checkpoint_settings(configuration, plan.mode),
            heartbeat=HEARTBEAT,
            elastic=ElasticSettings(None, 0.0, 0.0, 0.0) if self._is_elastic else None,
        )
        plans = plans_from(taken.plan)
        core = MasterCore(taken.plan, settings, taken.start, self._rng, plans)
        self._master = _Incarnation(core, taken.store, taken.plan, plans, deletions)
        self._master.mailbox.append(events.Submitted())
        self.outcome.masters += 1

    def _takeover(
        self,
        plan: JobPlan,
        program: Sequence[ProgramOperator],
        configuration: Configuration,
        deletions: _DeletionsAside,
    ) -> Takeover:
        """What `preparation` makes of the options: only where the storage comes from is another thing."""
        job_id = f"{self.outcome.seed:032x}"
        retained = int(configuration.get(CHECKPOINTING_NUM_RETAINED))
        storage = self._open_storage(self._uri)
        checkpoints = JobCheckpoints(storage, job_id, plan.name, retained, self._open_storage)

        def fit(found: StoredCheckpoint) -> tuple[JobRestore, JobPlan]:
            return checkpoint_store.matched_start(found, plan, program, allow_non_restored=False)

        def given() -> tuple[JobRestore | None, JobPlan]:
            if self._began_at is None:
                return None, plan
            point = stored_checkpoint.load(self._began_at, self._open_storage)
            stored_checkpoint.verify(point, self._open_storage(point.root))
            return fit(point)

        def open_store(chosen: JobPlan) -> checkpoint_store.CheckpointStore:
            return checkpoint_store.CheckpointStore(
                checkpoints,
                chosen,
                job_id,
                open_directory=self._open_storage,
                warn=lambda text: None,
                aside=deletions.calling,
            )

        return Takeover(checkpoints, plan, job_id, fit, given, open_store, warn=lambda text: None)

    def _persistently(self, action: Callable[[], TakenOver]) -> TakenOver:
        while True:
            try:
                return action()
            except StorageError:
                continue  # a person would start the driver again
            except StateError as error:  # no fault damages what is complete, or takes it away for good
                raise AssertionError(f"a driver does not start: {error}") from error

    def _handle(self, master: _Incarnation, event: events.Event) -> None:
        for instruction in master.core.handle(event, self._clock.monotonic()):
            self._perform(master, instruction)

    def _perform(self, master: _Incarnation, instruction: instructions.Instruction) -> None:
        match instruction:
            case instructions.StartAttempt():
                self._start_attempt(master, instruction)
            case instructions.SendToTasks(tasks, message):
                self._send(master, tasks, message)
            case instructions.KillAttempt(number):
                self._kill(master, number)
            case instructions.SetTimer(number, timer, seconds):
                entry = (
                    self._clock.monotonic() + seconds,
                    next(self._numbers),
                    events.TimerElapsed(number, timer),
                )
                heapq.heappush(master.timers, entry)
            case instructions.CompleteJob():
                master.complete = instruction
            case instructions.AnswerSavepoint():
                self._answered(master, instruction)
            case instructions.AnswerRescale():
                self._rescaled(master, instruction)
            case instructions.CountSlots(number, wanted):
                slots = self._count_slots(master.plans, master.plans.bounds)
                master.mailbox.append(events.SlotsCounted(number, min(wanted, slots)))
            case instructions.ChangePlan(plan):
                master.plan, master.is_new_plan = plan, True
                master.storage_work.append(instruction)
            case instructions.AnswerCheckpoint() | instructions.AnswerQuery():
                raise AssertionError("nobody has asked for a checkpoint, or for a state")
            case instructions.RunWork():
                raise NotImplementedError("enumerators that work beside the master, in a simulation")
            case instructions.ChangeStatus() | instructions.AnnounceRestart():
                self._check_silence(master)
            case instructions.MeasureSilence(number):
                master.mailbox.append(events.SilenceMeasured(number, self._silences(master, number), None))
            case _:
                if isinstance(instruction, instructions.PublishCheckpoint):
                    self.outcome.checkpoints += 1
                master.storage_work.append(instruction)

    def _attempts_of(self, master: _Incarnation, number: int) -> list[_Attempt]:
        return [attempt for attempt in self._attempts if attempt.owner is master and attempt.number == number]

    def _silences(self, master: _Incarnation, number: int) -> tuple[tuple[events.TaskOrigin, float], ...]:
        now = self._clock.monotonic()
        return tuple(
            (events.TaskOrigin(number, task), seconds)
            for attempt in self._attempts_of(master, number)
            for task, seconds in attempt.heartbeats.silences(now)
        )

    def _check_silence(self, master: _Incarnation) -> None:
        """Refuse that tasks are given up for silence that were not silent."""
        failures = master.core.failures[:1]
        if failures and failures[0].error == HeartbeatError.__name__:
            for attempt in self._attempts_of(master, failures[0].attempt):
                if not attempt.was_silent:
                    raise AssertionError(
                        f"attempt {attempt.number} gave signs of life: {failures[0].message}"
                    )

    def _kill(self, master: _Incarnation, number: int) -> None:
        """The engine ends an attempt; processes that are frozen may only notice when they wake up."""
        for attempt in self._attempts_of(master, number):
            self._end(attempt, JobCancelledError("killed"))
            wakes_up = self._clock.monotonic() < attempt.frozen_until < math.inf
            if wakes_up and self._rng.random() < 0.7:
                attempt.steps_left = min(attempt.steps_left, self._rng.randint(1, 400))
            else:
                self._bury(attempt)

    def _start_attempt(self, master: _Incarnation, instruction: instructions.StartAttempt) -> None:
        is_new_plan, master.is_new_plan = master.is_new_plan, False
        if is_new_plan and not self._is_elastic and self._scale_rng.random() < 0.2:
            error = NotEnoughSlotsError(needed=master.plan.slots, available=0)
            master.mailbox.append(events.AttemptEnded(instruction.attempt, error))
            return
        restore = instruction.restore
        attempt = _Attempt(instruction.attempt, master, self._clock)
        deployment = Deployment(
            f"{self.outcome.seed:032x}",
            instruction.attempt,
            master.plan,
            instruction.checkpointing,
            None if restore is None else restore.tasks,
        )
        self._damage_local_copies()
        attempt.simulated = SimulatedAttempt(
            deployment,
            attempt,
            self._rng.getrandbits(32),
            clock=self._clock,
            storage=self._open_storage,
            local_copies=self._open_local_copies,
        )
        attempt.simulated.connect()
        self._attempts.append(attempt)
        self.outcome.attempts += 1

    def _send(self, master: _Incarnation, tasks: tuple[TaskId, ...], message: MasterMessage) -> None:
        for attempt in self._attempts:
            if attempt.owner is not master or attempt.number != master.core.attempt:
                continue
            for task in tasks:
                if isinstance(message, Alive):
                    attempt.answers.append((task, message.question))
                    continue
                lost = isinstance(message, CheckpointCompleted) and not message.final
                if lost and self._storage_fault == "lost notification":
                    self._storage_fault = ""
                    continue
                attempt.to_tasks[task].append(message)

    def _end(self, attempt: _Attempt, error: BaseException | None) -> None:
        """The engine has ended an attempt; everything its tasks said before comes first."""
        if attempt.ended or not self._is_there(attempt.owner):
            return
        attempt.ended = True
        for mails in attempt.to_master.values():
            attempt.owner.mailbox.extend(mails)
            mails.clear()
        attempt.owner.mailbox.append(events.AttemptEnded(attempt.number, error))

    def _bury(self, attempt: _Attempt) -> None:
        if attempt in self._attempts:
            self._attempts.remove(attempt)
            attempt.simulated.abandon()

    # Faults -------------------------------------------------------------------------------------------

    def _fault(self, kind: str) -> None:
        living = [
            attempt for attempt in self._attempts if attempt.owner is self._master and not attempt.ended
        ]
        match kind:
            case "task" | "zombie":
                if not living:
                    return
                attempt = self._rng.choice(living)
                self._end(attempt, TaskLostError("simulated: a task was lost"))
                if kind == "task":
                    self._bury(attempt)
                else:
                    attempt.steps_left = self._rng.randint(1, 200)
                    if self._rng.random() < 0.5:  # it speaks when the next attempt is at work
                        attempt.freeze(self._clock.monotonic() + self._freeze_seconds())
            case "frozen tasks":
                if not living:
                    return
                attempt = self._rng.choice(living)
                forever = self._rng.random() < 0.2
                attempt.freeze(math.inf if forever else self._clock.monotonic() + self._freeze_seconds())
            case "master":
                self._lose_attempts()
                self._start_master()
            case "frozen master":
                self._freeze_master()
                self._start_master()
            case "power":
                for attempt in list(self._attempts):
                    self._bury(attempt)
                self._replaced = []
                self._volume.lose_power(self._rng)
                self._start_master()
            case "away":
                self._volume.take_away(self._rng.choice((1, 2, 5, 20)))
            case "clock":
                self._clock.set_wall(self._rng.uniform(-7200.0, 7200.0))
            case _:
                if self._storage_fault:
                    return
                self._storage_fault = kind
        self._faults_left -= 1
        self.outcome.faults.append(kind)

    def _lose_attempts(self) -> None:
        """Their master is gone; some do not notice at once."""
        for attempt in list(self._attempts):
            if self._rng.random() < 0.5:
                self._bury(attempt)
            else:
                attempt.steps_left = min(attempt.steps_left, self._rng.randint(1, 200))

    def _freeze_master(self) -> None:
        """The master stops, with or without its tasks; when it wakes up another one has taken its place."""
        master = self._master
        master.frozen_until = self._clock.monotonic() + self._freeze_seconds()
        master.steps_left = self._rng.randint(1, 400)
        self._replaced.append(master)
        for attempt in self._attempts:
            if attempt.owner is master and self._rng.random() < 0.5:
                attempt.freeze(master.frozen_until)
            attempt.steps_left = min(attempt.steps_left, self._rng.randint(1, 800))

    def _freeze_seconds(self) -> float:
        return self._rng.choice((0.02, 0.2, 2.0)) * self._rng.random()

    def _open_storage(self, uri: str) -> FaultyStorage:
        return FaultyStorage(MemoryStorage.shared(uri), self._fails, self._volume)

    def _fails(self, step: str, when: str) -> bool:
        if not self._storage_fault:
            return False
        if self._storage_fault == "frozen publisher" and self._publishes:
            if (step, when) == ("publish", "before"):
                self._freeze_publisher()
            return False
        if when not in _STORAGE_FAULTS.get(self._storage_fault, ()) or self._rng.random() < 0.5:
            return False
        if when != "look" or self._rng.random() < 0.3:  # who looks twice may fail twice
            self._storage_fault = ""
        return True

    def _freeze_publisher(self) -> None:
        """A master is frozen when it is about to write a file; when it does, another one has taken its place."""
        self._storage_fault, self._publishes = "", False
        self._freeze_master()
        self._start_master()

    # Local copies -------------------------------------------------------------------------------------

    def _open_local_copies(
        self, configuration: Configuration, job_id: str, attempt: int
    ) -> LocalCopies | None:
        if not configuration.get(LOCAL_RECOVERY):
            return None
        storages = [
            FaultyStorage(MemoryStorage.shared(f"{self._local_uri}/{disk}"), self._local_fails)
            for disk in ("a", "b")
        ]
        self._local_copies.append(LocalCopies(storages, attempt, warn=lambda text: None))
        return self._local_copies[-1]

    def _local_fails(self, step: str, when: str) -> bool:
        return self._local_rng.random() < self._local_fault_chance

    def _damage_local_copies(self) -> None:
        """What may happen to them while no task runs; sometimes all are lost: the tasks go to another machine."""
        files = MemoryStorage.shared(self._local_uri).files
        moved = self._local_rng.random() < 0.1
        for name, content in sorted(files.items()):
            if not moved and self._local_rng.random() >= self._local_damage:
                continue
            place = self._local_rng.randrange(max(1, len(content)))
            kind = self._local_rng.choice(("lost", "torn", "changed")) if content and not moved else "lost"
            if kind == "lost":
                del files[name]
            elif kind == "torn":
                files[name] = content[:place]
            else:
                files[name] = content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
            self.outcome.local_losses += 1


def simulate(seed: int, max_faults: int | None = None, kinds: Sequence[str] = ()) -> Outcome:
    """Run one seed; raises when exactly-once does not hold, with the seed in a note."""
    return CrashSimulation(seed, max_faults, kinds).run()
