"""The life of a job as a pure machine: events in, instructions out; no threads, sockets or clock.

How a job goes, with the instructions that carry it::

    Submitted ───────────────> StartAttempt
    tasks say TaskStarted ───> ChangeStatus(RUNNING)
    tasks say TaskFinished,
    AttemptEnded(None) ──────> CompleteJob(FINISHED)

    a first failure, or CancelRequested:
      SendToTasks(CancelTask), SetTimer(GRACE) ─ all have answered, or time is over ─> KillAttempt
      AttemptEnded, last words of the tasks read ────────────────────────────────────> the attempt is over

    a failed attempt is over:
      the restart policy allows another one ─> AnnounceRestart, SetTimer(RESTART)
      TimerElapsed(RESTART) ────────────────> FindRestore ─ RestoreFound ─> StartAttempt
      it does not, or no restart can help ──> CompleteJob(FAILED)

The first failure is the attempt's error; what follows from it (other tasks losing their peers, the engine
reporting an aborted job) is not. Events of another attempt than the current one are ignored.

No restart helps when the program itself is wrong (`ProgramError`), saved state does not fit it or cannot be read any
more (`IncompatibleStateError`, `NoSuchSnapshotError`), another driver runs the job now (`JobTakenOverError`), the
master cannot go on (`MasterFailed`), or the engine is not ready for a job that has never run (`SetupError`; but storage that fails may come back): a person
is waiting for an answer then. For a job that has run, missing slots may come back.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from firesteel.common.errors import (
    CorruptStateError,
    FileMissingError,
    IncompatibleStateError,
    JobCancelledError,
    JobExecutionError,
    JobTakenOverError,
    NoSuchSnapshotError,
    ProgramError,
    SetupError,
    StorageError,
    TaskLostError,
)
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.events import (
    AttemptEnded,
    AttemptFailed,
    CancelRequested,
    LifecycleEvent,
    MasterFailed,
    Origin,
    RestoreFound,
    RestoreNotFound,
    StopRequested,
    Submitted,
    TaskConnected,
    TaskDisconnected,
    TaskSaid,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.instructions import (
    AnnounceRestart,
    ChangeStatus,
    CompleteJob,
    FindRestore,
    Instruction,
    KillAttempt,
    SendToTasks,
    SetTimer,
    StartAttempt,
)
from firesteel.jobmaster.restart_policy import NoRestart, RestartPolicy
from firesteel.jobmaster.start_point import StartPoint
from firesteel.plan.job_plan import JobPlan
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

#: How long the engine may take to end a killed attempt before the job goes on without it.
KILL_SECONDS = 15.0
#: How long the last words of connected tasks are awaited after the engine has ended the attempt.
DRAIN_SECONDS = 3.0

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
    FINDING = enum.auto()  # the next one looks for the checkpoint to start from


_BETWEEN = (_Phase.PAUSED, _Phase.FINDING)


@dataclass(slots=True)
class _Task:
    id: TaskId
    state: _TaskState = _TaskState.ABSENT
    connection: int = 0
    remote: bool = False
    where: str = ""

    @property
    def alive(self) -> bool:
        return self.state in _ALIVE


class JobLifecycle:
    """One job from submission to end. Feed events to `handle` and perform what it returns, in order."""

    def __init__(
        self,
        plan: JobPlan,
        grace_seconds: float,
        policy: RestartPolicy | None = None,
        *,
        checkpointing: bool = False,
        start: StartPoint | None = None,
        first_attempt: int = 1,
    ) -> None:
        self._plan = plan
        self._grace_seconds = grace_seconds
        self._policy = NoRestart() if policy is None else policy
        self._checkpointing = checkpointing
        self._start = start
        self._first_attempt = first_attempt
        self._status = JobStatus.CREATED
        self._completed = False
        self._stopping_sources = False
        self._cancel_requested = False
        self._is_master_failure = False
        self._has_run = False
        self._unusable: frozenset[int] = frozenset()  # checkpoints that tasks could not read
        self._now = 0.0
        self._out: list[Instruction] = []
        # What follows belongs to the current attempt.
        self._attempt = 0
        self._phase = _Phase.ENDED
        self._tasks: dict[TaskId, _Task] = {}
        self._restored: int | None = None
        self._failure: BaseException | None = None
        self._earlier_failure: BaseException | None = None  # of the attempt before
        self._is_rewind = False
        self._engine_error: BaseException | None = None
        self._lost: TaskLostError | None = None

    @property
    def status(self) -> JobStatus:
        """The job's state now."""
        return self._status

    @property
    def attempt(self) -> int:
        """Number of the current attempt; 0 before the first."""
        return self._attempt

    @property
    def failure(self) -> BaseException | None:
        """What the current attempt failed with, or why it was cancelled."""
        return self._failure or self._earlier_failure

    def is_current(self, origin: Origin) -> bool:
        """Whether what this task says may still change anything: its attempt is under way and it is in its place."""
        task = self._tasks.get(origin.task)
        return (
            task is not None
            and origin.attempt == self._attempt
            and origin.connection == task.connection
            and self._phase is _Phase.UNDER_WAY
        )

    def handle(self, event: LifecycleEvent, now: float = 0.0) -> list[Instruction]:
        """Take in what happened at ``now`` (seconds); returns what is to be done about it."""
        if self._completed:
            return []
        self._now = now
        match event:
            case Submitted() if self._attempt == 0 and self._status is JobStatus.CREATED:
                self._start_attempt(self._first_attempt, self._start)
            case TaskConnected() | TaskSaid() | TaskDisconnected():
                self._on_task_event(event)
            case MasterFailed(error):
                self._is_master_failure = True
                self._fail(error)
            case CancelRequested():
                self._on_cancel()
            case StopRequested():
                self._on_stop()
            case RestoreFound(attempt, point):
                if attempt == self._attempt + 1 and self._phase is _Phase.FINDING:
                    self._become(JobStatus.CREATED)
                    self._start_attempt(attempt, point)
            case RestoreNotFound(attempt, error):
                if attempt == self._attempt + 1 and self._phase is _Phase.FINDING:
                    self._fail(error)
            case AttemptEnded() | AttemptFailed() | TimerElapsed():
                self._on_attempt_event(event)
            case _:
                pass
        out, self._out = self._out, []
        return out

    def _on_attempt_event(self, event: AttemptEnded | AttemptFailed | TimerElapsed) -> None:
        if event.attempt != self._attempt:
            return
        match event:
            case AttemptEnded(_, error):
                self._on_attempt_ended(error)
            case AttemptFailed(_, error, rewind):
                if self._phase is _Phase.UNDER_WAY:
                    self._is_rewind = rewind
                    self._fail(error)
            case TimerElapsed(_, timer):
                self._on_timer(timer)

    # Tasks.

    def _on_task_event(self, event: TaskConnected | TaskSaid | TaskDisconnected) -> None:
        origin = event.origin
        task = self._tasks.get(origin.task)
        if task is None or origin.attempt != self._attempt:
            return
        if isinstance(event, TaskConnected):
            self._on_connected(task, event)
            return
        if origin.connection != task.connection:
            return  # a repetition of the task has taken its place (batch mode)
        if isinstance(event, TaskDisconnected):
            self._on_disconnected(task)
        else:
            self._on_said(task, event.message)
        self._move_on()

    def _on_connected(self, task: _Task, event: TaskConnected) -> None:
        task.state = _TaskState.CONNECTED
        task.connection = event.origin.connection
        task.remote = event.remote
        if event.host:
            task.where = f" on {event.host}, process {event.pid}"
        if self._phase is not _Phase.UNDER_WAY:
            self._out.append(SendToTasks((task.id,), CancelTask(self._cancel_requested)))
        elif self._stopping_sources:
            self._out.append(SendToTasks((task.id,), StopSources()))

    def _on_said(self, task: _Task, message: TaskMessage) -> None:
        match message:
            case TaskStarted(host, pid):
                task.state = _TaskState.STARTED
                task.where = f" on {host}, process {pid}"
            case TaskFinished():
                task.state = _TaskState.FINISHED
            case TaskCancelled():
                task.state = _TaskState.GONE
            case TaskFailed():
                task.state = _TaskState.GONE
                self._fail(to_exception(message))

    def _on_disconnected(self, task: _Task) -> None:
        if not task.alive:
            return
        task.state = _TaskState.GONE
        error = TaskLostError(
            f"lost {self._describe(task)}: its Python worker process was killed or crashed (out of memory?)"
        )
        if self._phase is not _Phase.UNDER_WAY:
            return  # that it goes is what everybody wants, or a consequence of what the engine will report
        if self._plan.mode is RuntimeMode.BATCH:
            self._lost = error  # Spark may run it again; counts only if Spark gives up
        else:
            self._fail(error)

    def _describe(self, task: _Task) -> str:
        parts = [
            f"{vertex.name} ({task.id.index - vertex.first_task + 1}/{vertex.parallelism})"
            for vertex in self._plan.vertices
            if vertex.stage == task.id.stage
            and vertex.first_task <= task.id.index < vertex.first_task + vertex.parallelism
        ]
        return f"task {' + '.join(parts) or task.id}{task.where}"

    def _alive(self) -> list[_Task]:
        return [task for task in self._tasks.values() if task.alive]

    # Ways to end.

    def _on_cancel(self) -> None:
        self._cancel_requested = True  # also of a job that is failing: it must not start again
        if self._status in (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING):
            self._become(JobStatus.CANCELLING)
            self._failure = self._cancellation()
            self._cancel_tasks()

    def _cancellation(self) -> JobCancelledError:
        return JobCancelledError(f"job '{self._plan.name}' was cancelled")

    def _on_stop(self) -> None:
        if not self._stopping_sources:
            self._stopping_sources = True
            if self._phase is _Phase.UNDER_WAY:
                self._out.append(SendToTasks(tuple(task.id for task in self._alive()), StopSources()))

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            self._become(JobStatus.FAILING)
            self._cancel_tasks()

    def _cancel_tasks(self) -> None:
        if self._phase is not _Phase.UNDER_WAY:
            self._move_on()
            return
        self._phase = _Phase.CANCELLING
        if alive := self._alive():
            self._out.append(
                SendToTasks(tuple(task.id for task in alive), CancelTask(self._cancel_requested))
            )
        self._out.append(SetTimer(self._attempt, Timer.GRACE, self._grace_seconds))
        self._move_on()

    # The attempt.

    def _start_attempt(self, attempt: int, point: StartPoint | None) -> None:
        self._attempt = attempt
        self._phase = _Phase.UNDER_WAY
        ids = (TaskId(stage.index, index) for stage in self._plan.stages for index in range(stage.tasks))
        self._tasks = {task_id: _Task(task_id) for task_id in ids}
        self._restored = None if point is None else point.checkpoint_id
        self._out.append(StartAttempt(attempt, self._checkpointing, point))

    def _on_attempt_ended(self, error: BaseException | None) -> None:
        if self._phase in _BETWEEN:
            return  # it took longer than anybody wanted to wait
        if self._phase is not _Phase.KILLED:
            self._engine_error = error  # later ones say only that it was killed
        self._phase = _Phase.ENDED
        if self._last_words_due():
            self._out.append(SetTimer(self._attempt, Timer.DRAIN, DRAIN_SECONDS))
        self._move_on()

    def _on_timer(self, timer: Timer) -> None:
        match timer:
            case Timer.GRACE if self._phase is _Phase.CANCELLING:
                self._kill()
            case Timer.KILL if self._phase is _Phase.KILLED:
                self._phase = _Phase.ENDED
                self._conclude()
            case Timer.DRAIN if self._phase is _Phase.ENDED:
                self._conclude()
            case Timer.RESTART if self._phase is _Phase.PAUSED:
                self._phase = _Phase.FINDING
                self._out.append(FindRestore(self._attempt + 1, self._unusable))

    def _move_on(self) -> None:
        """After any change: take the next step that is due."""
        match self._phase:
            case _Phase.UNDER_WAY:
                self._see_whether_running()
            case _Phase.CANCELLING:
                # A lost task is about to make the engine give up by itself: its reason is worth the wait.
                if not self._alive() and not isinstance(self._failure, TaskLostError):
                    self._kill()
            case _Phase.ENDED:
                if not self._last_words_due():
                    self._conclude()
            case _Phase.PAUSED | _Phase.FINDING:
                if self._failure is not None:
                    self._conclude()

    def _see_whether_running(self) -> None:
        if self._status is not JobStatus.CREATED:
            return
        started = [task.state not in _BEFORE_START for task in self._tasks.values()]
        # In batch mode later stages start when earlier ones have ended.
        if any(started) if self._plan.mode is RuntimeMode.BATCH else all(started):
            self._has_run = True
            self._become(JobStatus.RUNNING)

    def _kill(self) -> None:
        self._phase = _Phase.KILLED
        self._out.append(KillAttempt(self._attempt))
        self._out.append(SetTimer(self._attempt, Timer.KILL, KILL_SECONDS))

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
            case _:
                if self._status is JobStatus.CREATED:
                    self._become(JobStatus.RUNNING)
                self._complete(JobStatus.FINISHED)

    def _restart_or_end(self) -> None:
        delay = self._restart_delay()
        if delay is None:
            self._complete(JobStatus.FAILED)
        elif self._cancel_requested:
            self._become(JobStatus.CANCELLING)
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
        return 0.0 if self._is_rewind else self._policy.next_delay(self._now)

    def _pause(self, delay: float) -> None:
        """The attempt is over and leaves nothing behind but what its failure teaches."""
        assert self._failure is not None
        if isinstance(self._failure, (CorruptStateError, FileMissingError)) and self._restored is not None:
            self._unusable |= {self._restored}
        self._out.append(AnnounceRestart(self._attempt, self._failure, delay))
        self._phase = _Phase.PAUSED
        self._tasks = {}
        self._earlier_failure = self._failure
        self._failure = self._engine_error = self._lost = self._restored = None
        self._is_rewind = False
        self._become(JobStatus.RESTARTING)
        self._out.append(SetTimer(self._attempt, Timer.RESTART, delay))

    def _fail_if_incomplete(self) -> None:
        error = self._lost if self._engine_error is not None and self._lost else self._engine_error
        if error is None and (missing := next(self._unfinished(), None)):
            error = JobExecutionError(
                f"the engine ended the job, but {self._describe(missing)} never said that it had finished"
            )
        if error is not None:
            self._failure = error
            self._become(JobStatus.FAILING)

    def _unfinished(self) -> Iterator[_Task]:
        return (task for task in self._tasks.values() if task.state is not _TaskState.FINISHED)

    def _note_engine_error(self) -> None:
        reason = self._engine_error
        if isinstance(self._failure, TaskLostError) and reason is not None and reason is not self._failure:
            self._failure.add_note(f"the engine reported: {reason}")

    def _complete(self, status: JobStatus) -> None:
        self._become(status)
        self._completed = True
        self._out.append(CompleteJob(status, self._failure))

    def _become(self, status: JobStatus) -> None:
        if not self._status.can_become(status):
            raise AssertionError(f"a job cannot go from {self._status.name} to {status.name}")
        self._status = status
        self._out.append(ChangeStatus(status))
