"""Control messages between job master and tasks, over the task's authenticated connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firesteel.plan.state_handles import CheckpointOrder, OperatorHandle


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One Spark task of one attempt of a job."""

    stage: int
    index: int


# From a task to the job master ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """All operators of the task are open; first message on every connection."""

    host: str
    pid: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """Counters of one operator's subtask since the task started."""

    operator_id: str
    subtask: int
    records_in: int
    records_out: int


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Sent every so often and once more at the end: counters, accumulators and user metrics so far."""

    operators: tuple[OperatorStatistics, ...]
    accumulators: Mapping[str, Any]
    metrics: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WatermarkReport:
    """How far a source subtask of an alignment group has come; the greatest watermark: it holds nobody back."""

    group: str
    operator_id: str
    subtask: int
    watermark: int


@dataclass(frozen=True, slots=True)
class TextOutput:
    """Complete lines that the task printed, in order. ``stream`` is "stdout" or "stderr"."""

    text: str
    stream: str = "stdout"


@dataclass(frozen=True, slots=True)
class LogOutput:
    """One record of the `logging` module, ready to be handled by the driver's logging."""

    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SnapshotAcknowledged:
    """The state of one vertex's subtask for a checkpoint is in storage; times in milliseconds."""

    checkpoint_id: int
    vertex: int
    subtask: int
    operators: tuple[OperatorHandle, ...]
    bytes_written: int = 0
    alignment_ms: float = 0.0
    pause_ms: float = 0.0
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SnapshotDeclined:
    """A vertex's subtask cannot take part in a checkpoint. ``reason`` is for people."""

    checkpoint_id: int
    vertex: int
    subtask: int
    reason: str


@dataclass(frozen=True, slots=True)
class SubtaskEnded:
    """A vertex's subtask has processed all its input and waits for the checkpoint that ends the job."""

    vertex: int
    subtask: int


@dataclass(frozen=True, slots=True)
class ReaderRegistered:
    """A source subtask with an enumerator is ready for splits."""

    operator_id: str
    subtask: int


@dataclass(frozen=True, slots=True)
class SplitRequested:
    """A source subtask has nothing left to read."""

    operator_id: str
    subtask: int


@dataclass(frozen=True, slots=True)
class ReaderEvent:
    """Something that a source's reader has to tell its enumerator; pickled."""

    operator_id: str
    subtask: int
    event: bytes


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """The task has done all its work and closed its operators."""


@dataclass(frozen=True, slots=True)
class TaskCancelled:
    """The task has stopped because it was asked to, and closed its operators."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """The task cannot go on. ``exception`` says why, packed and unpacked by `plan.task_failure`."""

    exception: bytes
    summary: str


@dataclass(frozen=True, slots=True)
class CollectedRecords:
    """Pickled list of records for ``execute_and_collect`` (on a connection of its own)."""

    blob: bytes


# From the job master to a task ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Stop as soon as possible; close operators, send `TaskCancelled`. ``for_good``: somebody cancelled the job."""

    for_good: bool = False


@dataclass(frozen=True, slots=True)
class StopSources:
    """End all sources as if their input had ended; everything in flight is processed."""


@dataclass(frozen=True, slots=True)
class AlignmentUpdate:
    """How far the slowest member of an alignment group has come; the others wait when too far ahead of it."""

    group: str
    watermark: int


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Begin a checkpoint: for tasks with sources, which send the barriers; they carry the order on."""

    order: CheckpointOrder


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """All of a checkpoint is durable: commit what belongs to it and to earlier ones. ``final``: then end."""

    checkpoint_id: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointAborted:
    """A checkpoint is given up."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SplitsAssigned:
    """New splits for a source subtask; pickled list. ``no_more``: it will get no others."""

    operator_id: str
    subtask: int
    splits: bytes
    no_more: bool = False


@dataclass(frozen=True, slots=True)
class EnumeratorEvent:
    """Something that an enumerator has to tell one of its readers; pickled."""

    operator_id: str
    subtask: int
    event: bytes


CheckpointMessage = SnapshotAcknowledged | SnapshotDeclined | SubtaskEnded
SourceMessage = ReaderRegistered | SplitRequested | ReaderEvent

TaskMessage = (
    TaskStarted
    | SnapshotAcknowledged
    | SnapshotDeclined
    | SubtaskEnded
    | ReaderRegistered
    | SplitRequested
    | ReaderEvent
    | TaskReport
    | WatermarkReport
    | TextOutput
    | LogOutput
    | TaskFinished
    | TaskCancelled
    | TaskFailed
    | CollectedRecords
)
MasterMessage = (
    CancelTask
    | StopSources
    | AlignmentUpdate
    | TriggerCheckpoint
    | CheckpointCompleted
    | CheckpointAborted
    | SplitsAssigned
    | EnumeratorEvent
)
