"""Control messages between job master and tasks, over the task's authenticated connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
    """Stop as soon as possible; close operators, send `TaskCancelled`."""


@dataclass(frozen=True, slots=True)
class StopSources:
    """End all sources as if their input had ended; everything in flight is processed."""


@dataclass(frozen=True, slots=True)
class AlignmentUpdate:
    """How far the slowest member of an alignment group has come; the others wait when too far ahead of it."""

    group: str
    watermark: int


TaskMessage = (
    TaskStarted
    | TaskReport
    | WatermarkReport
    | TextOutput
    | LogOutput
    | TaskFinished
    | TaskCancelled
    | TaskFailed
    | CollectedRecords
)
MasterMessage = CancelTask | StopSources | AlignmentUpdate
