"""What can happen to a job, as data: everything that `MasterCore.handle` accepts.

Whoever drives a core - the threads of `JobMaster`, a simulator, a test - hands these in one after the other, in any
order in which they may really happen. Events that answer an instruction say which.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firesteel.compiler.program_plans import Bounds
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import TaskId, TaskMessage


@dataclass(frozen=True, slots=True)
class TaskOrigin:
    """Who says something: a task of an attempt; ``connection`` tells a task from its repetition."""

    attempt: int
    task: TaskId
    connection: int = 0


# From people ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job may start."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody wants the job to end now."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the sources to end and everything in flight to be processed."""


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """Somebody wants a savepoint; answered by `AnswerSavepoint` with the same ``request`` number.

    ``directory``: below which, None for the configured one.
    """

    request: int
    directory: str | None = None


@dataclass(frozen=True, slots=True)
class StopWithSavepointRequested:
    """Somebody wants a savepoint after which the job ends; ``drain``: with everything in flight processed.

    Answered by `AnswerSavepoint` when the job is over, or when it continues because the savepoint failed.
    """

    request: int
    directory: str | None = None
    drain: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody wants a checkpoint before the next one is due; answered by `AnswerCheckpoint`. ``full``: not incremental."""

    request: int
    full: bool = False


@dataclass(frozen=True, slots=True)
class StateQueried:
    """Somebody wants to know what a queryable state holds for a key, given as JSON; answered by `AnswerQuery`."""

    request: int
    name: str
    key: Any


@dataclass(frozen=True, slots=True)
class RescaleRequested:
    """Somebody wants the job to continue as this ``plan``, which differs in parallelism only; answered by `AnswerRescale`.

    ``bounds``: what its operators ask for then, of which the plan is what there are slots for; None: as before.
    """

    request: int
    plan: JobPlan
    bounds: Mapping[str, Bounds] | None = None


@dataclass(frozen=True, slots=True)
class BoundsChanged:
    """Operators ask for other numbers of subtasks from now on; the plan is the one that there are slots for."""

    bounds: Mapping[str, Bounds]


# From tasks and the engine ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskConnected:
    """A task can be reached. A ``remote`` one says by disconnecting that it has gone."""

    origin: TaskOrigin
    host: str = ""
    pid: int = 0
    remote: bool = False
    executor: str = ""


@dataclass(frozen=True, slots=True)
class TaskSaid:
    """A message of a task about its life, a checkpoint or a source."""

    origin: TaskOrigin
    message: TaskMessage


@dataclass(frozen=True, slots=True)
class TaskDisconnected:
    """The connection of a remote task has ended, in order or not; everything it said came before."""

    origin: TaskOrigin


@dataclass(frozen=True, slots=True)
class TaskSilent:
    """A task that is still connected gave no sign of life for ``seconds``, and ``limit`` are allowed."""

    origin: TaskOrigin
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True)
class EngineSilent:
    """The engine has not answered for ``seconds``, and ``limit`` are allowed."""

    attempt: int
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True)
class AttemptAccepted:
    """The engine has accepted the attempt, and starts its tasks."""

    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The engine has ended the attempt, or could not start it."""

    attempt: int
    error: BaseException | None


# From the master itself -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MasterFailed:
    """The job master itself cannot continue with the job; no restart helps."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """Something in the master ended the attempt: too many failed checkpoints, an enumerator that raised.

    ``rewind``: nothing is wrong with the job, it only has to go back to its newest checkpoint; the restart strategy
    is not asked.
    """

    attempt: int
    error: BaseException
    rewind: bool = False


@dataclass(frozen=True, slots=True)
class TasksEndForRescale:
    """The checkpoint of a rescale is complete: the tasks of the attempt end with it, and those of ``plan`` follow."""

    attempt: int
    request: int
    plan: JobPlan
    bounds: Mapping[str, Bounds] | None
    checkpoint_id: int


class Timer(enum.Enum):
    """What a timer is for."""

    GRACE = "tasks may close"
    KILL = "the engine may end the attempt"
    DRAIN = "the last words of tasks may arrive"
    RESTART = "the next attempt may start"
    CHECKPOINT = "a checkpoint may be due, or overdue"
    HEARTBEAT = "somebody may be silent for too long"
    DEPLOYMENT = "all tasks must have reported"
    SLOTS = "slots may have come or gone"


@dataclass(frozen=True, slots=True)
class TimerElapsed:
    """A timer that was set by `SetTimer` is due."""

    attempt: int
    timer: Timer


@dataclass(frozen=True, slots=True)
class SilenceMeasured:
    """Answers `MeasureSilence`: for how many seconds each connected task was not heard, and the engine did not answer.

    Only tasks that are listened to are in it. ``engine`` is None when it is not asked.
    """

    attempt: int
    tasks: tuple[tuple[TaskOrigin, float], ...]
    engine: float | None = None


@dataclass(frozen=True, slots=True)
class SlotsCounted:
    """Answers `CountSlots`: how many of those that the job asks for there are; ``error``: they cannot be counted."""

    attempt: int
    available: int
    error: BaseException | None = None


# From storage and other work outside the master's thread ----------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckpointPublished:
    """Answers `PublishCheckpoint`: the manifest is durable, at ``path``."""

    checkpoint_id: int
    path: str


@dataclass(frozen=True, slots=True)
class CheckpointNotPublished:
    """Answers `PublishCheckpoint`: it is not completed. ``fenced``: another driver has taken the job over."""

    checkpoint_id: int
    error: BaseException
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class RestoreFound:
    """Answers `FindRestore`: where the attempt starts from; None when no checkpoint was ever completed."""

    attempt: int
    restore: JobRestore | None


@dataclass(frozen=True, slots=True)
class RestoreNotFound:
    """Answers `FindRestore`: storage cannot be read."""

    attempt: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class WorkDone:
    """Answers `RunWork` with what the callable returned or raised."""

    work: int
    result: Any
    error: BaseException | None


LifecycleEvent = (
    Submitted
    | TaskConnected
    | TaskSaid
    | TaskDisconnected
    | TaskSilent
    | EngineSilent
    | AttemptAccepted
    | AttemptEnded
    | AttemptFailed
    | TasksEndForRescale
    | MasterFailed
    | CancelRequested
    | StopRequested
    | RestoreFound
    | RestoreNotFound
    | SlotsCounted
    | TimerElapsed
)

Event = (
    LifecycleEvent
    | SilenceMeasured
    | SavepointRequested
    | StopWithSavepointRequested
    | CheckpointRequested
    | StateQueried
    | RescaleRequested
    | BoundsChanged
    | CheckpointPublished
    | CheckpointNotPublished
    | WorkDone
)
