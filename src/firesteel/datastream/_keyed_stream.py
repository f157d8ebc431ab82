"""KeyedStream: a stream divided by keys, on which operators have state per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common._values import private
from firesteel.common.errors import UnsupportedOperationError
from firesteel.common.time import AnyLength
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation, Types
from firesteel.common.types import Row
from firesteel.contracts.functions import (
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.state import ReducingStateDescriptor, ValueStateDescriptor
from firesteel.contracts.windows import TimeWindow, WindowAssigner
from firesteel.datastream._annotations import Annotation
from firesteel.datastream._fields import resolve
from firesteel.datastream._key_selectors import Key, KeyLike
from firesteel.datastream._rolling_aggregates import RollingExtreme, RollingExtremeBy, RollingSum
from firesteel.datastream._stream import DataStream, Origin, declared_type, output_type_of
from firesteel.datastream._user_functions import (
    ship_callable,
    ship_function,
    ship_plain_callable,
    wrong_argument,
)
from firesteel.datastream._window_shortcuts import count_windows, time_windows
from firesteel.datastream.slot_sharing_group import SlotSharingGroup
from firesteel.graph.stream_graph import Edge
from firesteel.plan.exchange import KeyGroups
from firesteel.plan.keys import KeyRule
from firesteel.plan.operator_specs import (
    MapSpec,
    ProcessSpec,
    ReduceSpec,
    WithStateKind,
    WithStateSpec,
)
from firesteel.plan.shipped import Shipped

if TYPE_CHECKING:
    from firesteel.datastream._closeable_iterator import CloseableIterator
    from firesteel.datastream._interval_join import IntervalJoin
    from firesteel.datastream._queryable_state_stream import QueryableStateStream
    from firesteel.datastream._windowed_stream import WindowedStream

__all__ = ["KeyedStream"]

T = TypeVar("T", covariant=True, default=Any)
T2 = TypeVar("T2", default=Any)
K = TypeVar("K", covariant=True, default=Any)
K2 = TypeVar("K2", default=Any)
S = TypeVar("S", default=Any)
W = TypeVar("W", default=Any)
OUT = TypeVar("OUT", default=Any)


class KeyedStream(DataStream[T], Generic[T, K]):
    """A stream of T divided by keys K. Functions applied to it see one key at a time and may keep state for it."""

    class AccumulateType(Enum):
        """The rolling aggregates."""

        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    def __init__(self, origin_stream: DataStream[T], key: Key) -> None:
        super().__init__(origin_stream._env, origin_stream._origins, origin_stream._type)
        self._annotation = origin_stream._annotation
        self._origin_stream = origin_stream
        self._key = key

    def get_key_type(self) -> TypeInformation[K]:
        """The declared type of the keys; pickled bytes when none was declared, or what a selector's annotation says."""
        if self._key.type is None and self._key.annotation is not None:
            return self._key.annotation.type_info()
        return Types.PICKLED_BYTE_ARRAY() if self._key.type is None else self._key.type

    @override
    def _outgoing(self) -> tuple[Origin, ...]:
        by_key = KeyGroups(self._key.selector)
        return tuple(replace(origin, distribution=by_key) for origin in self._origins)

    @override
    def _edges(self, input_index: int = 0) -> tuple[Edge, ...]:
        return tuple(origin.edge(input_index) for origin in self._outgoing())

    @override
    def _key_selectors(self) -> tuple[Shipped | None, ...]:
        return (self._key.selector,)

    @override
    def _key_type(self) -> TypeInformation | None:
        return self._key.type

    # Per key ----------------------------------------------------------------------------------------

    @overload  # type: ignore[override]  # another kind of function, as in Flink
    def process(self, func: KeyedProcessFunction[K, T, OUT]) -> DataStream[OUT]: ...

    @overload
    def process(
        self, func: KeyedProcessFunction[K, T, Any], output_type: TypeInformation[OUT] | None
    ) -> DataStream[OUT]: ...

    @override
    def process(
        self, func: KeyedProcessFunction[K, T, Any], output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """What a `KeyedProcessFunction` makes of the records, with state and timers per key."""
        spec = ProcessSpec(ship_function(func, "process() on a KeyedStream", KeyedProcessFunction))
        annotation = Annotation.of_each_result(func, "process_element", "on_timer")
        type_info = output_type_of("process()", output_type, func)
        return self._add("Keyed Process", spec, type_info)._annotated(annotation)

    @overload
    def map_with_state(self, func: Callable[[T, Any], tuple[OUT, Any]]) -> DataStream[OUT]: ...

    @overload
    def map_with_state(
        self, func: Callable[[T, S | None], tuple[OUT, S | None]], state_type: TypeInformation[S] | None
    ) -> DataStream[OUT]: ...

    @overload
    def map_with_state(
        self,
        func: Callable[[T, Any], tuple[Any, Any]],
        state_type: TypeInformation | None = None,
        *,
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    @overload
    def map_with_state(
        self,
        func: Callable[[T, Any], tuple[Any, Any]],
        state_type: TypeInformation | None,
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    def map_with_state(
        self,
        func: Callable[[T, Any], tuple[Any, Any]],
        state_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """One output for each record, by a function of the record and its key's state; not in PyFlink.

        The state is None at first; the function returns the output and the new state, None to forget it::

            numbered = stream.key_by(...).map_with_state(lambda r, n: ((n or 0, r), (n or 0) + 1))
        """
        return self._with_state("map_with_state()", WithStateKind.MAP, func, state_type, output_type)

    @overload
    def flat_map_with_state(
        self, func: Callable[[T, Any], tuple[Iterable[OUT] | None, Any]]
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map_with_state(
        self,
        func: Callable[[T, S | None], tuple[Iterable[OUT] | None, S | None]],
        state_type: TypeInformation[S] | None,
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map_with_state(
        self,
        func: Callable[[T, Any], tuple[Iterable[Any] | None, Any]],
        state_type: TypeInformation | None = None,
        *,
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map_with_state(
        self,
        func: Callable[[T, Any], tuple[Iterable[Any] | None, Any]],
        state_type: TypeInformation | None,
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    def flat_map_with_state(
        self,
        func: Callable[[T, Any], tuple[Iterable[Any] | None, Any]],
        state_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Any number of outputs for each record, by a function of the record and its key's state; not in PyFlink.

        The state is None at first; the function returns the outputs and the new state, None to forget it.
        """
        return self._with_state(
            "flat_map_with_state()", WithStateKind.FLAT_MAP, func, state_type, output_type
        )

    @overload
    def filter_with_state(self, func: Callable[[T, Any], tuple[object, Any]]) -> DataStream[T]: ...

    @overload
    def filter_with_state(
        self, func: Callable[[T, S | None], tuple[object, S | None]], state_type: TypeInformation[S] | None
    ) -> DataStream[T]: ...

    def filter_with_state(
        self, func: Callable[[T, Any], tuple[object, Any]], state_type: TypeInformation | None = None
    ) -> DataStream[T]:
        """The records that a function of the record and its key's state wants to keep; not in PyFlink.

        The state is None at first; the function returns whether to keep the record and the new state::

            first_of_each_key = stream.key_by(...).filter_with_state(lambda r, seen: (not seen, True))
        """
        return self._with_state("filter_with_state()", WithStateKind.FILTER, func, state_type, self._type)

    def _with_state(
        self,
        operation: str,
        kind: WithStateKind,
        func: Callable[[Any, Any], Any],
        state_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> DataStream[Any]:
        shipped = ship_plain_callable(func, operation, arguments=2)
        spec = WithStateSpec(shipped, kind, declared_type(operation, state_type))
        name = f"{kind.value.replace('_', ' ').title()} With State"
        return self._add(name, spec, declared_type(operation, output_type), {"state": spec.state_type})

    def reduce(self, func: Callable[[T, T], T] | ReduceFunction[T]) -> DataStream[T]:
        """The reduction of all records of a key so far, for every record; in BATCH only the last one."""
        spec = ReduceSpec(ship_callable(func, "reduce()", ReduceFunction, arguments=2))
        return self._add_reduce("Reduce", spec)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """The sum of a field over the records of a key so far; other fields are those of the first record."""
        field = self._field("sum", position_to_sum)
        return self._add_rolling("Sum", RollingSum(field), f"sum({position_to_sum!r})")

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """The smallest value of a field so far; other fields are those of the key's first record."""
        field = self._field("min", position_to_min)
        return self._add_rolling("Min", RollingExtreme(field, largest=False), f"min({position_to_min!r})")

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """The largest value of a field so far; other fields are those of the key's first record."""
        field = self._field("max", position_to_max)
        return self._add_rolling("Max", RollingExtreme(field, largest=True), f"max({position_to_max!r})")

    def min_by(self, position_to_min_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record with the smallest value of a field so far; of equal ones the first, or the last."""
        field = self._field("min_by", position_to_min_by)
        function = RollingExtremeBy(field, largest=False, first=first)
        return self._add_rolling("Min By", function, f"min_by({position_to_min_by!r})")

    def max_by(self, position_to_max_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record with the largest value of a field so far; of equal ones the first, or the last."""
        field = self._field("max_by", position_to_max_by)
        function = RollingExtremeBy(field, largest=True, first=first)
        return self._add_rolling("Max By", function, f"max_by({position_to_max_by!r})")

    def _field(self, aggregate: str, field: int | str) -> int | str:
        """The field as the records will have it; one that cannot exist is refused."""
        if isinstance(field, bool) or not isinstance(field, (int, str)):
            raise wrong_argument(f"{aggregate}()", "a field position or name", field)
        if field == 0 and not hasattr(self._type, "get_field_types"):
            return 0  # the value itself, when it has no fields
        used_by = f"{aggregate}({field!r})"
        if self._type is None and self._annotation is not None:
            self._annotation.check_field(field, used_by)
        steps, _ = resolve(field, self._type, used_by)
        if len(steps) != 1:
            raise wrong_argument(f"{aggregate}()", "a field of the record itself, not a nested one", field)
        return steps[0]

    def _add_rolling(self, name: str, function: ReduceFunction, description: str) -> DataStream[T]:
        shipped = Shipped.of(function, description).described(description)
        return self._add_reduce(name, ReduceSpec(shipped))

    def _add_reduce(self, name: str, spec: ReduceSpec) -> DataStream[T]:
        return self._add(name, spec, self._type, {"records": self._type})._annotated(self._annotation)

    @overload
    def key_by(
        self,
        key_selector: Callable[[T], K2] | KeySelector[T, K2] | int | str | Sequence[KeyLike],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream[T, K2]: ...

    @overload
    def key_by(
        self,
        key_selector: KeyLike,
        second_selector: KeyLike,
        /,
        *more: KeyLike,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream[T, tuple[Any, ...]]: ...

    @override
    def key_by(
        self,
        key_selector: Any,
        *more: Any,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream[T, Any]:
        """The original stream divided by another key."""
        return self._origin_stream.key_by(key_selector, *more, key_type=key_type)

    # Windows ----------------------------------------------------------------------------------------

    def interval_join(self, other: KeyedStream[T2, K]) -> IntervalJoin[T, T2]:
        """Pair records of one key whose event times are close; not in PyFlink.

        ``a.interval_join(b).between(lower, upper).process(function)``
        """
        from firesteel.datastream._interval_join import IntervalJoin

        if not isinstance(other, KeyedStream):
            raise wrong_argument("interval_join()", "another keyed stream", other)
        self._check_partner("interval_join()", other)
        return IntervalJoin(self, other)

    def window(self, window_assigner: WindowAssigner[T, W]) -> WindowedStream[T, K, W]:
        """The stream divided by keys and windows."""
        from firesteel.datastream._windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T, K, Any]:
        """The stream divided by keys and windows of ``size`` records, one after the other or every ``slide``."""
        return self.window(count_windows(size, slide))

    def time_window(
        self, size: AnyLength, slide: AnyLength | None = None
    ) -> WindowedStream[T, K, TimeWindow]:
        """The stream divided by keys and time windows, tumbling or sliding; as in Java, and not in PyFlink.

        By processing time when that is the environment's time characteristic, otherwise by event time.
        """
        return self.window(time_windows(self._env.get_stream_time_characteristic(), size, slide))

    # Ends -------------------------------------------------------------------------------------------

    def as_queryable_state(
        self,
        queryable_state_name: str,
        state_descriptor: ValueStateDescriptor[T] | ReducingStateDescriptor[T] | None = None,
    ) -> QueryableStateStream:
        """Keep the newest record of each key for those who ask the running job; as in Java, and not in PyFlink.

        With a `ReducingStateDescriptor` it is what its function reduces the records of a key to. See
        docs/queryable_state.md.
        """
        from firesteel.datastream._queryable_state_stream import end_in_queryable_state

        return end_in_queryable_state(self, queryable_state_name, state_descriptor)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # pairs of key and record, as in PyFlink
        def execute_and_collect(
            self, job_execution_name: str | None = None, limit: None = None
        ) -> CloseableIterator[Row]: ...
        @overload
        def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Row]: ...
        @overload
        def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Row]: ...
        @override
        def execute_and_collect(
            self, job_execution_name: str | None = None, limit: int | None = None
        ) -> Any: ...

    @override
    def _collected(self) -> DataStream[Row]:
        """Pairs of key and record: what a KeyedStream collects, as in PyFlink.

        One subtask makes them, the one that collects: several would mix up the order of records.
        """
        shipped = Shipped.of(_PairWithKey(self._key.selector), "execute_and_collect()")
        described = shipped.described(self._key.selector.description)
        type_info = RowTypeInfo([self.get_key_type(), self.get_type()])
        return self._origin_stream._add("Key and Value", MapSpec(described), type_info).set_parallelism(1)

    # What a keyed stream is not ---------------------------------------------------------------------

    @override
    def _settable_node(self, setter: str) -> int:
        raise UnsupportedOperationError(
            f"{setter} is not supported on a KeyedStream: key_by() is no operator; "
            "call it on the stream before key_by(), or on the operator after it"
        )

    @override
    def get_side_output(self, output_tag: OutputTag[Any]) -> NoReturn:
        """Not on a KeyedStream: the operator before ``key_by`` has the side outputs."""
        self._settable_node("get_side_output()")
        raise AssertionError

    @override
    def on_error(self, action: str | None = None, *, dead_letter: OutputTag | None = None) -> NoReturn:
        """Not on a KeyedStream: the operators before and after ``key_by`` have functions that may raise."""
        self._settable_node("on_error()")
        raise AssertionError

    @override
    def cache(self) -> NoReturn:
        self._settable_node("cache()")
        raise AssertionError

    @override
    def returns(self, type_info: TypeInformation) -> NoReturn:
        self._settable_node("returns()")
        raise AssertionError

    @override
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:
        self._settable_node("slot_sharing_group()")
        raise AssertionError

    @override
    def forward(self) -> NoReturn:
        """Not on a KeyedStream: its key says where records go."""
        raise _fixed_partitioning("forward()")

    @override
    def rebalance(self) -> NoReturn:
        """Not on a KeyedStream: its key says where records go."""
        raise _fixed_partitioning("rebalance()")

    @override
    def rescale(self) -> NoReturn:
        """Not on a KeyedStream: its key says where records go."""
        raise _fixed_partitioning("rescale()")

    @override
    def shuffle(self) -> NoReturn:
        """Not on a KeyedStream: its key says where records go."""
        raise _fixed_partitioning("shuffle()")

    @override
    def global_(self) -> NoReturn:
        """Not on a KeyedStream: its key says where records go."""
        raise _fixed_partitioning("global_()")

    @override
    def broadcast(self, *args: Any) -> NoReturn:
        """Not on a KeyedStream: its key says where records go."""
        raise _fixed_partitioning("broadcast()")

    @override
    def partition_custom(self, partitioner: Any, key_selector: Any) -> NoReturn:
        """Not on a KeyedStream: its key says where records go."""
        raise _fixed_partitioning("partition_custom()")


def _fixed_partitioning(operation: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{operation} cannot override the partitioning of a KeyedStream: its key says where records go; "
        "call it before key_by(), or on the result of the next operator"
    )


class _PairWithKey(MapFunction[Any, Row]):
    """Makes a record a row of its key and itself."""

    def __init__(self, selector: Shipped) -> None:
        self._shipped = selector
        self._selector: Any = None
        self._get_key: Callable[[Any], Any] | None = None

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._selector = KeyRule.of(self._shipped.load()).selector
        self._get_key = self._selector
        if isinstance(self._selector, KeySelector):
            self._selector.open(runtime_context)
            self._get_key = self._selector.get_key

    @override
    def close(self) -> None:
        if isinstance(self._selector, KeySelector):
            self._selector.close()

    @override
    def map(self, value: Any) -> Row:
        assert self._get_key is not None
        # A selector may change what it is asked about, and the record goes on.
        return Row(f0=self._get_key(private(value)), f1=value)
