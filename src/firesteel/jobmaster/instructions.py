"""What a job master has to do, as data: everything that `MasterCore.handle` returns, to be performed in order.

Instructions about storage (`StorageInstruction`) are performed one after the other, but away from the thread that
feeds the core; `CheckpointStore.perform` does one and gives the event that answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.events import Timer
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.rescale_history import RescaleCause
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import MasterMessage, SnapshotAcknowledged, TaskId
from firesteel.plan.state_handles import CheckpointOrder

# The attempt ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Have the engine start the tasks of a `Deployment`; ``restore`` is what they start from."""

    attempt: int
    checkpointing: bool = False
    restore: JobRestore | None = None


@dataclass(frozen=True, slots=True)
class SendToTasks:
    """Send a message to these tasks, as far as they can be reached; messages to a task keep their order."""

    tasks: tuple[TaskId, ...]
    message: MasterMessage


@dataclass(frozen=True, slots=True)
class KillAttempt:
    """Have the engine end the attempt without ceremony.

    ``by_force``: it was asked before, or does not answer; end its processes, as far as they can be reached.
    """

    attempt: int
    by_force: bool = False


@dataclass(frozen=True, slots=True)
class CountSlots:
    """Find out how many of the slots that the job asks for there are; answered by `SlotsCounted`.

    ``attempt``: the one that runs, or the last one before that which waits for them.
    """

    attempt: int
    wanted: int


@dataclass(frozen=True, slots=True)
class MeasureSilence:
    """Find out for how long connected tasks were not heard; answered by `SilenceMeasured`."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Hand in `TimerElapsed` after ``seconds``. A timer that is set again replaces the earlier one."""

    attempt: int
    timer: Timer
    seconds: float


@dataclass(frozen=True, slots=True)
class AnnounceRestart:
    """Tell people that an attempt has failed, why, and after how many seconds the next one starts."""

    attempt: int
    error: BaseException
    seconds: float


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The attempts from now on are of this plan, which differs from the one before in parallelism only.

    ``cause``: nobody has asked for it, but there are other slots than there were; None: it was a rescale, or one that is undone.
    ``in_order``: all tasks of the plan before have ended, with everything committed and nothing on its way.
    """

    plan: JobPlan
    cause: RescaleCause | None = None
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """Make the new status known."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """The job is over; always the last instruction. ``error`` is None only when it is FINISHED."""

    status: JobStatus
    error: BaseException | None


# Storage ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublishCheckpoint:
    """Make a checkpoint durable that all subtasks have acknowledged.

    Answered by `CheckpointPublished` or `CheckpointNotPublished`.
    """

    order: CheckpointOrder
    acknowledgements: tuple[SnapshotAcknowledged, ...]
    enumerators: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiscardSnapshots:
    """Delete what subtasks wrote for an aborted checkpoint; nothing of other checkpoints. No answer."""

    order: CheckpointOrder
    acknowledgements: tuple[SnapshotAcknowledged, ...]


@dataclass(frozen=True, slots=True)
class SubsumeOlder:
    """A checkpoint is completed: delete those that it subsumes, and what only they refer to. No answer.

    Checkpoints being taken may build on completed ones from ``needed_from`` on; None: on none. ``newest`` is the newest
    completed one, and those that begin from now on build on it or on a newer one: so it does not matter how late this is
    done. None: it is done before another one begins.
    """

    needed_from: int | None = None
    newest: int | None = None


@dataclass(frozen=True, slots=True)
class FindRestore:
    """Find the newest completed checkpoint or savepoint of the job that can be read.

    Those in ``unusable`` turned out to be damaged when tasks read them. Answered by `RestoreFound` or
    `RestoreNotFound`.
    """

    attempt: int
    unusable: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CleanUp:
    """The job is over: delete its checkpoints, or ``keep`` them. Savepoints stay. No answer."""

    keep: bool


#: What may be done beside publishing, however late; but not before the publishing that was asked for earlier.
Deletion = DiscardSnapshots | SubsumeOlder | CleanUp
StorageInstruction = PublishCheckpoint | FindRestore | ChangePlan | Deletion


# Other ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerSavepoint:
    """Tell who asked for a savepoint where it is (``path``), or why there is none."""

    request: int
    path: str | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class AnswerCheckpoint:
    """Tell who asked for a checkpoint its number, or why there is none."""

    request: int
    checkpoint_id: int | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """Tell who asked for a state what it holds, as JSON, or why there is no answer."""

    request: int
    value: bytes | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class AnswerRescale:
    """Tell who asked for another parallelism that the job runs with it (no error), or why it keeps the one it had."""

    request: int
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class RunWork:
    """Call this away from the master's thread, for an enumerator; answered by `WorkDone`.

    ``delay``: seconds to wait before.
    """

    work: int
    call: Callable[[], Any]
    delay: float = 0.0


Instruction = (
    StartAttempt
    | SendToTasks
    | KillAttempt
    | CountSlots
    | MeasureSilence
    | SetTimer
    | AnnounceRestart
    | ChangePlan
    | ChangeStatus
    | CompleteJob
    | PublishCheckpoint
    | DiscardSnapshots
    | SubsumeOlder
    | FindRestore
    | CleanUp
    | AnswerSavepoint
    | AnswerCheckpoint
    | AnswerQuery
    | AnswerRescale
    | RunWork
)
