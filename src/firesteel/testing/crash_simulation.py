"""A whole job with checkpoints in one thread, in an order drawn from a seed, in which anything may crash.

Everything that decides is the real thing: the master's core, tasks, operators, backends, storage formats. Only the shells
are simulated: messages are queues that deliver in order for each task but with any delay against others, storage is a
dictionary that fails before, after or in the middle of a step. Time stands still while anything can happen, or, with
other seeds, goes on meanwhile: then sources produce and checkpoints begin while earlier records and barriers are still on
their way, and much waits at alignments. At every step the seed chooses what happens next, and now and then it chooses
a fault:

- a task is lost: its attempt ends, at once or as a zombie that goes on for a while and still sends messages;
- the master is lost, with everything it knew; another one takes the job up from storage, with another parallelism;
- a step of the storage fails, before or after it took effect, or leaves half a file behind;
- the storage hangs while a checkpoint is being published, often beyond the checkpoint's time-out;
- a notification that a checkpoint is complete gets lost;
- local copies of state cannot be written, get lost, are torn or changed, one or all. This happens all the time, for it
  must not matter.

People do things, too: they ask for savepoints, and stop the job with one to go on from it with another parallelism.

In the end the output of the transactions must be that of a run without faults. An attempt that is not a zombie fails
for no other reason than a fault: recovery would make up for the damage, and hide it. A failure names its seed, which
repeats it exactly.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from firesteel.checkpoint import restore_point
from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.common.configuration import Configuration
from firesteel.common.errors import JobCancelledError, StorageError, TaskLostError
from firesteel.common.job_status import JobStatus
from firesteel.common.options import CHECKPOINTING_NUM_RETAINED, LOCAL_RECOVERY
from firesteel.jobmaster import checkpoint_store, events, instructions
from firesteel.jobmaster.checkpoint_settings import read_checkpoint_settings
from firesteel.jobmaster.master_core import MasterCore, MasterSettings
from firesteel.jobmaster.restart_policy import create_policy
from firesteel.jobmaster.start_point import StartPoint
from firesteel.plan.executor import ControlEndpoint, Deployment
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import CheckpointCompleted, MasterMessage, TaskId, TaskMessage
from firesteel.testing.crash_programs import MAX_PARALLELISM, CrashProgram, check_output
from firesteel.testing.faulty_storage import FaultyStorage
from firesteel.testing.ledger import Ledger
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.simulator import SimulatedAttempt

__all__ = ["CrashSimulation", "Outcome", "simulate"]

_FAULTS = ("task", "zombie", "master", "storage", "storage", "torn", "hang", "lost notification")
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
    local_reads: int = 0  # segments that were restored from local copies
    local_losses: int = 0  # local copies that got lost, were torn or changed
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Incarnation:
    """One life of the master: its core, what it waits for, the attempts it started."""

    core: MasterCore
    store: checkpoint_store.CheckpointStore
    plan: JobPlan
    mailbox: deque[events.Event] = field(default_factory=deque)
    storage_work: deque[instructions.StorageInstruction] = field(default_factory=deque)
    hangs_until: float = 0.0  # the storage does nothing before
    late_answer: events.Event | None = None  # of what it had done before it hung
    timers: list[tuple[float, int, events.Event]] = field(default_factory=list)
    complete: instructions.CompleteJob | None = None
    stops: set[int] = field(default_factory=set)  # requests to stop with a savepoint


class _Attempt:
    """One attempt: its tasks, and the messages on their way in both directions. `plan.executor.Master` for the tasks."""

    def __init__(self, number: int, owner: _Incarnation) -> None:
        self.number = number
        self.owner = owner
        self.simulated: SimulatedAttempt
        self.to_master: dict[TaskId, deque[events.Event]] = {}
        self.to_tasks: dict[TaskId, deque[MasterMessage]] = {}
        self.senders: dict[TaskId, Callable[[MasterMessage], None]] = {}
        self.steps_left: float = math.inf  # of a zombie
        self.ended = False  # the engine has ended it, as far as the master knows

    def endpoint(self, host: str = "127.0.0.1") -> ControlEndpoint:
        raise NotImplementedError("tasks of a simulation are in this process")

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        self.senders[task] = send
        self.to_tasks[task] = deque()
        self.to_master[task] = deque([events.TaskConnected(events.Origin(self.number, task))])

    def deliver(self, task: TaskId, message: TaskMessage) -> None:
        self.to_master[task].append(events.TaskSaid(events.Origin(self.number, task), message))

    def collected(self, collect_id: str, blob: bytes) -> None:
        raise NotImplementedError("a simulation does not collect")


class CrashSimulation:
    """One seed. ``max_faults`` bounds how often something goes wrong, so that the job comes to its end."""

    def __init__(self, seed: int, max_faults: int | None = None) -> None:
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
        self._time_rng = random.Random(f"time {seed}")
        self._hurry = self._time_rng.choice((0.0, 0.1, 0.5))  # how often time goes on meanwhile
        self._hurries_left = 300  # for ever would be more than the tasks can keep up with
        self._clock = ManualClock()
        self._numbers = itertools.count()
        self._attempts: list[_Attempt] = []
        self._master: _Incarnation

    def run(self) -> Outcome:
        """Run the job to its end and check its output."""
        Ledger.forget(self._program.ledger)
        MemoryStorage.forget(self._uri)
        MemoryStorage.forget(self._local_uri)
        try:
            self._start_master()
            while (complete := self._master.complete) is None or self._goes_on():
                self._step()
                self.outcome.steps += 1
                if self.outcome.steps > _MAX_STEPS:
                    raise AssertionError("the job makes no progress")
            if complete.status is not JobStatus.FINISHED:
                raise AssertionError(f"the job ended as {complete.status.name}") from complete.error
            check_output(self._program, Ledger.named(self._program.ledger).committed)
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

    # Steps --------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Let one thing happen that can happen now."""
        if self._faults_left and self._rng.random() < self._fault_chance:
            self._fault(self._rng.choice(_FAULTS))
        if self._wishes_left and self._rng.random() < 0.01:
            self._wishes_left -= 1
            self._wish(self._rng.choice(_WISHES))
        if self._hurries_left and self._time_rng.random() < self._hurry:
            self._hurries_left -= 1
            self._go_to(self._clock.now() + self._time_rng.uniform(0, _HURRY_SECONDS))
        ways = self._ways()
        self._rng.shuffle(ways)
        if not any(way() for way in ways):
            self._pass_time()

    def _ways(self) -> list[Callable[[], bool]]:
        """What could happen; each says whether it did."""
        ways: list[Callable[[], bool]] = [self._handle_event, self._work_on_storage]
        for attempt in self._attempts:
            ways.append(partial(self._step_attempt, attempt))
            ways += [
                partial(self._to_master, attempt, task) for task, mails in attempt.to_master.items() if mails
            ]
            ways += [
                partial(self._to_task, attempt, task) for task, mails in attempt.to_tasks.items() if mails
            ]
        return ways

    def _handle_event(self) -> bool:
        if not self._master.mailbox:
            return False
        self._handle(self._master.mailbox.popleft())
        return True

    def _work_on_storage(self) -> bool:
        master = self._master
        if master.hangs_until > self._clock.now():
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
        answer = master.store.perform(master.storage_work.popleft())
        if answer is not None:
            master.mailbox.append(answer)
        return True

    def _hang(self, master: _Incarnation) -> None:
        """Publishing takes long: it happens at the end of that time, or at its beginning and the answer is late."""
        self._storage_fault = ""
        master.hangs_until = self._clock.now() + self._rng.uniform(0.5, 5.0)
        if self._rng.random() < 0.5:
            master.late_answer = master.store.perform(master.storage_work.popleft())

    def _to_master(self, attempt: _Attempt, task: TaskId) -> bool:
        event = attempt.to_master[task].popleft()
        if attempt.owner is self._master:  # nobody hears what is said to a dead master
            self._handle(event)
        return True

    def _to_task(self, attempt: _Attempt, task: TaskId) -> bool:
        attempt.senders[task](attempt.to_tasks[task].popleft())
        return True

    def _step_attempt(self, attempt: _Attempt) -> bool:
        attempt.steps_left -= 1
        if attempt.steps_left <= 0:
            self._bury(attempt)
            return True
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
        until = self._next_moment()
        if until == math.inf:
            raise AssertionError("the job stands still: nothing can happen any more")
        self._go_to(until)

    def _next_moment(self) -> float:
        timers = self._master.timers
        moments = [attempt.simulated.next_poll() for attempt in self._attempts]
        if timers:
            moments.append(timers[0][0])
        if self._master.hangs_until > self._clock.now():
            moments.append(self._master.hangs_until)
        return min(moments, default=math.inf)

    def _go_to(self, moment: float) -> None:
        self._clock.advance_to(moment)
        for attempt in self._attempts:
            attempt.simulated.rouse()
        timers = self._master.timers
        while timers and timers[0][0] <= self._clock.now():
            self._master.mailbox.append(heapq.heappop(timers)[2])

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

    def _answered(self, master: _Incarnation, answer: instructions.AnswerSavepoint) -> None:
        if answer.path is not None:
            self.outcome.savepoints += 1
            if answer.request in master.stops:
                self._stopped_at = answer.path

    def _goes_on(self) -> bool:
        """Whether the job was stopped with a savepoint: then it goes on from there."""
        complete = self._master.complete
        if complete is None or complete.status is not JobStatus.FINISHED or self._stopped_at is None:
            return False
        while self._master.storage_work:  # the driver ends when everything is cleaned up
            self._clock.advance_to(self._master.hangs_until)
            self._work_on_storage()
        self._began_at, self._stopped_at = self._stopped_at, None
        self._start_master(self._began_at)
        return True

    # The master ---------------------------------------------------------------------------------------

    def _start_master(self, path: str | None = None) -> None:
        plan = self._program.compile(self._rng.randint(1, min(4, MAX_PARALLELISM)))
        configuration = Configuration.from_dict(dict(plan.options))
        job_id = f"{self.outcome.seed:032x}"
        checkpoints = JobCheckpoints(
            self._open_storage(self._uri),
            job_id,
            plan.name,
            int(configuration.get(CHECKPOINTING_NUM_RETAINED)),
        )
        store = checkpoint_store.CheckpointStore(
            checkpoints, plan, job_id, open_directory=self._open_storage, warn=lambda text: None
        )
        beginning = self._persistently(partial(store.take_up, None if path is None else _load(path)))
        if beginning.point is None and self._began_at is not None:
            # Started again with the same command: no checkpoint yet, so the savepoint it was told to begin with.
            point = _load(self._began_at)
            number = max(beginning.next_checkpoint, point.checkpoint_id + 1)
            beginning = replace(beginning, point=point, next_checkpoint=number)
        settings = MasterSettings(
            grace_seconds=0.05,
            policy=create_policy(configuration, self._rng),
            checkpoints=read_checkpoint_settings(configuration, plan.mode),
        )
        self._master = _Incarnation(MasterCore(plan, settings, beginning, self._rng), store, plan)
        self._master.mailbox.append(events.Submitted())
        self.outcome.masters += 1

    def _persistently(self, action: Callable[[], Any]) -> Any:
        while True:
            try:
                return action()
            except StorageError:
                continue  # a person would start the driver again

    def _handle(self, event: events.Event) -> None:
        master = self._master
        for instruction in master.core.handle(event, self._clock.now()):
            self._perform(master, instruction)

    def _perform(self, master: _Incarnation, instruction: instructions.Instruction) -> None:
        match instruction:
            case instructions.StartAttempt():
                self._start_attempt(master, instruction)
            case instructions.SendToTasks(tasks, message):
                self._send(master, tasks, message)
            case instructions.KillAttempt(number):
                for attempt in list(self._attempts):
                    if attempt.owner is master and attempt.number == number:
                        self._end(attempt, JobCancelledError("killed"))
                        self._bury(attempt)
            case instructions.SetTimer(number, timer, seconds):
                entry = (self._clock.now() + seconds, next(self._numbers), events.TimerElapsed(number, timer))
                heapq.heappush(master.timers, entry)
            case instructions.CompleteJob():
                master.complete = instruction
            case instructions.AnswerSavepoint():
                self._answered(master, instruction)
            case instructions.RunWork():
                raise NotImplementedError("enumerators that work beside the master, in a simulation")
            case instructions.ChangeStatus() | instructions.AnnounceRestart():
                pass
            case _:
                if isinstance(instruction, instructions.PublishCheckpoint):
                    self.outcome.checkpoints += 1
                master.storage_work.append(instruction)

    def _start_attempt(self, master: _Incarnation, instruction: instructions.StartAttempt) -> None:
        point = instruction.point
        attempt = _Attempt(instruction.attempt, master)
        deployment = Deployment(
            f"{self.outcome.seed:032x}",
            instruction.attempt,
            master.plan,
            instruction.checkpointing,
            None if point is None else point.restore,
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
                lost = isinstance(message, CheckpointCompleted) and not message.final
                if lost and self._storage_fault == "lost notification":
                    self._storage_fault = ""
                    continue
                attempt.to_tasks[task].append(message)

    def _end(self, attempt: _Attempt, error: BaseException | None) -> None:
        """The engine has ended an attempt; everything its tasks said before comes first."""
        if attempt.ended or attempt.owner is not self._master:
            return
        attempt.ended = True
        for mails in attempt.to_master.values():
            while mails:
                self._handle(mails.popleft())
        self._master.mailbox.append(events.AttemptEnded(attempt.number, error))

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
            case "master":
                for attempt in list(self._attempts):
                    if self._rng.random() < 0.5:
                        self._bury(attempt)
                    else:
                        attempt.steps_left = min(attempt.steps_left, self._rng.randint(1, 200))
                self._start_master()
            case _:
                if self._storage_fault:
                    return
                self._storage_fault = kind
        self._faults_left -= 1
        self.outcome.faults.append(kind)

    def _open_storage(self, uri: str) -> FaultyStorage:
        return FaultyStorage(MemoryStorage.shared(uri), self._fails)

    def _fails(self, step: str, when: str) -> bool:
        wanted = {"storage": ("before", "after"), "torn": ("torn",)}.get(self._storage_fault, ())
        if when not in wanted or self._rng.random() < 0.5:
            return False
        self._storage_fault = ""
        return True

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


def _load(path: str) -> StartPoint:
    return checkpoint_store.start_point(restore_point.load(path))


def simulate(seed: int, max_faults: int | None = None) -> Outcome:
    """Run one seed; raises when exactly-once does not hold, with the seed in a note."""
    return CrashSimulation(seed, max_faults).run()
