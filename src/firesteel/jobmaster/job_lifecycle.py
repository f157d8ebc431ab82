"""The life of a job as a pure machine: events in, instructions out; no threads, sockets or clock.

How a job goes, with the instructions that carry it::

    Submitted ───────────────> StartAttempt
    tasks say TaskStarted ───> ChangeStatus(RUNNING)
    tasks say TaskFinished,
    AttemptEnded(None) ──────> CompleteJob(FINISHED)

    a first failure, or CancelRequested:
      SendToTasks(CancelTask), SetTimer(GRACE) ─ all have answered, or time is over ─> KillAttempt
      SetTimer(KILL) ─ the engine does not end it ───────────────────────────────────> KillAttempt(by_force)
      AttemptEnded, last words of the tasks read ────────────────────────────────────> the attempt is over
      SetTimer(KILL) ─ not even force helps ─────────────────────────────────────────> the attempt is over

    a failed attempt is over:
      the restart policy allows another one ─> AnnounceRestart, SetTimer(RESTART)
      TimerElapsed(RESTART) ────────────────> FindRestore ─ RestoreFound ─> StartAttempt
      it does not, or no restart can help ──> CompleteJob(FAILED)

    a job that makes do with fewer slots than it asks for (`elasticity`), before each attempt:
      CountSlots ─ SlotsCounted ─> the plan that there is room for: ChangePlan; or, a little later, CountSlots again

    tasks end with the checkpoint of a rescale (`TasksEndForRescale`):
      AttemptEnded(None) ─> ChangePlan ─> FindRestore ─ RestoreFound ─> StartAttempt
      all tasks run ──────> AnswerRescale
      there are not enough slots for them ─> ChangePlan, back; the job goes on as it was
      an attempt that fails before its tasks have ended in order keeps its plan, too

A task, or the engine, that gives no sign of life (`TaskSilent`, `EngineSilent`) fails the attempt like one that is lost.

The first failure is the attempt's error; what follows from it (other tasks losing their peers, the engine
reporting an aborted job) is not. A failure of the master comes before that of the attempt: it is the reason why there is no
other attempt. Events of another attempt than the current one are ignored.

No restart helps when the program itself is wrong (`ProgramError`), saved state does not fit it or cannot be read any
more (`IncompatibleStateError`, `NoSuchSnapshotError`), another driver runs the job now (`JobTakenOverError`), the
master cannot continue (`MasterFailed`), or the engine is not ready for a job that has never run (`SetupError`; but
storage that fails may come back): a person is waiting for an answer then. For a job that has run, missing slots may come
back. A failure that comes again and again (`repeated_failures`) is told, and ends the job if the options say so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from firesteel.common.errors import (
    CheckpointError,
    CorruptStateError,
    FileMissingError,
    HeartbeatError,
    IncompatibleStateError,
    JobCancelledError,
    JobExecutionError,
    JobTakenOverError,
    NoSuchSnapshotError,
    NotEnoughSlotsError,
    ProgramError,
    RescaleError,
    SetupError,
    StorageError,
    TaskLostError,
)
from firesteel.common.job_status import JobStatus
from firesteel.common.time import to_millis
from firesteel.compiler.program_plans import Bounds
from firesteel.jobmaster.elasticity import Elasticity, Look
from firesteel.jobmaster.events import (
    AttemptAccepted,
    AttemptEnded,
    AttemptFailed,
    CancelRequested,
    EngineSilent,
    LifecycleEvent,
    MasterFailed,
    RestoreFound,
    RestoreNotFound,
    SlotsCounted,
    StopRequested,
    Submitted,
    TaskConnected,
    TaskDisconnected,
    TaskOrigin,
    TaskSaid,
    TasksEndForRescale,
    TaskSilent,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.failure_history import Failure, FailureHistory, FailureLabel, FailureLocation
from firesteel.jobmaster.host_history import HostHistory, HostRecord
from firesteel.jobmaster.instructions import (
    AnnounceRestart,
    AnswerRescale,
    ChangePlan,
    ChangeStatus,
    CompleteJob,
    CountSlots,
    FindRestore,
    Instruction,
    KillAttempt,
    SendToTasks,
    SetTimer,
    StartAttempt,
)
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.repeated_failures import RepeatedFailures, RepetitionSettings
from firesteel.jobmaster.rescale_history import RescaleCause
from firesteel.jobmaster.restart_policy import NoRestart, RestartPolicy
from firesteel.jobmaster.task_states import ExecutionState, TaskChange, TaskStatus
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.messages import (
    CancelTask,
    StopSources,
    TaskCancelled,
    TaskFailed,
    TaskFinished,
    TaskId,
    TaskMessage,
    TaskStarted,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.task_failure import to_exception

#: How long the engine may take to end a killed attempt before force is used; less when somebody waits for it.
KILL_SECONDS = 15.0
CANCEL_KILL_SECONDS = 3.5
#: How long force may take before the job continues without the attempt's end.
FORCE_SECONDS = 1.5
#: How long the last words of connected tasks are awaited after the engine has ended the attempt.
DRAIN_SECONDS = 3.0
#: How many attempts that are over are remembered with their tasks.
REMEMBERED_ATTEMPTS = 16

_INCURABLE = (ProgramError, IncompatibleStateError, NoSuchSnapshotError, JobTakenOverError)


class _TaskState(enum.Enum):
    ABSENT = enum.auto()
    CONNECTED = enum.auto()
    STARTED = enum.auto()
    FINISHED = enum.auto()
    GONE = enum.auto()  # failed, cancelled or lost


_BEFORE_START = (_TaskState.ABSENT, _TaskState.CONNECTED)
_ALIVE = (_TaskState.CONNECTED, _TaskState.STARTED)


class _Phase(enum.Enum):
    """Where an attempt stands; goes forward only, until the next attempt."""

    UNDER_WAY = enum.auto()
    CANCELLING = enum.auto()  # tasks have been asked to end
    KILLED = enum.auto()  # the engine has been told to end it
    ENDED = enum.auto()  # the engine has ended it; last words may be on their way
    PAUSED = enum.auto()  # it failed and is over; the next one has to wait
    WAITING = enum.auto()  # the next one needs to know how many slots there are
    FINDING = enum.auto()  # the next one looks for the checkpoint to start from


_BETWEEN = (_Phase.PAUSED, _Phase.WAITING, _Phase.FINDING)


@dataclass(slots=True)
class _Task:
    id: TaskId
    state: _TaskState = _TaskState.ABSENT
    connection: int = 0
    remote: bool = False
    host: str = ""
    pid: int = 0
    executor: str = ""
    shown: ExecutionState = ExecutionState.CREATED
    since: tuple[tuple[ExecutionState, int], ...] = ()

    @property
    def alive(self) -> bool:
        return self.state in _ALIVE

    @property
    def where(self) -> str:
        return f"on {self.host}, process {self.pid}" if self.host else ""


@dataclass(frozen=True, slots=True)
class _Rescale:
    """Another plan that tasks end for, or the first attempt of which has not run yet; ``before`` is the one it replaces."""

    request: int
    plan: JobPlan
    before: JobPlan
    checkpoint_id: int
    bounds: Mapping[str, Bounds] | None


class JobLifecycle:
    """One job from submission to end. Feed events to `handle` and perform what it returns, in order."""

    def __init__(
        self,
        plan: JobPlan,
        grace_seconds: float,
        policy: RestartPolicy | None = None,
        *,
        checkpointing: bool = False,
        restore: JobRestore | None = None,
        first_attempt: int = 1,
        deployment_seconds: float | None = None,
        remembered_failures: int = 16,
        repetition: RepetitionSettings | None = None,
        elasticity: Elasticity | None = None,
    ) -> None:
        self._plan = plan
        self._grace_seconds = grace_seconds
        self._policy = NoRestart() if policy is None else policy
        self._elasticity = elasticity
        self._checkpointing = checkpointing
        self._first_restore = restore
        self._first_attempt = first_attempt
        self._deployment_seconds = deployment_seconds
        self._failures = FailureHistory(remembered_failures)
        self._hosts = HostHistory()
        self._repeated = RepeatedFailures(plan, repetition or RepetitionSettings())
        self._status = JobStatus.CREATED
        self._completed = False
        self._stopping_sources = False
        self._cancel_requested = False
        self._is_master_failure = False
        self._has_run = False
        self._unusable: frozenset[int] = frozenset()  # checkpoints that tasks could not read
        self._now = 0.0
        self._out: list[Instruction] = []
        self._task_changes: list[TaskChange] = []
        self._news: list[str] = []
        self._since: tuple[tuple[JobStatus, int], ...] = ()
        self._earlier: tuple[tuple[TaskStatus, ...], ...] = ()
        self._begun_rescale: _Rescale | None = (
            None  # the plan is its new one, and no attempt of it has run yet
        )
        self._may_go_back = False  # no task of that plan has run
        self._has_said = False  # that it waits for slots
        self._ended_in_order: int | None = None  # the checkpoint with which all tasks ended for a rescale
        # What follows belongs to the current attempt.
        self._attempt = 0
        self._phase = _Phase.ENDED
        self._tasks: dict[TaskId, _Task] = {}
        self._restored: int | None = None
        self._failure: BaseException | None = None
        self._failure_label = FailureLabel.ENGINE
        self._earlier_failure: BaseException | None = None  # of the attempt before
        self._is_rewind = False
        self._taken_rescale: _Rescale | None = None  # the tasks are ending for it
        self._engine_error: BaseException | None = None
        self._engine_is_silent = False
        self._is_forced = False
        self._lost: TaskLostError | None = None

    @property
    def status(self) -> JobStatus:
        """Where the job stands after the last event."""
        return self._status

    @property
    def attempt(self) -> int:
        """Number of the current attempt; 0 before the first."""
        return self._attempt

    @property
    def failure(self) -> BaseException | None:
        """What the current attempt failed with, or why it was cancelled."""
        return self._failure or self._earlier_failure

    def task_statuses(self) -> list[TaskStatus]:
        """The tasks of the current attempt, in the order of the plan; may be read from any thread."""
        return [
            TaskStatus(
                self._names(task),
                task.shown,
                self._attempt,
                task.where,
                task.id,
                task.host,
                task.pid,
                task.since,
                task.executor,
            )
            for task in list(self._tasks.values())
        ]

    @property
    def earlier_tasks(self) -> tuple[tuple[TaskStatus, ...], ...]:
        """The tasks of attempts that have failed, with their last states, the oldest first; from any thread."""
        return self._earlier

    @property
    def status_times(self) -> tuple[tuple[JobStatus, int], ...]:
        """When the job came to each of its states, in milliseconds since 1970; from any thread."""
        return self._since

    def drain_task_changes(self) -> list[TaskChange]:
        """The changes of tasks' states since the last time, in their order."""
        changes, self._task_changes = self._task_changes, []
        return changes

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What attempts failed with, the newest first; may be read from any thread."""
        return self._failures.newest_first

    @property
    def hosts(self) -> tuple[HostRecord, ...]:
        """Where tasks have run, and which of these hosts were lost; may be read from any thread."""
        return self._hosts.records

    def drain_news(self) -> list[str]:
        """What has happened since the last time that people should read at once."""
        news, self._news = self._news, []
        return news

    def is_current(self, origin: TaskOrigin) -> bool:
        """Whether what this task says still counts: its attempt is under way and no repetition has replaced it."""
        task = self._tasks.get(origin.task)
        return (
            task is not None
            and origin.attempt == self._attempt
            and origin.connection == task.connection
            and self._phase is _Phase.UNDER_WAY
        )

    def handle(self, event: LifecycleEvent, now: float = 0.0) -> list[Instruction]:
        """React to what happened at ``now`` (seconds); returns what is to be done about it."""
        if self._completed:
            return []
        self._now = now
        match event:
            case Submitted() if self._attempt == 0 and self._status is JobStatus.CREATED:
                self._note_status()
                self._find_slots()
            case TaskConnected() | TaskSaid() | TaskDisconnected() | TaskSilent():
                self._on_task_event(event)
            case MasterFailed(error):
                self._fail_for_good(error)
            case CancelRequested():
                self._on_cancel()
            case StopRequested():
                self._on_stop()
            case RestoreFound(attempt, restore):
                if attempt == self._attempt + 1 and self._phase is _Phase.FINDING:
                    self._change_status(JobStatus.CREATED)
                    self._start_attempt(attempt, restore)
            case RestoreNotFound(attempt, error):
                if attempt == self._attempt + 1 and self._phase is _Phase.FINDING:
                    self._fail(error)
            case AttemptAccepted() | AttemptEnded() | AttemptFailed() | EngineSilent() | TimerElapsed():
                self._on_attempt_event(event)
            case TasksEndForRescale(attempt, request, plan, bounds, checkpoint_id):
                if attempt == self._attempt and self._phase is _Phase.UNDER_WAY:
                    self._taken_rescale = _Rescale(request, plan, self._plan, checkpoint_id, bounds)
            case SlotsCounted():
                if event.attempt == self._attempt and self._phase is _Phase.WAITING:
                    self._on_slots_counted(event)
            case _:
                pass
        out, self._out = self._out, []
        return out

    def _on_attempt_event(
        self, event: AttemptAccepted | AttemptEnded | AttemptFailed | EngineSilent | TimerElapsed
    ) -> None:
        if event.attempt != self._attempt:
            return
        match event:
            case AttemptAccepted():
                # In batch mode later stages have to wait for their slots.
                if self._plan.mode is RuntimeMode.STREAMING and self._phase is _Phase.UNDER_WAY:
                    for task in self._tasks.values():
                        if task.shown is ExecutionState.SCHEDULED:
                            self._show(task, ExecutionState.DEPLOYING)
                    if self._deployment_seconds is not None:
                        self._out.append(SetTimer(self._attempt, Timer.DEPLOYMENT, self._deployment_seconds))
            case AttemptEnded(_, error):
                self._on_attempt_ended(error)
            case AttemptFailed(_, error, rewind):
                if self._phase is _Phase.UNDER_WAY:
                    self._is_rewind = rewind
                    self._fail(error, is_user_code=not isinstance(error, CheckpointError))
            case EngineSilent(_, seconds, limit):
                if self._phase is _Phase.UNDER_WAY:
                    self._engine_is_silent = True
                    self._fail(
                        HeartbeatError(
                            f"Spark's driver process has not answered for {seconds:.1f} s, and 'heartbeat.timeout' is "
                            f"{limit:g} s: it is stopped, or busy with nothing but collecting garbage"
                        )
                    )
            case TimerElapsed(_, timer):
                self._on_timer(timer)

    # Tasks.

    def _on_task_event(self, event: TaskConnected | TaskSaid | TaskDisconnected | TaskSilent) -> None:
        origin = event.origin
        task = self._tasks.get(origin.task)
        if task is None or origin.attempt != self._attempt:
            return
        if isinstance(event, TaskConnected):
            self._on_connected(task, event)
            return
        if origin.connection != task.connection:
            return  # a repetition of the task has replaced it (batch mode)
        match event:
            case TaskDisconnected():
                self._on_disconnected(task)
            case TaskSilent(_, seconds, limit):
                self._on_silent(task, seconds, limit)
            case TaskSaid(_, message):
                self._on_said(task, message)
        self._advance()

    def _on_connected(self, task: _Task, event: TaskConnected) -> None:
        task.state = _TaskState.CONNECTED
        task.connection = event.origin.connection
        task.remote = event.remote
        if event.host:
            task.host, task.pid, task.executor = event.host, event.pid, event.executor
        if task.shown is not ExecutionState.DEPLOYING:
            self._show(task, ExecutionState.DEPLOYING)
        self._show(task, ExecutionState.INITIALIZING)
        if self._phase is not _Phase.UNDER_WAY:
            self._out.append(SendToTasks((task.id,), CancelTask(self._cancel_requested)))
        elif self._stopping_sources:
            self._out.append(SendToTasks((task.id,), StopSources()))

    def _on_said(self, task: _Task, message: TaskMessage) -> None:
        match message:
            case TaskStarted(host, pid):
                task.state = _TaskState.STARTED
                self._may_go_back = False
                task.host, task.pid = host, pid
                if (news := self._hosts.seen(host, self._now)) is not None:
                    self._news.append(news)
                self._show(task, ExecutionState.RUNNING)
            case TaskFinished():
                task.state = _TaskState.FINISHED
                self._show(task, ExecutionState.FINISHED)
            case TaskCancelled():
                task.state = _TaskState.GONE
                self._show(task, ExecutionState.CANCELED)
            case TaskFailed():
                task.state = _TaskState.GONE
                self._show(task, ExecutionState.FAILED)
                self._fail(to_exception(message), task, is_user_code=True)

    def _on_disconnected(self, task: _Task) -> None:
        if not task.alive:
            return
        task.state = _TaskState.GONE
        is_lost = self._phase is _Phase.UNDER_WAY
        self._show(task, ExecutionState.FAILED if is_lost else ExecutionState.CANCELED)
        error = TaskLostError(
            f"lost {self._describe(task)}: its Python worker process was killed or crashed (out of memory?)"
        )
        if self._phase is not _Phase.UNDER_WAY:
            return  # that it goes is what everybody wants, or a consequence of what the engine will report
        if self._plan.mode is RuntimeMode.BATCH:
            self._lost = error  # Spark may run it again; counts only if Spark aborts the job
        else:
            self._fail(error, task)

    def _on_silent(self, task: _Task, seconds: float, limit: float) -> None:
        # In batch mode too: Spark repeats tasks that end, and this one does not.
        # Of several that are lost together the first fails the attempt, and nobody waits for the others either.
        if not task.alive or not (self._phase is _Phase.UNDER_WAY or self._status is JobStatus.FAILING):
            return
        task.state = _TaskState.GONE
        self._show(task, ExecutionState.FAILED)
        error = HeartbeatError(
            f"lost {self._describe(task)}: no sign of life for {seconds:.1f} s, and 'heartbeat.timeout' is {limit:g} s; "
            "the process or its machine is stopped, starved or cut off, or C code holds Python's interpreter lock"
        )
        self._fail(error, task)

    def _show(self, task: _Task, state: ExecutionState) -> None:
        if state is not task.shown:
            change = TaskChange(self._names(task), self._attempt, task.shown, state, task.where)
            self._task_changes.append(change)
            task.shown = state
            task.since = (*task.since, (state, to_millis(self._now)))

    def _describe(self, task: _Task) -> str:
        return f"task {self._names(task)} {task.where}".rstrip()

    def _names(self, task: _Task) -> str:
        hosted = self._hosted(task)
        return " + ".join(f"{v.name} ({subtask + 1}/{v.parallelism})" for v, subtask in hosted) or str(
            task.id
        )

    def _hosted(self, task: _Task) -> list[tuple[VertexPlan, int]]:
        """The vertices of which the task runs a subtask, and which one."""
        return [
            (vertex, task.id.index - vertex.first_task)
            for vertex in self._plan.vertices
            if vertex.stage == task.id.stage
            and vertex.first_task <= task.id.index < vertex.first_task + vertex.parallelism
        ]

    def _alive(self) -> list[_Task]:
        return [task for task in self._tasks.values() if task.alive]

    # Ways to end.

    def _on_cancel(self) -> None:
        self._cancel_requested = True  # also of a job that is failing: it must not start again
        if self._status in (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING):
            self._change_status(JobStatus.CANCELLING)
            self._failure = self._cancellation()
            self._cancel_tasks()
        elif self._phase is _Phase.KILLED and not self._is_forced:
            # Somebody waits now.
            self._out.append(SetTimer(self._attempt, Timer.KILL, CANCEL_KILL_SECONDS))

    def _cancellation(self) -> JobCancelledError:
        return JobCancelledError(f"job '{self._plan.name}' was cancelled")

    def _on_stop(self) -> None:
        if not self._stopping_sources:
            self._stopping_sources = True
            if self._phase is _Phase.UNDER_WAY:
                self._out.append(SendToTasks(tuple(task.id for task in self._alive()), StopSources()))

    def _fail(self, error: BaseException, task: _Task | None = None, *, is_user_code: bool = False) -> None:
        if self._failure is None:
            self._failure = error
            self._taken_rescale = None
            location = None if task is None else self._location(task)
            noted = self._failures.add(self._attempt, self._now, error, location, is_user_code=is_user_code)
            self._failure_label = noted.label
            if isinstance(error, TaskLostError):
                self._hosts.lost(noted.location.host, self._now, str(error))
            if isinstance(error, HeartbeatError):
                self._news.append(str(error))
            self._change_status(JobStatus.FAILING)
            self._cancel_tasks()
        elif task is not None and self._status is JobStatus.FAILING:
            location = self._location(task)
            self._failures.add_concurrent(
                self._attempt, self._now, error, location, is_user_code=is_user_code
            )
            if isinstance(error, TaskLostError):
                self._hosts.lost(location.host, self._now, str(error))

    def _fail_for_good(self, error: BaseException) -> None:
        """The master cannot run the job any more: that is why it ends, even if its attempt had failed just before."""
        is_second, self._is_master_failure = self._is_master_failure, True
        if self._status is JobStatus.FAILING and not is_second:
            self._failure = error
            self._failures.add(self._attempt, self._now, error)
            self._advance()
        else:
            self._fail(error)

    def _location(self, task: _Task) -> FailureLocation:
        hosted = self._hosted(task)
        if len(hosted) == 1:
            vertex, subtask = hosted[0]
            return FailureLocation(vertex.name, subtask, task.host, task.pid, task.executor)
        return FailureLocation(self._names(task), None, task.host, task.pid, task.executor)

    def _cancel_tasks(self) -> None:
        if self._phase is not _Phase.UNDER_WAY:
            self._advance()
            return
        self._phase = _Phase.CANCELLING
        if alive := self._alive():
            for task in alive:
                self._show(task, ExecutionState.CANCELING)
            self._out.append(
                SendToTasks(tuple(task.id for task in alive), CancelTask(self._cancel_requested))
            )
        self._out.append(SetTimer(self._attempt, Timer.GRACE, self._grace_seconds))
        self._advance()

    # The attempt.

    def _start_attempt(self, attempt: int, restore: JobRestore | None) -> None:
        self._attempt = attempt
        self._phase = _Phase.UNDER_WAY
        self._engine_is_silent = self._is_forced = False
        self._taken_rescale = None
        ids = (TaskId(stage.index, index) for stage in self._plan.stages for index in range(stage.tasks))
        self._tasks = {task_id: _Task(task_id) for task_id in ids}
        for task in self._tasks.values():
            self._show(task, ExecutionState.SCHEDULED)
        self._restored = None if restore is None else restore.checkpoint_id
        if restore is not None and restore.checkpoint_id == self._ended_in_order:
            restore = replace(restore, tasks=replace(restore.tasks, ended_in_order=True))
        self._out.append(StartAttempt(attempt, self._checkpointing, restore))

    def _find_slots(self) -> None:
        """Start the next attempt; one that makes do with fewer slots has to know first how many there are."""
        if self._elasticity is None or self._begun_rescale is not None:  # which has its slots
            self._find_start()
            return
        self._phase = _Phase.WAITING
        self._count_slots()

    def _count_slots(self) -> None:
        if self._elasticity is not None:
            self._out.append(CountSlots(self._attempt, self._elasticity.desired.slots))

    def _on_slots_counted(self, counted: SlotsCounted) -> None:
        assert self._elasticity is not None
        if counted.error is not None:
            self._fail(counted.error)
            return
        match self._elasticity.before_start(counted.available, self._now):
            case NotEnoughSlotsError() as error:
                self._fail(error)
            case Look(seconds):
                self._say_that_it_waits(counted.available)
                self._out.append(SetTimer(self._attempt, Timer.SLOTS, seconds))
            case plan:
                self._has_said = False
                if plan.parallelism != self._plan.parallelism:
                    first = self._attempt == 0
                    self._change_plan(plan, RescaleCause.FEWER_SLOTS if first else RescaleCause.FAILURE)
                    self._say_that_it_changes(counted.available)
                self._find_start()

    def _say_that_it_waits(self, available: int) -> None:
        assert self._elasticity is not None
        if not self._has_said:
            self._has_said = True
            needed = self._elasticity.desired.slots
            self._news.append(
                f"job '{self._plan.name}' waits for slots: it asks for {needed}, and there are {available}"
            )

    def _say_that_it_changes(self, available: int) -> None:
        self._news.append(
            f"job '{self._plan.name}' runs with {self._plan.slots} tasks: there are {available} slots for it"
        )

    def _find_start(self) -> None:
        if self._attempt == 0:
            self._start_attempt(self._first_attempt, self._first_restore)
        else:
            self._phase = _Phase.FINDING
            self._out.append(FindRestore(self._attempt + 1, self._unusable))

    def _on_attempt_ended(self, error: BaseException | None) -> None:
        if self._phase in _BETWEEN:
            return  # it took longer than anybody wanted to wait
        if self._phase is not _Phase.KILLED:
            self._engine_error = error  # later ones say only that it was killed
        self._phase = _Phase.ENDED
        if self._last_words_due():
            self._out.append(SetTimer(self._attempt, Timer.DRAIN, DRAIN_SECONDS))
        self._advance()

    def _on_timer(self, timer: Timer) -> None:
        match timer:
            case Timer.GRACE if self._phase is _Phase.CANCELLING:
                self._kill()
            case Timer.KILL if self._phase is _Phase.KILLED:
                if self._is_forced:
                    self._news.append(
                        f"attempt {self._attempt} of job '{self._plan.name}' does not end; the job continues without it, "
                        "and processes of it may remain until they notice that nobody talks to them"
                    )
                    self._phase = _Phase.ENDED
                    self._conclude()
                else:
                    self._kill(by_force=True)
            case Timer.DEPLOYMENT if self._phase is _Phase.UNDER_WAY:
                self._check_deployment()
            case Timer.DRAIN if self._phase is _Phase.ENDED:
                self._conclude()
            case Timer.RESTART if self._phase is _Phase.PAUSED:
                self._find_slots()
            case Timer.SLOTS if self._phase is _Phase.WAITING or self._status is JobStatus.RUNNING:
                self._count_slots()

    def _advance(self) -> None:
        """After any change: do the next step that is due."""
        match self._phase:
            case _Phase.UNDER_WAY:
                self._check_running()
            case _Phase.CANCELLING:
                # A lost task is about to make the engine abort the job by itself: its reason is worth the wait.
                if not self._alive() and not self._engine_aborts_by_itself:
                    self._kill()
            case _Phase.ENDED:
                if not self._last_words_due():
                    self._conclude()
            case _Phase.PAUSED | _Phase.WAITING | _Phase.FINDING:
                if self._failure is not None:
                    self._conclude()

    def _check_running(self) -> None:
        if self._status is not JobStatus.CREATED:
            return
        started = [task.state not in _BEFORE_START for task in self._tasks.values()]
        # In batch mode later stages start when earlier ones have ended.
        if any(started) if self._plan.mode is RuntimeMode.BATCH else all(started):
            self._has_run = True
            self._change_status(JobStatus.RUNNING)
            if self._begun_rescale is not None:
                self._out.append(AnswerRescale(self._begun_rescale.request))
                if self._elasticity is not None and self._begun_rescale.bounds is not None:
                    self._elasticity.ask_for(self._begun_rescale.bounds)
                self._begun_rescale = None

    @property
    def _engine_aborts_by_itself(self) -> bool:
        return isinstance(self._failure, TaskLostError) and not isinstance(self._failure, HeartbeatError)

    def _check_deployment(self) -> None:
        absent = [task for task in self._tasks.values() if task.state is _TaskState.ABSENT]
        if absent:
            self._fail(
                TaskLostError(
                    f"{len(absent)} of {len(self._tasks)} tasks have not reported {self._deployment_seconds:g} s after Spark "
                    f"took the job ('slot.request.timeout'), the first is {self._describe(absent[0])}: the processes in "
                    "which Python tasks start do not answer, or cannot reach this driver"
                )
            )

    def _kill(self, by_force: bool = False) -> None:
        self._phase = _Phase.KILLED
        self._is_forced = by_force or self._engine_is_silent
        self._out.append(KillAttempt(self._attempt, self._is_forced))
        if self._is_forced:
            seconds = FORCE_SECONDS
        else:
            seconds = CANCEL_KILL_SECONDS if self._cancel_requested else KILL_SECONDS
        self._out.append(SetTimer(self._attempt, Timer.KILL, seconds))

    def _last_words_due(self) -> bool:
        # Tasks in this process have said everything before their attempt ends.
        return any(task.remote for task in self._alive())

    # The end.

    def _conclude(self) -> None:
        if self._completed:
            return
        if self._failure is None:
            self._fail_if_incomplete()
        match self._status:
            case JobStatus.CANCELLING:
                self._complete(JobStatus.CANCELED)
            case JobStatus.FAILING:
                self._note_engine_error()
                self._restart_or_end()
            case _ if self._taken_rescale is not None:
                self._resume_rescaled(self._taken_rescale)
            case _:
                if self._status is JobStatus.CREATED:
                    self._change_status(JobStatus.RUNNING)
                self._complete(JobStatus.FINISHED)

    # Another plan.

    def _resume_rescaled(self, rescale: _Rescale) -> None:
        """All tasks have ended in order, with everything committed: those of the new plan take their place."""
        self._show_ends()
        self._begun_rescale, self._taken_rescale, self._may_go_back = rescale, None, True
        self._ended_in_order = rescale.checkpoint_id
        self._phase = _Phase.PAUSED
        self._change_status(JobStatus.RESTARTING)
        self._change_plan(rescale.plan, in_order=True)
        self._out.append(SetTimer(self._attempt, Timer.RESTART, 0.0))

    def _change_plan(self, plan: JobPlan, cause: RescaleCause | None = None, in_order: bool = False) -> None:
        self._plan = plan
        self._repeated.plan = plan
        self._tasks = {}
        self._earlier = ()  # numbers of tasks mean something else now
        self._out.append(ChangePlan(plan, cause, in_order))

    @property
    def _goes_back(self) -> bool:
        """Whether the new plan turned out to have too few slots, so that the job goes on as it was.

        Not after a task of it has run, which may have shown its results. A job that makes do with what there is counts slots
        again after any failure.
        """
        has_no_room = self._may_go_back and isinstance(self._failure, NotEnoughSlotsError)
        return self._begun_rescale is not None and (has_no_room or self._elasticity is not None)

    def _go_back(self, rescale: _Rescale) -> None:
        self._begun_rescale = None
        self._change_plan(rescale.before)
        error = RescaleError(f"job '{self._plan.name}' keeps its parallelism: {self._earlier_failure}")
        self._out.append(AnswerRescale(rescale.request, error))

    def _restart_or_end(self) -> None:
        delay = self._restart_delay()
        if (
            not self._is_rewind
            and not self._cancel_requested
            and self._is_repeated(restarts=delay is not None)
        ):
            delay = None
        if delay is None:
            self._complete(JobStatus.FAILED)
        elif self._cancel_requested:
            self._change_status(JobStatus.CANCELLING)
            self._failure = self._cancellation()
            self._complete(JobStatus.CANCELED)
        else:
            self._pause(delay)

    def _restart_delay(self) -> float | None:
        error = self._failure
        if self._is_master_failure or isinstance(error, _INCURABLE):
            return None
        if isinstance(error, SetupError) and not isinstance(error, StorageError) and not self._has_run:
            return None
        return 0.0 if self._is_rewind or self._goes_back else self._policy.next_delay(self._now)

    def _is_repeated(self, restarts: bool) -> bool:
        """Whether the job ends because it has failed like this before; says so, or that it only could."""
        assert self._failure is not None
        repetition = self._repeated.failed(self._failure, self._failure_label, self._restored, restarts)
        if repetition is None:
            return False
        if repetition.ends_job:
            self._failure.add_note(repetition.text)
        else:
            self._news.append(repetition.text)
        return repetition.ends_job

    def _pause(self, delay: float) -> None:
        """The attempt is over and leaves nothing behind but what its failure teaches."""
        assert self._failure is not None
        if isinstance(self._failure, (CorruptStateError, FileMissingError)) and self._restored is not None:
            self._unusable |= {self._restored}
        self._show_ends()
        self._out.append(AnnounceRestart(self._attempt, self._failure, delay))
        self._phase = _Phase.PAUSED
        self._earlier = (*self._earlier, tuple(self.task_statuses()))[-REMEMBERED_ATTEMPTS:]
        self._tasks = {}
        self._earlier_failure = self._failure
        going_back = self._begun_rescale if self._goes_back else None
        self._failure = self._engine_error = self._lost = self._restored = None
        self._is_rewind = False
        self._change_status(JobStatus.RESTARTING)
        if going_back is not None:
            self._go_back(going_back)
        self._out.append(SetTimer(self._attempt, Timer.RESTART, delay))

    def _fail_if_incomplete(self) -> None:
        error = self._lost if self._engine_error is not None and self._lost else self._engine_error
        if error is None and (missing := next(self._unfinished(), None)):
            error = JobExecutionError(
                f"the engine ended the job, but {self._describe(missing)} never said that it had finished"
            )
        if error is not None:
            self._failure = error
            noted = self._failures.add(self._attempt, self._now, error, self._location_of_loss(error))
            self._failure_label = noted.label
            if isinstance(error, TaskLostError):
                self._hosts.lost(noted.location.host, self._now, str(error))
            self._change_status(JobStatus.FAILING)

    def _location_of_loss(self, error: BaseException) -> FailureLocation | None:
        """Where an executor was that the engine has lost: one of its tasks knows the machine."""
        if not isinstance(error, TaskLostError) or not error.executor:
            return None
        there = (task for task in self._tasks.values() if task.executor == error.executor)
        task = next(there, None)
        return None if task is None else self._location(task)

    def _unfinished(self) -> Iterator[_Task]:
        return (task for task in self._tasks.values() if task.state is not _TaskState.FINISHED)

    def _note_engine_error(self) -> None:
        reason = self._engine_error
        if isinstance(self._failure, TaskLostError) and reason is not None and reason is not self._failure:
            self._failure.add_note(f"the engine reported: {reason}")

    def _show_ends(self) -> None:
        """Tasks that have not said how they ended were ended."""
        for task in self._tasks.values():
            if not task.shown.is_terminal:
                self._show(task, ExecutionState.CANCELED)

    def _complete(self, status: JobStatus) -> None:
        self._show_ends()
        self._change_status(status)
        self._completed = True
        self._out.append(CompleteJob(status, self._failure))

    def _change_status(self, status: JobStatus) -> None:
        if not self._status.can_become(status):
            raise AssertionError(f"a job cannot go from {self._status.name} to {status.name}")
        self._status = status
        self._note_status()
        self._out.append(ChangeStatus(status))

    def _note_status(self) -> None:
        earlier = tuple(each for each in self._since if each[0] is not self._status)
        self._since = (*earlier, (self._status, to_millis(self._now)))
