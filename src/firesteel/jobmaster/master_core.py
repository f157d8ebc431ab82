"""One job, decided: lifecycle, checkpoints and sources as one machine. Events in, instructions out.

`JobMaster` drives it with threads, sockets and a clock; a simulator can drive it alone, in any order of events, and
"crash" it by making a new core from what storage holds (`checkpoint_store.Claim`). The core keeps no secrets from
storage: what is not in `StartPoint` and the numbers it is made with is lost with it, as it should be.

The only foreign code that runs inside are the sources' enumerators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from firesteel.common.errors import CheckpointError, NoSuchSnapshotError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoint_coordinator import CheckpointCoordinator
from firesteel.jobmaster.checkpoint_settings import CheckpointSettings
from firesteel.jobmaster.checkpoint_statistics import CheckpointStatistics
from firesteel.jobmaster.coordinator_messages import (
    AttemptOver,
    AttemptRunning,
    AttemptStarting,
    CoordinatorEvent,
    EnumeratorsFailed,
    EnumeratorsSaved,
    FailAttempt,
    FailJob,
    JobOver,
    SaveEnumerators,
)
from firesteel.jobmaster.events import (
    AttemptFailed,
    CheckpointNotPublished,
    CheckpointPublished,
    Event,
    LifecycleEvent,
    MasterFailed,
    RestoreFound,
    RestoreNotFound,
    SavepointRequested,
    StopWithSavepointRequested,
    TaskSaid,
    Timer,
    TimerElapsed,
    WorkDone,
)
from firesteel.jobmaster.instructions import (
    AnswerSavepoint,
    ChangeStatus,
    CompleteJob,
    FindRestore,
    Instruction,
    SendToTasks,
    StartAttempt,
)
from firesteel.jobmaster.job_lifecycle import JobLifecycle
from firesteel.jobmaster.restart_policy import NoRestart, RestartPolicy
from firesteel.jobmaster.source_coordinator import SourceCoordinator
from firesteel.jobmaster.start_point import StartPoint
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    CheckpointAborted,
    CheckpointCompleted,
    ReaderEvent,
    ReaderRegistered,
    SnapshotAcknowledged,
    SnapshotDeclined,
    SplitRequested,
    SubtaskEnded,
)


@dataclass(frozen=True, slots=True)
class MasterSettings:
    """How a job is run. ``checkpoints`` None: its tasks take no part in any."""

    grace_seconds: float = 2.0
    policy: RestartPolicy = field(default_factory=NoRestart)
    checkpoints: CheckpointSettings | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a core takes a job up; what earlier drivers of the same job left decides it.

    ``root`` is the directory of the job's checkpoints, empty when they are kept in memory. ``completed`` are the
    checkpoints that are there. ``next_checkpoint`` and ``first_attempt`` are greater than all that were used.
    """

    job_id: str = "0" * 32
    root: str = ""
    point: StartPoint | None = None
    completed: tuple[int, ...] = ()
    next_checkpoint: int = 1
    first_attempt: int = 1


