"""The life of a job as a pure machine: events in, instructions out; no threads, sockets or clock.

How a job goes, with the instructions that carry it::

    Submitted ───────────────> StartAttempt
    tasks say TaskStarted ───> ChangeStatus(RUNNING)
    tasks say TaskFinished,
    AttemptEnded(None) ──────> CompleteJob(FINISHED)

    a first failure, or CancelRequested:
      SendToTasks(CancelTask), SetTimer(GRACE) ─ all have answered, or time is over ─> KillAttempt
      AttemptEnded, last words of the tasks read ────────────────────────────────────> CompleteJob

The first failure is the job's error; what follows from it (other tasks losing their peers, the engine
reporting an aborted job) is not. Events of another attempt than the current one are ignored.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from firesteel.common.errors import JobCancelledError, JobExecutionError, TaskLostError
from firesteel.common.job_status import JobStatus
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    CancelTask,
    MasterMessage,
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

#: How long the engine may take to end a killed attempt before the job is declared over without it.
KILL_SECONDS = 15.0
#: How long the last words of connected tasks are awaited after the engine has ended the attempt.
DRAIN_SECONDS = 3.0


# Events -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """Who says something: a task of an attempt; ``connection`` tells a task from its repetition."""

    attempt: int
    task: TaskId
    connection: int = 0


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job may start."""


@dataclass(frozen=True, slots=True)
class TaskConnected:
    """A task can be reached. A ``remote`` one says by disconnecting that it has gone."""

    origin: Origin
    host: str = ""
    pid: int = 0
    remote: bool = False


@dataclass(frozen=True, slots=True)
class TaskSaid:
    """A message of a task about its life."""

    origin: Origin
    message: TaskMessage


@dataclass(frozen=True, slots=True)
class TaskDisconnected:
    """The connection of a remote task has ended, in order or not; everything it said came before."""

    origin: Origin


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The engine has ended the attempt, or could not start it."""

    attempt: int
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class MasterFailed:
    """The job master itself cannot go on with the job."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody wants the job to end now."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the sources to end and everything in flight to be processed."""


class Timer(enum.Enum):
    """What a timer is for."""

    GRACE = "tasks may close"
    KILL = "the engine may end the attempt"
    DRAIN = "the last words of tasks may arrive"


@dataclass(frozen=True, slots=True)
class TimerElapsed:
    """A timer that was set is due."""

    attempt: int
    timer: Timer


Event = (
    Submitted
    | TaskConnected
    | TaskSaid
    | TaskDisconnected
    | AttemptEnded
    | MasterFailed
    | CancelRequested
    | StopRequested
    | TimerElapsed
)


# Instructions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Have the engine start the tasks."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SendToTasks:
    """Send a message to these tasks, as far as they can be reached."""

    tasks: tuple[TaskId, ...]
    message: MasterMessage


@dataclass(frozen=True, slots=True)
class KillAttempt:
    """Have the engine end the attempt without ceremony."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Hand in `TimerElapsed` after so many seconds."""

    attempt: int
    timer: Timer
    seconds: float


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """Make the new status known."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """The job is over; always the last instruction. ``error`` is None only when it is FINISHED."""

    status: JobStatus
    error: BaseException | None


Instruction = StartAttempt | SendToTasks | KillAttempt | SetTimer | ChangeStatus | CompleteJob


# The machine ------------------------------------------------------------------------------------------


class _TaskState(enum.Enum):
    ABSENT = enum.auto()
    CONNECTED = enum.auto()
    STARTED = enum.auto()
    FINISHED = enum.auto()
    GONE = enum.auto()  # failed, cancelled or lost


_BEFORE_START = (_TaskState.ABSENT, _TaskState.CONNECTED)
_ALIVE = (_TaskState.CONNECTED, _TaskState.STARTED)


class _Phase(enum.Enum):
    """Where an attempt stands; goes forward only."""

    UNDER_WAY = enum.auto()
    CANCELLING = enum.auto()  # tasks have been asked to end
    KILLED = enum.auto()  # the engine has been told to end it
    ENDED = enum.auto()  # the engine has ended it; last words may be on their way


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

    def __init__(self, plan: JobPlan, grace_seconds: float) -> None:
        self._plan = plan
        self._grace_seconds = grace_seconds
        self._status = JobStatus.CREATED
        self._completed = False
        self._failure: BaseException | None = None
        self._stopping_sources = False
        self._out: list[Instruction] = []
        # What follows belongs to the current attempt.
        self._attempt = 0
        self._phase = _Phase.ENDED
        self._tasks: dict[TaskId, _Task] = {}
        self._engine_error: BaseException | None = None
        self._lost: TaskLostError | None = None

    @property
    def status(self) -> JobStatus:
        """The job's state now."""
        return self._status

    @property
    def attempt(self) -> int:
        """Number of the current attempt, from 1; 0 before the first."""
        return self._attempt

    def handle(self, event: Event) -> list[Instruction]:
        """Take in what happened; returns what is to be done about it."""
        if self._completed:
            return []
        match event:
            case Submitted() if self._attempt == 0:
                self._start_attempt()
            case TaskConnected() | TaskSaid() | TaskDisconnected():
                self._on_task_event(event)
            case AttemptEnded(attempt, error):
                if attempt == self._attempt:
                    self._on_attempt_ended(error)
            case TimerElapsed(attempt, timer):
                if attempt == self._attempt:
                    self._on_timer(timer)
            case MasterFailed(error):
                self._fail(error)
            case CancelRequested():
                self._on_cancel()
            case StopRequested():
                self._on_stop()
        out, self._out = self._out, []
        return out

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
            self._out.append(SendToTasks((task.id,), CancelTask()))
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
        if self._status in (JobStatus.CREATED, JobStatus.RUNNING):
            self._become(JobStatus.CANCELLING)
            self._failure = JobCancelledError(f"job '{self._plan.name}' was cancelled")
            self._cancel_tasks()

    def _on_stop(self) -> None:
        if self._phase is _Phase.UNDER_WAY and not self._stopping_sources:
            self._stopping_sources = True
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
            self._out.append(SendToTasks(tuple(task.id for task in alive), CancelTask()))
        self._out.append(SetTimer(self._attempt, Timer.GRACE, self._grace_seconds))
        self._move_on()

    # The attempt.

    def _start_attempt(self) -> None:
        self._attempt += 1
        self._phase = _Phase.UNDER_WAY
        ids = (TaskId(stage.index, index) for stage in self._plan.stages for index in range(stage.tasks))
        self._tasks = {task_id: _Task(task_id) for task_id in ids}
        self._engine_error = self._lost = None
        self._out.append(StartAttempt(self._attempt))

    def _on_attempt_ended(self, error: BaseException | None) -> None:
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
            case Timer.DRAIN:
                self._conclude()

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

    def _see_whether_running(self) -> None:
        if self._status is not JobStatus.CREATED:
            return
        started = [task.state not in _BEFORE_START for task in self._tasks.values()]
        # In batch mode later stages start when earlier ones have ended.
        if any(started) if self._plan.mode is RuntimeMode.BATCH else all(started):
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
                # A restart strategy will decide here: RESTARTING and `_start_attempt` again, or the end.
                self._complete(JobStatus.FAILED)
            case _:
                if self._status is JobStatus.CREATED:
                    self._become(JobStatus.RUNNING)
                self._complete(JobStatus.FINISHED)

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
