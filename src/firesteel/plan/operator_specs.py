"""One frozen spec per physical operator: what it does and the user code it carries, nothing about running it.

The graph's nodes carry these specs directly: every DataStream operation is either one of them or
is lowered to them by the fluent API (`project` is a map, `split` a process function).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from firesteel.common._override import override
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.state import MapStateDescriptor
from firesteel.plan.on_error import OnError
from firesteel.plan.shipped import Shipped


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """What an operator is, as frozen data: the driver makes it, and tasks build the operator of it."""

    @property
    def user_code(self) -> Shipped | None:
        """The user's function, when there is one; errors and plans name it."""
        return getattr(self, "function", None)

    @property
    def reads_first(self) -> int | None:
        """The input that a BATCH job reads to its end before the others; None when the order does not matter."""
        return None


@dataclass(frozen=True, slots=True)
class RecordFunctionSpec(OperatorSpec):
    """Base of those that call a function once for each record; ``on_error`` None: what it raises fails the job."""

    function: Shipped
    on_error: OnError | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class SourceSpec(OperatorSpec):
    """Reads a `contracts.source.Source`; ``bounded`` decides what AUTOMATIC mode becomes.

    ``max_subtasks`` is the source's own: 1 when it cannot be read in parallel, None for no limit.
    ``strategy`` is a `WatermarkStrategy`; None leaves timestamps and watermarks to the source.
    ``enumerated`` says that the job master has to host an enumerator, which assigns splits to the readers.
    ``decodes`` says that it may meet messages which it cannot deserialize, ``on_error`` what becomes of them (None: they
    fail the job).
    """

    function: Shipped
    bounded: bool
    max_subtasks: int | None = None
    strategy: Shipped | None = None
    enumerated: bool = False
    decodes: bool = False
    on_error: OnError | None = None


@dataclass(frozen=True, slots=True)
class TimestampsSpec(OperatorSpec):
    """New timestamps and watermarks by a `WatermarkStrategy`; those from before end here."""

    strategy: Shipped

    @property
    @override
    def user_code(self) -> Shipped | None:
        """The strategy, described by the user's code in it."""
        return self.strategy


@dataclass(frozen=True, slots=True)
class MapSpec(RecordFunctionSpec):
    """``map(value)``: one output for each input."""


@dataclass(frozen=True, slots=True)
class FilterSpec(RecordFunctionSpec):
    """``filter(value)``: keeps what is true."""


@dataclass(frozen=True, slots=True)
class FlatMapSpec(RecordFunctionSpec):
    """``flat_map(value)``: any number of outputs."""


@dataclass(frozen=True, slots=True)
class ProcessSpec(RecordFunctionSpec):
    """``process_element(value, ctx)``, with side outputs; keyed when its node has a key selector."""


@dataclass(frozen=True, slots=True)
class AsyncSpec(OperatorSpec):
    """``await async_invoke(value)`` for up to ``capacity`` records at a time; no time-out when it is 0.

    ``retry`` is an `AsyncRetryStrategy`; None makes every call once.
    """

    function: Shipped
    timeout_ms: int
    capacity: int
    ordered: bool
    retry: Shipped | None = None


@dataclass(frozen=True, slots=True)
class ReduceSpec(OperatorSpec):
    """``reduce(old, new)`` per key; also the rolling aggregates (sum, min, max, min_by, max_by)."""

    function: Shipped


@dataclass(frozen=True, slots=True)
class WindowSpec(OperatorSpec):
    """Windows per key: what makes them, what fires them, what becomes of their elements.

    ``aggregator`` is a reduce or aggregate function, without which all elements are kept; ``window_function`` gets
    what it makes of them, and without one that is emitted. ``late_tag`` names the side output of late records.
    """

    assigner: Shipped
    trigger: Shipped
    aggregator: Shipped | None = None
    window_function: Shipped | None = None
    evictor: Shipped | None = None
    allowed_lateness: int = 0
    late_tag: str | None = None

    @property
    @override
    def user_code(self) -> Shipped | None:
        """The window function, or what stands for it."""
        return self.aggregator if self.window_function is None else self.window_function


@dataclass(frozen=True, slots=True)
class CoMapSpec(RecordFunctionSpec):
    """``map1`` and ``map2`` over two inputs."""


@dataclass(frozen=True, slots=True)
class CoFlatMapSpec(RecordFunctionSpec):
    """``flat_map1`` and ``flat_map2`` over two inputs."""


@dataclass(frozen=True, slots=True)
class CoProcessSpec(RecordFunctionSpec):
    """``process_element1`` and ``process_element2`` over two inputs."""


@dataclass(frozen=True, slots=True)
class BroadcastProcessSpec(RecordFunctionSpec):
    """``process_element`` over input 0, ``process_broadcast_element`` over input 1, which is broadcast."""

    descriptors: tuple[MapStateDescriptor, ...]

    @property
    @override
    def reads_first(self) -> int | None:
        return 1


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(OperatorSpec):
    """``process_element(left, right, ctx)`` for pairs of one key; bounds in milliseconds, inclusive."""

    function: Shipped
    lower: int
    upper: int
    left_late_tag: str | None = None
    right_late_tag: str | None = None


@dataclass(frozen=True, slots=True)
class TransformSpec(OperatorSpec):
    """A `contracts.stream_operators.OneInputStreamOperator` of the user."""

    function: Shipped


@dataclass(frozen=True, slots=True)
class TwoInputTransformSpec(OperatorSpec):
    """A `contracts.stream_operators.TwoInputStreamOperator`; ``selects`` when it chooses which input is read next."""

    function: Shipped
    selects: bool = False


class WithStateKind(enum.Enum):
    """What a function of record and state gives: one result, any number, or whether to keep the record."""

    MAP = "map"
    FLAT_MAP = "flat_map"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class WithStateSpec(OperatorSpec):
    """``function(value, state or None)`` per key, which returns its result and the new state or None."""

    function: Shipped
    kind: WithStateKind
    state_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True)
class SinkSpec(OperatorSpec):
    """A `contracts.sink.SinkFunction`, one with transactions, or a `contracts.write_ahead.GenericWriteAheadSink`."""

    function: Shipped


@dataclass(frozen=True, slots=True)
class WriterSinkSpec(OperatorSpec):
    """A `contracts.sink.Sink`: writers, and committers for what they wrote."""

    function: Shipped
    input_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True)
class PrintSpec(OperatorSpec):
    """Lines to the standard output of whoever started the job."""

    identifier: str = ""
    to_stderr: bool = False
    input_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True)
class CollectSpec(OperatorSpec):
    """Records back to the driver, for ``execute_and_collect``."""

    collect_id: str


class RuntimeMode(enum.Enum):
    """How the exchanges between stages work."""

    STREAMING = "streaming"
    BATCH = "batch"