class MasterCore:
    """Feed events to `handle` and perform what it returns, in order."""

    def __init__(
        self,
        plan: JobPlan,
        settings: MasterSettings | None = None,
        beginning: Beginning | None = None,
        random: Random | None = None,
    ) -> None:
        settings = settings or MasterSettings()
        beginning = beginning or Beginning()
        self._plan = plan
        self._beginning = beginning
        self._lifecycle = JobLifecycle(
            plan,
            settings.grace_seconds,
            settings.policy,
            checkpointing=settings.checkpoints is not None,
            start=beginning.point,
            first_attempt=beginning.first_attempt,
        )
        self._checkpoints = (
            None
            if settings.checkpoints is None
            else CheckpointCoordinator(
                plan,
                settings.checkpoints,
                beginning.job_id,
                root=beginning.root,
                next_id=beginning.next_checkpoint,
                completed=beginning.completed,
                random=random,
            )
        )
        self._sources = SourceCoordinator(plan)
        self._point: StartPoint | None = None  # of the current attempt
        self._unusable: frozenset[int] = frozenset()
        self._now = 0.0
        self._events: deque[Event] = deque()
        self._out: list[Instruction] = []

    @property
    def status(self) -> JobStatus:
        """The job's state now."""
        return self._lifecycle.status

    @property
    def attempt(self) -> int:
        """Number of the current attempt; 0 before the first."""
        return self._lifecycle.attempt

    @property
    def checkpoint_statistics(self) -> CheckpointStatistics:
        """Counts, sizes and times of checkpoints; may be read from any thread."""
        return CheckpointStatistics() if self._checkpoints is None else self._checkpoints.statistics

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take in what happened at ``now`` (seconds since 1970); returns what is to be done about it."""
        self._now = self._sources.now = now
        self._events.append(event)
        while self._events:
            self._take(self._events.popleft())
        out, self._out = self._out, []
        return out

    def _take(self, event: Event) -> None:
        match event:
            case SavepointRequested() | StopWithSavepointRequested():
                self._on_savepoint_wish(event)
            case CheckpointPublished() | CheckpointNotPublished() | TimerElapsed(_, Timer.CHECKPOINT):
                self._coordinate(event)
            case WorkDone(work, result, error):
                self._with_sources(lambda: self._sources.work_done(work, result, error))
            case RestoreFound(attempt, point):
                self._on_restore_found(attempt, point)
            case TaskSaid():
                self._on_task_said(event)
            case _:
                self._live(event)

    # Lifecycle.

    def _live(self, event: LifecycleEvent) -> None:
        for instruction in self._lifecycle.handle(event, self._now):
            match instruction:
                case CompleteJob(status):
                    self._sources.stop()
                    self._coordinate(JobOver(status))
                    self._out.append(instruction)
                case FindRestore():
                    self._find_restore(instruction)
                case _:
                    self._out.append(instruction)
                    self._follow(instruction)

    def _follow(self, instruction: Instruction) -> None:
        """What a step of the job's life means for its sources and checkpoints."""
        match instruction:
            case StartAttempt(_, _, point):
                self._point = point
                self._coordinate(AttemptStarting())
                states = {} if point is None else point.enumerators
                self._with_sources(lambda: self._sources.start(states))
            case ChangeStatus(JobStatus.RUNNING):
                self._coordinate(AttemptRunning(self.attempt, self._point))
            case ChangeStatus(JobStatus.FAILING | JobStatus.CANCELLING):
                self._sources.stop()
                failure = self._lifecycle.failure
                assert failure is not None
                self._coordinate(AttemptOver(failure))
            case _:
                pass

    def _find_restore(self, instruction: FindRestore) -> None:
        if self._checkpoints is None:
            self._events.append(RestoreFound(instruction.attempt, self._beginning.point))
        else:
            self._unusable = instruction.unusable
            self._out.append(instruction)

    def _on_restore_found(self, attempt: int, point: StartPoint | None) -> None:
        if point is None:
            point = self._beginning.point
            expected = self._checkpoints is not None and self._checkpoints.has_completed
            if expected or (point is not None and point.checkpoint_id in self._unusable):
                self._live(RestoreNotFound(attempt, self._nothing_left()))
                return
        self._live(RestoreFound(attempt, point))

    def _nothing_left(self) -> NoSuchSnapshotError:
        failure = self._lifecycle.failure
        reason = f": {failure}" if self._unusable and failure is not None else ""
        point = self._beginning.point
        if point is not None and not (self._checkpoints is not None and self._checkpoints.has_completed):
            return NoSuchSnapshotError(
                f"job '{self._plan.name}' cannot start from {point.path or 'what it was given'}, which cannot be read"
                f"{reason}; start it from another savepoint or checkpoint"
            )
        damaged = f"; damaged: {sorted(self._unusable)}{reason}" if self._unusable else ""
        return NoSuchSnapshotError(
            f"job '{self._plan.name}' cannot start again: none of its checkpoints can be read any more{damaged}; "
            "start it from a savepoint"
        )

    # Tasks.

    def _on_task_said(self, event: TaskSaid) -> None:
        match event.message:
            case SnapshotAcknowledged() | SnapshotDeclined() | SubtaskEnded() as message:
                if self._lifecycle.is_current(event.origin):
                    self._coordinate(message)
            case ReaderRegistered() | SplitRequested() | ReaderEvent() as request:
                if self._lifecycle.is_current(event.origin):
                    self._with_sources(lambda: self._sources.reader_said(request))
            case _:
                self._live(event)

    # Checkpoints.

    def _on_savepoint_wish(self, event: SavepointRequested | StopWithSavepointRequested) -> None:
        if self._checkpoints is not None:
            self._coordinate(event)
            return
        error = CheckpointError(
            f"no savepoint of job '{self._plan.name}': it takes no checkpoints, and savepoints need the same of its "
            "tasks; run it in STREAMING mode with enable_checkpointing(interval), which may be long"
        )
        self._out.append(AnswerSavepoint(event.request, None, error))

    def _coordinate(self, event: CoordinatorEvent) -> None:
        if self._checkpoints is None:
            return
        for instruction in self._checkpoints.handle(event, self._now):
            match instruction:
                case SaveEnumerators(checkpoint_id):
                    self._save_enumerators(checkpoint_id)
                case FailAttempt(error, rewind):
                    self._events.append(AttemptFailed(self.attempt, error, rewind))
                case FailJob(error):
                    self._events.append(MasterFailed(error))
                case _:
                    self._out.append(instruction)
            if isinstance(instruction, SendToTasks):
                self._tell_enumerators(instruction)

    def _save_enumerators(self, checkpoint_id: int) -> None:
        try:
            states = self._sources.snapshot(checkpoint_id)
        except Exception as error:  # noqa: BLE001 - whatever an enumerator raises fails the checkpoint only
            self._coordinate(EnumeratorsFailed(checkpoint_id, error))
        else:
            self._take_wishes()
            self._coordinate(EnumeratorsSaved(checkpoint_id, states))

    def _tell_enumerators(self, instruction: SendToTasks) -> None:
        match instruction.message:
            case CheckpointCompleted(checkpoint_id):
                self._with_sources(lambda: self._sources.checkpoint_completed(checkpoint_id))
            case CheckpointAborted(checkpoint_id):
                self._with_sources(lambda: self._sources.checkpoint_aborted(checkpoint_id))
            case _:
                pass

    # Sources.

    def _with_sources(self, action: Callable[[], None]) -> None:
        """Let enumerators do something; what they raise ends the attempt."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - it is user code
            self._events.append(AttemptFailed(self.attempt, error))
        self._take_wishes()

    def _take_wishes(self) -> None:
        wishes: Sequence[Instruction] = self._sources.out
        self._sources.out = []
        self._out.extend(wishes)
