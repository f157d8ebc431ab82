"""One job, decided: hop 12 of a checkpoint's life. Lifecycle, checkpoints and sources are one machine.

Events come in, instructions go out. `JobMaster` drives it with threads, sockets and a clock; a simulator can drive it
alone, in any order of events, and "crash" it by making a new core from what storage holds (`Takeover`). The core keeps no
secrets from storage: what is not in `JobRestore` and the numbers it is made with is lost with it, as it should be.

The only foreign code that runs inside are the sources' enumerators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from firesteel.common.errors import CheckpointError, NoSuchSnapshotError, RescaleError, UnknownLocationError
from firesteel.common.job_status import JobStatus
from firesteel.compiler.program_plans import ProgramPlans
from firesteel.jobmaster.checkpoints.coordinator import CheckpointCoordinator
from firesteel.jobmaster.checkpoints.coordinator_messages import (
    AttemptOver,
    AttemptRunning,
    AttemptStarting,
    CoordinatorEvent,
    EndTasksForRescale,
    EnumeratorsFailed,
    EnumeratorsSaved,
    FailAttempt,
    FailJob,
    JobOver,
    PlanChanged,
    SaveEnumerators,
    TaskHasEnded,
    TaskIsStaying,
)
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings
from firesteel.jobmaster.checkpoints.statistics import CheckpointStatistics
from firesteel.jobmaster.elasticity import RUNNING_SECONDS, Elasticity, ElasticSettings
from firesteel.jobmaster.events import (
    AttemptFailed,
    BoundsChanged,
    CheckpointNotPublished,
    CheckpointPublished,
    CheckpointRequested,
    Event,
    LifecycleEvent,
    MasterFailed,
    RescaleRequested,
    RestoreFound,
    RestoreNotFound,
    SavepointRequested,
    SilenceMeasured,
    SlotsCounted,
    StateQueried,
    StopWithSavepointRequested,
    TaskSaid,
    TasksEndForRescale,
    Timer,
    TimerElapsed,
    WorkDone,
)
from firesteel.jobmaster.failure_history import Failure
from firesteel.jobmaster.heartbeat_monitor import HeartbeatMonitor
from firesteel.jobmaster.host_history import HostRecord
from firesteel.jobmaster.instructions import (
    AnswerCheckpoint,
    AnswerQuery,
    AnswerRescale,
    AnswerSavepoint,
    ChangePlan,
    ChangeStatus,
    CompleteJob,
    FindRestore,
    Instruction,
    SendToTasks,
    SetTimer,
    StartAttempt,
)
from firesteel.jobmaster.job_lifecycle import JobLifecycle
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.queryable_states import QueryableStates
from firesteel.jobmaster.repeated_failures import RepetitionSettings
from firesteel.jobmaster.rescale_history import RescaleCause, RescaleHistory
from firesteel.jobmaster.restart_policy import NoRestart, RestartPolicy
from firesteel.jobmaster.source_coordinator import SourceCoordinator
from firesteel.jobmaster.task_states import TaskChange, TaskStatus
from firesteel.jobmaster.watermark_stalls import WatermarkStalls
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    Alive,
    CheckpointAborted,
    CheckpointCompleted,
    QueryableStateRegistered,
    ReaderEvent,
    ReaderRegistered,
    SnapshotAcknowledged,
    SnapshotDeclined,
    SplitRequested,
    StateAnswered,
    SubtaskEnded,
    TaskFinished,
    TaskStarted,
    TaskStays,
    WatermarkExplained,
    WatermarkStalled,
)


@dataclass(frozen=True, slots=True)
class MasterSettings:
    """How a job is run. ``checkpoints`` None: its tasks take no part in any, nor in savepoints; ``why_none`` says why.

    ``heartbeat`` None: nobody is expected to give signs of life. ``deployment_seconds``: how long the tasks may take to
    report after the engine has accepted the job, None for ever. ``remembered_failures``: how many failures are kept.
    ``repetition``: what happens when the same failure comes again and again. ``elastic``: how the job makes do with fewer slots
    than it asks for; None: it does not.
    """

    grace_seconds: float = 2.0
    policy: RestartPolicy = field(default_factory=NoRestart)
    checkpoints: CheckpointSettings | None = None
    why_none: str = "its tasks take no part in checkpoints"
    heartbeat: HeartbeatSettings | None = None
    deployment_seconds: float | None = None
    remembered_failures: int = 16
    repetition: RepetitionSettings = field(default_factory=RepetitionSettings)
    elastic: ElasticSettings | None = None


@dataclass(frozen=True, slots=True)
class MasterStart:
    """Where a core starts a job; what earlier drivers of the same job left decides it.

    ``root`` is the directory of the job's checkpoints, empty when they are kept in memory. ``completed`` are the
    checkpoints that are there. ``next_checkpoint`` and ``first_attempt`` are greater than all that were used.
    """

    job_id: str = "0" * 32
    root: str = ""
    restore: JobRestore | None = None
    completed: tuple[int, ...] = ()
    next_checkpoint: int = 1
    first_attempt: int = 1


#: The number of requests that nobody has made but the job itself.
BY_ITSELF = 0


class MasterCore:
    """Feed events to `handle` and perform what it returns, in order."""

    def __init__(
        self,
        plan: JobPlan,
        settings: MasterSettings | None = None,
        start: MasterStart | None = None,
        random: Random | None = None,
        plans: ProgramPlans | None = None,
    ) -> None:
        settings = settings or MasterSettings()
        start = start or MasterStart()
        self._elasticity = (
            None if settings.elastic is None or plans is None else Elasticity(plans, settings.elastic)
        )
        self._plan = plan
        self._start = start
        self._lifecycle = JobLifecycle(
            plan,
            settings.grace_seconds,
            settings.policy,
            checkpointing=settings.checkpoints is not None and settings.checkpoints.interval is not None,
            restore=start.restore,
            first_attempt=start.first_attempt,
            deployment_seconds=settings.deployment_seconds,
            remembered_failures=settings.remembered_failures,
            repetition=settings.repetition,
            elasticity=self._elasticity,
        )
        self._heartbeats = HeartbeatMonitor(settings.heartbeat)
        self._checkpoints = (
            None
            if settings.checkpoints is None
            else CheckpointCoordinator(
                plan,
                settings.checkpoints,
                start.job_id,
                root=start.root,
                next_id=start.next_checkpoint,
                completed=start.completed,
                random=random,
            )
        )
        self._why_no_savepoints = settings.why_none
        self._sources = SourceCoordinator(plan)
        self._stalls = WatermarkStalls(plan)
        #: The states that others may ask for.
        self.queryable = QueryableStates(plan)
        self._restore: JobRestore | None = None  # of the current attempt
        self._unusable: frozenset[int] = frozenset()
        self._slots_seen: int | None = None
        #: The changes of the job's parallelism; may be read from any thread.
        self.rescales = RescaleHistory()
        self._now = 0.0
        self._events: deque[Event] = deque()
        self._out: list[Instruction] = []

    @property
    def status(self) -> JobStatus:
        """Where the job stands after the last event."""
        return self._lifecycle.status

    @property
    def attempt(self) -> int:
        """Number of the current attempt; 0 before the first."""
        return self._lifecycle.attempt

    def task_statuses(self) -> list[TaskStatus]:
        """The tasks of the current attempt and their states; may be read from any thread."""
        return self._lifecycle.task_statuses()

    @property
    def earlier_tasks(self) -> tuple[tuple[TaskStatus, ...], ...]:
        """The tasks of attempts that have failed, the oldest first; may be read from any thread."""
        return self._lifecycle.earlier_tasks

    @property
    def status_times(self) -> tuple[tuple[JobStatus, int], ...]:
        """When the job came to each of its states, in milliseconds since 1970; may be read from any thread."""
        return self._lifecycle.status_times

    @property
    def wanted_slots(self) -> int:
        """How many slots the job asks for; may be read from any thread."""
        return self._plan.slots if self._elasticity is None else self._elasticity.desired.slots

    @property
    def slots_seen(self) -> int | None:
        """How many slots there were when they were last counted; None: nobody has. May be read from any thread."""
        return self._slots_seen

    def drain_task_changes(self) -> list[TaskChange]:
        """What has changed in them since the last time."""
        return self._lifecycle.drain_task_changes()

    def drain_news(self) -> list[str]:
        """What has happened since the last time that people should read at once."""
        news = self._lifecycle.drain_news() + self._stalls.drain_news()
        return news if self._checkpoints is None else news + self._checkpoints.drain_news()

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What attempts failed with, the newest first; may be read from any thread."""
        return self._lifecycle.failures

    @property
    def hosts(self) -> tuple[HostRecord, ...]:
        """Where tasks have run, and which of these hosts were lost; may be read from any thread."""
        return self._lifecycle.hosts

    @property
    def checkpoint_statistics(self) -> CheckpointStatistics:
        """Counts, sizes and times of checkpoints; may be read from any thread."""
        return CheckpointStatistics() if self._checkpoints is None else self._checkpoints.statistics

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """React to what happened at ``now`` (seconds since 1970); returns what is to be done about it."""
        self._now = self._sources.now = now
        self._events.append(event)
        while self._events:
            self._dispatch(self._events.popleft())
        out, self._out = self._out, []
        for instruction in out:
            if isinstance(instruction, AnswerRescale):
                self.rescales.end(instruction.request, instruction.error, now)
        return out

    def _dispatch(self, event: Event) -> None:
        match event:
            case SavepointRequested() | StopWithSavepointRequested():
                self._on_savepoint_requested(event)
            case RescaleRequested():
                self._on_rescale_requested(event)
            case BoundsChanged(bounds):
                if self._elasticity is not None:
                    self._elasticity.ask_for(bounds)
            case SlotsCounted():
                self._on_slots_counted(event)
            case CheckpointRequested():
                self._on_checkpoint_requested(event)
            case StateQueried(request, name, key):
                self._on_state_queried(request, name, key)
            case CheckpointPublished() | CheckpointNotPublished() | TimerElapsed(_, Timer.CHECKPOINT):
                self._coordinate(event)
            case TimerElapsed(_, Timer.HEARTBEAT):
                self._out += self._heartbeats.elapsed(event, self._now)
            case SilenceMeasured():
                lost, timers = self._heartbeats.measured(event, self._now)
                self._out += timers
                for silent in lost:
                    self._advance_lifecycle(silent)
            case WorkDone(work, result, error):
                self._with_sources(lambda: self._sources.work_done(work, result, error))
            case RestoreFound(attempt, restore):
                self._on_restore_found(attempt, restore)
            case TaskSaid():
                self._on_task_said(event)
            case _:
                self._advance_lifecycle(event)

    # Lifecycle.

    def _advance_lifecycle(self, event: LifecycleEvent) -> None:
        for instruction in self._lifecycle.handle(event, self._now):
            match instruction:
                case CompleteJob(status):
                    self._sources.stop()
                    self._stalls.end_attempt()
                    self._out += self.queryable.end_attempt()
                    self._coordinate(JobOver(status))
                    self._out.append(instruction)
                case FindRestore():
                    self._find_restore(instruction)
                case ChangePlan(plan, cause):
                    self._change_plan(plan, cause)
                    self._out.append(instruction)
                case _:
                    self._out.append(instruction)
                    self._propagate(instruction)

    def _propagate(self, instruction: Instruction) -> None:
        """What a step of the job's life means for its sources and checkpoints."""
        match instruction:
            case StartAttempt(attempt, _, restore):
                self._restore = restore
                self._out += self.queryable.end_attempt()
                self._out += self._heartbeats.begin(attempt, self._now)
                self._coordinate(AttemptStarting())
                states = {} if restore is None else restore.enumerators
                self._with_sources(lambda: self._sources.start(states))
            case ChangeStatus(JobStatus.RUNNING):
                if self._elasticity is not None:
                    self._elasticity.runs(self._now)
                    self._out.append(SetTimer(self.attempt, Timer.SLOTS, RUNNING_SECONDS))
                self._coordinate(AttemptRunning(self.attempt, self._restore))
            case ChangeStatus(JobStatus.FAILING | JobStatus.CANCELLING):
                self._heartbeats.end()
                self._sources.stop()
                self._stalls.end_attempt()
                self._out += self.queryable.end_attempt()
                failure = self._lifecycle.failure
                assert failure is not None
                self._coordinate(AttemptOver(failure))
            case _:
                pass

    def _change_plan(self, plan: JobPlan, cause: RescaleCause | None) -> None:
        if cause is not None:  # nobody has asked for it, and it has happened
            self.rescales.begin(BY_ITSELF, cause, self._plan, plan, self._now)
            self.rescales.end(BY_ITSELF, None, self._now)
        self._plan = plan
        self._heartbeats.end()
        self._sources.change_plan(plan)
        self._stalls.change_plan(plan)
        self.queryable.change_plan(plan)
        self._coordinate(PlanChanged(plan))

    def _find_restore(self, instruction: FindRestore) -> None:
        if self._checkpoints is None or not (
            self._checkpoints.is_periodic or self._checkpoints.has_completed
        ):
            self._events.append(RestoreFound(instruction.attempt, self._start.restore))
        else:
            self._unusable = instruction.unusable
            self._out.append(instruction)

    def _on_restore_found(self, attempt: int, restore: JobRestore | None) -> None:
        if restore is None:
            restore = self._start.restore
            expected = self._checkpoints is not None and self._checkpoints.has_completed
            if expected or (restore is not None and restore.checkpoint_id in self._unusable):
                self._advance_lifecycle(RestoreNotFound(attempt, self._nothing_left()))
                return
        self._advance_lifecycle(RestoreFound(attempt, restore))

    def _nothing_left(self) -> NoSuchSnapshotError:
        failure = self._lifecycle.failure
        reason = f": {failure}" if self._unusable and failure is not None else ""
        restore = self._start.restore
        if restore is not None and not (self._checkpoints is not None and self._checkpoints.has_completed):
            return NoSuchSnapshotError(
                f"job '{self._plan.name}' cannot start from {restore.path or 'what it was given'}, which cannot be read"
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
            case TaskStarted(queryable=states):
                if self._lifecycle.is_current(event.origin):
                    for state in states:
                        self._on_queryable_state(state)
                self._advance_lifecycle(event)
            case TaskStays():
                if self._lifecycle.is_current(event.origin):
                    self._coordinate(TaskIsStaying(event.origin.task))
            case TaskFinished():
                if self._lifecycle.is_current(event.origin):
                    self._coordinate(TaskHasEnded(event.origin.task))
                    self._out += self.queryable.task_ended(event.origin.task)
                self._advance_lifecycle(event)
            case Alive(question):
                if question and self._lifecycle.is_current(event.origin):
                    self._out.append(SendToTasks((event.origin.task,), Alive(question)))
            case WatermarkStalled() as stall:
                if self._lifecycle.is_current(event.origin):
                    self._out += self._stalls.stalled(stall)
            case WatermarkExplained() as answer:
                if self._lifecycle.is_current(event.origin):
                    self._out += self._stalls.explained(answer)
            case QueryableStateRegistered() | StateAnswered() as message:
                if self._lifecycle.is_current(event.origin):
                    self._on_queryable_state(message)
            case ReaderRegistered() | SplitRequested() | ReaderEvent() as request:
                if self._lifecycle.is_current(event.origin):
                    self._with_sources(lambda: self._sources.reader_said(request))
            case _:
                self._advance_lifecycle(event)

    # Queryable state.

    def _on_state_queried(self, request: int, name: str, key: Any) -> None:
        if self.status is JobStatus.RUNNING or not self.queryable.is_enabled:
            self._out.append(self.queryable.ask(request, name, key))
            return
        error = UnknownLocationError(
            f"job '{self._plan.name}' is {self.status.name}: its states can be asked for when it is RUNNING; ask again later"
        )
        self._out.append(AnswerQuery(request, None, error))

    def _on_queryable_state(self, message: QueryableStateRegistered | StateAnswered) -> None:
        if isinstance(message, StateAnswered):
            answer = self.queryable.answered(message)
            self._out += [] if answer is None else [answer]
            return
        problem = self.queryable.registered(message)
        if problem is not None:
            self._events.append(MasterFailed(problem))

    # Checkpoints.

    def _on_savepoint_requested(self, event: SavepointRequested | StopWithSavepointRequested) -> None:
        if self._checkpoints is not None:
            self._coordinate(event)
            return
        error = CheckpointError(f"no savepoint of job '{self._plan.name}': {self._why_no_savepoints}")
        self._out.append(AnswerSavepoint(event.request, None, error))

    def _on_rescale_requested(self, event: RescaleRequested) -> None:
        cause = RescaleCause.MORE_SLOTS if event.request == BY_ITSELF else RescaleCause.REQUEST
        self.rescales.begin(event.request, cause, self._plan, event.plan, self._now)
        if self._checkpoints is not None:
            self._coordinate(event)
            return
        error = RescaleError(f"job '{self._plan.name}' keeps its parallelism: {self._why_no_savepoints}")
        self._out.append(AnswerRescale(event.request, error))

    def _on_slots_counted(self, event: SlotsCounted) -> None:
        """Before an attempt that is for the lifecycle; a job that runs may have to continue as another plan."""
        if event.error is None:
            self._slots_seen = event.available
        elasticity = self._elasticity
        if elasticity is None or self.status is not JobStatus.RUNNING:
            self._advance_lifecycle(event)
            return
        if event.attempt != self.attempt:
            return
        self._out.append(SetTimer(self.attempt, Timer.SLOTS, RUNNING_SECONDS))
        if event.error is not None:
            return  # an engine that does not answer is noticed by other means
        better = elasticity.while_running(event.available, self._now, self._plan)
        if better is not None and not self.rescales.is_one_open:
            self._events.append(RescaleRequested(BY_ITSELF, better))

    def _on_checkpoint_requested(self, event: CheckpointRequested) -> None:
        if self._checkpoints is not None:
            self._coordinate(event)
            return
        error = CheckpointError(f"no checkpoint of job '{self._plan.name}': {self._why_no_savepoints}")
        self._out.append(AnswerCheckpoint(event.request, None, error))

    def _coordinate(self, event: CoordinatorEvent) -> None:
        if self._checkpoints is None:
            return
        for instruction in self._checkpoints.handle(event, self._now):
            match instruction:
                case SaveEnumerators(checkpoint_id):
                    self._save_enumerators(checkpoint_id)
                case EndTasksForRescale(RescaleRequested(request, plan, bounds), checkpoint):
                    ended = TasksEndForRescale(self.attempt, request, plan, bounds, checkpoint)
                    self._events.append(ended)
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
            self._drain_source_instructions()
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
        self._drain_source_instructions()

    def _drain_source_instructions(self) -> None:
        instructions: Sequence[Instruction] = self._sources.out
        self._sources.out = []
        self._out.extend(instructions)
