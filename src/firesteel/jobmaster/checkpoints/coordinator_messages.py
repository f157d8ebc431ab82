"""What the checkpoint coordinator and the core around it say to each other, besides the events and instructions of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.events import (
    CheckpointNotPublished,
    CheckpointPublished,
    CheckpointRequested,
    RescaleRequested,
    SavepointRequested,
    StopWithSavepointRequested,
    TimerElapsed,
)
from firesteel.jobmaster.instructions import (
    AnswerCheckpoint,
    AnswerRescale,
    AnswerSavepoint,
    CleanUp,
    DiscardSnapshots,
    PublishCheckpoint,
    SendToTasks,
    SetTimer,
    SubsumeOlder,
)
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import SnapshotAcknowledged, SnapshotDeclined, SubtaskEnded, TaskId


@dataclass(frozen=True, slots=True)
class AttemptStarting:
    """Event: an attempt is about to start; its first tasks may have ended before the last one runs."""


@dataclass(frozen=True, slots=True)
class AttemptRunning:
    """Event: all tasks of an attempt run, having started from ``point``."""

    attempt: int
    point: JobRestore | None = None


@dataclass(frozen=True, slots=True)
class TaskIsStaying:
    """Event: a task has said that it will not end before it may."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskHasEnded:
    """Event: a task has finished."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class AttemptOver:
    """Event: the tasks of the attempt are ending without success."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class JobOver:
    """Event: the last one."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class SaveEnumerators:
    """Instruction: take the state of all enumerators, now. Answered by `EnumeratorsSaved` or `EnumeratorsFailed`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class EnumeratorsSaved:
    """Event: the states by operator id; splits assigned before were sent before."""

    checkpoint_id: int
    states: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnumeratorsFailed:
    """Event: an enumerator raised."""

    checkpoint_id: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class FailAttempt:
    """Instruction: the attempt cannot continue; see `AttemptFailed`."""

    error: BaseException
    rewind: bool = False


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """Event: the tasks have ended in order, and those of the next attempt are of this plan."""

    plan: JobPlan


@dataclass(frozen=True, slots=True)
class EndTasksForRescale:
    """Instruction: the checkpoint of a rescale is complete; see `TasksEndForRescale`."""

    rescale: RescaleRequested
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FailJob:
    """Instruction: the job is not this master's any more."""

    error: BaseException


CoordinatorEvent = (
    AttemptStarting
    | AttemptRunning
    | TaskIsStaying
    | TaskHasEnded
    | AttemptOver
    | JobOver
    | EnumeratorsSaved
    | EnumeratorsFailed
    | SnapshotAcknowledged
    | SnapshotDeclined
    | SubtaskEnded
    | SavepointRequested
    | StopWithSavepointRequested
    | CheckpointRequested
    | RescaleRequested
    | PlanChanged
    | CheckpointPublished
    | CheckpointNotPublished
    | TimerElapsed
)
CoordinatorInstruction = (
    SaveEnumerators
    | EndTasksForRescale
    | FailAttempt
    | FailJob
    | SendToTasks
    | SetTimer
    | PublishCheckpoint
    | DiscardSnapshots
    | SubsumeOlder
    | CleanUp
    | AnswerSavepoint
    | AnswerCheckpoint
    | AnswerRescale
)
