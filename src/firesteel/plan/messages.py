"""Control messages between job master and tasks, over the task's authenticated connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firesteel.common._metric_values import MetricValue
from firesteel.plan.state_handles import CheckpointOrder, OperatorHandle


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One Spark task of one attempt of a job."""

    stage: int
    index: int


# From a task to the job master ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryableStateRegistered:
    """A subtask has a state that others may ask for: the one called ``state`` of an operator, queryable as ``name``.

    ``kind`` is the name of the kind, such as "value"; ``type`` the declared type of its values, as text.
    """

    name: str
    vertex: int
    subtask: int
    operator_id: str
    state: str
    kind: str
    type: str


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """All operators of the task are open; first message on every connection.

    ``queryable``: the states that others may ask for from now on; those that come up later are messages of their own.
    """

    host: str
    pid: int
    attempt: int = 0
    queryable: tuple[QueryableStateRegistered, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """Counters of one operator's subtask since the task started.

    ``watermark`` is the last one that left it, or came in where nothing leaves; None before the first one, and while the
    subtask is idle and holds nobody back.
    """

    operator_id: str
    subtask: int
    records_in: int
    records_out: int
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class SubtaskStatistics:
    """What came to one vertex's subtask and left it through exchanges, since the task started.

    Records count where a chunk of them is written or read; ``alignment_ms`` and ``start_delay_ms`` are of the last
    checkpoint, None before the first one.
    """

    vertex: int
    subtask: int
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    buffers_in: int
    buffers_out: int
    alignment_ms: float | None = None
    start_delay_ms: float | None = None


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """What a task has done with its time since it started, in milliseconds."""

    busy_ms: float
    idle_ms: float
    back_pressured_ms: float


@dataclass(frozen=True, slots=True)
class ProcessStatistics:
    """A process: ``cpu_load`` is the part of all its machine's processors that it used lately, from 0 to 1."""

    host: str
    pid: int
    cpu_load: float
    cpu_seconds: float
    resident_bytes: int
    memory_limit: int | None
    threads: int
    collections: int


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Sent every so often and once more at the end: counters, accumulators and metrics so far.

    ``metrics`` are those of user functions, ``system`` those that the runtime itself keeps for operators. ``back_pressure``
    is the part of the time since the last report in which the task waited for those that receive its records, from 0 to
    1. It and ``times`` and ``process`` are None where that is not measured. ``began`` and ``at`` are moments of the
    task's clock, in seconds: when it opened, and when the report was made.
    """

    operators: tuple[OperatorStatistics, ...]
    accumulators: Mapping[str, Any]
    metrics: tuple[MetricValue, ...] = ()
    back_pressure: float | None = None
    system: tuple[MetricValue, ...] = ()
    subtasks: tuple[SubtaskStatistics, ...] = ()
    times: TaskTimes | None = None
    process: ProcessStatistics | None = None
    began: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class WatermarkReport:
    """How far a source subtask of a watermark alignment group has come; the greatest watermark: it holds nobody back."""

    group: str
    operator_id: str
    subtask: int
    watermark: int


@dataclass(frozen=True, slots=True)
class WatermarkCause:
    """Why a watermark does not move: ``reason`` says it, for people; or else it is known behind another operator.

    That is operator ``operator`` of the chain of ``vertex``, in ``subtask``.
    """

    reason: str
    vertex: int = 0
    operator: int = 0
    subtask: int = 0


@dataclass(frozen=True, slots=True)
class WatermarkStalled:
    """An operator's subtask that waits for event time has got records for ``seconds`` and no new watermark."""

    operator: str
    subtask: int
    parallelism: int
    seconds: float
    watermark: int
    cause: WatermarkCause


@dataclass(frozen=True, slots=True)
class WatermarkExplained:
    """Answers `ExplainWatermark`, by the number of the question."""

    question: int
    cause: WatermarkCause


@dataclass(frozen=True, slots=True)
class StateAnswered:
    """Answers `QueryState`: ``value`` is JSON, None for nothing; or ``problem`` says why there is no answer."""

    question: int
    value: bytes | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TextOutput:
    """Lines that the task printed, in order; the last may be unfinished. ``stream`` is "stdout" or "stderr"."""

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
    """A vertex's subtask declines a checkpoint. ``reason`` is for people."""

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
class TaskStays:
    """Answers `StayForSavepoint`: the task will not end before it may."""


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
    """The task has failed. ``exception`` says why, packed and unpacked by `plan.task_failure`."""

    exception: bytes
    summary: str


@dataclass(frozen=True, slots=True)
class SampledStack:
    """What a thread of a task did in ``count`` samples: frames as text, the outermost first. ``runs``: it did not wait."""

    runs: bool
    frames: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class StacksSampled:
    """Answers `SampleStacks`, by the number of the question."""

    question: int
    stacks: tuple[SampledStack, ...]


@dataclass(frozen=True, slots=True)
class ThreadsDumped:
    """Answers `DumpThreads`: name and stack of each thread of the task's process."""

    question: int
    threads: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """A sign of life, both ways, every `HeartbeatSettings.interval`.

    That of a task has a number, which the master gives back if it still counts on the task: see `Trust`. Of itself the
    master sends one without a number when it has nothing else to say.
    """

    question: int = 0


# From the job master to a task ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Stop as soon as possible; close operators, send `TaskCancelled`. ``for_good``: somebody cancelled the job."""

    for_good: bool = False


@dataclass(frozen=True, slots=True)
class StopSources:
    """End all sources as if their input had ended; everything in flight is processed."""


@dataclass(frozen=True, slots=True)
class StayForSavepoint:
    """Do not end before `MayEnd`, even with everything processed; say `TaskStays`. In jobs without checkpoints."""


@dataclass(frozen=True, slots=True)
class MayEnd:
    """The savepoint for which the task had to stay is over."""


@dataclass(frozen=True, slots=True)
class WatermarkAlignmentUpdate:
    """How far the slowest member of a watermark alignment group has come; the others wait when too far ahead of it."""

    group: str
    watermark: int


@dataclass(frozen=True, slots=True)
class ExplainWatermark:
    """Say why the watermark behind an operator does not move: ``operator`` of the chain of ``vertex``."""

    question: int
    vertex: int
    operator: int


@dataclass(frozen=True, slots=True)
class QueryState:
    """Say what the state that is queryable as ``name`` holds for ``key``, in the form in which state knows it."""

    question: int
    name: str
    key: Any


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
    """A checkpoint will never be complete: what was prepared for it waits for the next one."""

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


@dataclass(frozen=True, slots=True)
class SampleStacks:
    """Look ``samples`` times, ``delay`` seconds apart, at what the task does; of a stack the innermost ``depth`` frames count."""

    question: int
    samples: int
    delay: float
    depth: int


@dataclass(frozen=True, slots=True)
class DumpThreads:
    """Say what each thread of the task's process does now."""

    question: int


@dataclass(frozen=True, slots=True)
class SetLogLevels:
    """Give loggers these levels from now on; "" is the root, and the level 0 that of the logger above."""

    levels: Mapping[str, int]


#: Asked and answered beside the task's work, by threads that do not wait for it: it may be what is looked into.
TaskInquiry = SampleStacks | DumpThreads | SetLogLevels
TaskAnswer = StacksSampled | ThreadsDumped

CheckpointMessage = SnapshotAcknowledged | SnapshotDeclined | SubtaskEnded
SourceMessage = ReaderRegistered | SplitRequested | ReaderEvent

TaskMessage = (
    TaskStarted
    | SnapshotAcknowledged
    | SnapshotDeclined
    | SubtaskEnded
    | TaskStays
    | ReaderRegistered
    | SplitRequested
    | ReaderEvent
    | TaskReport
    | WatermarkReport
    | WatermarkStalled
    | WatermarkExplained
    | QueryableStateRegistered
    | StateAnswered
    | TextOutput
    | LogOutput
    | StacksSampled
    | ThreadsDumped
    | TaskFinished
    | TaskCancelled
    | TaskFailed
    | Alive
)
MasterMessage = (
    CancelTask
    | StopSources
    | StayForSavepoint
    | MayEnd
    | WatermarkAlignmentUpdate
    | ExplainWatermark
    | QueryState
    | TriggerCheckpoint
    | CheckpointCompleted
    | CheckpointAborted
    | SplitsAssigned
    | EnumeratorEvent
    | SampleStacks
    | DumpThreads
    | SetLogLevels
    | Alive
)
