"""Streams divided by windows, with and without keys."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from firesteel.common._did_you_mean import SuggestsNames
from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError
from firesteel.common.time import AnyLength, millis_of
from firesteel.common.typeinfo import TupleTypeInfo, TypeInformation
from firesteel.contracts.evictors import Evictor
from firesteel.contracts.functions import (
    AggregateFunction,
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import MapStateDescriptor, ValueStateDescriptor
from firesteel.contracts.triggers import NeverTrigger
from firesteel.contracts.windows import MergingWindowAssigner, Trigger, WindowAssigner
from firesteel.datastream._annotations import Annotation
from firesteel.datastream._other_names import OF_WINDOWS
from firesteel.datastream._rolling_aggregates import RollingExtreme, RollingExtremeBy, RollingSum
from firesteel.datastream._stream import declared_type
from firesteel.datastream._user_functions import (
    check_parts,
    refuse_checkpointed_parts,
    ship_callable,
    ship_function,
    wrong_argument,
)
from firesteel.plan.operator_specs import WindowSpec
from firesteel.plan.shipped import Shipped

if TYPE_CHECKING:
    from firesteel.datastream._keyed_stream import KeyedStream
    from firesteel.datastream._stream import DataStream
    from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["AllWindowedStream", "WindowedStream"]

_LOG = logging.getLogger(__name__)

T = TypeVar("T", covariant=True, default=Any)
K = TypeVar("K", covariant=True, default=Any)
W = TypeVar("W", default=Any)
ACC = TypeVar("ACC", default=Any)
R = TypeVar("R", default=Any)
OUT = TypeVar("OUT", default=Any)

_Reduce = Callable[[T, T], T] | ReduceFunction[T]
_Accumulators = TypeInformation[Any] | list[TypeInformation[Any]] | None


class _Windowed(SuggestsNames, Generic[T, K, W]):
    """What both kinds share; which window functions they take, each says for itself."""

    _elsewhere = OF_WINDOWS
    _kind: str
    _shown: str
    _apply_kind: type[Function]
    _process_kind: type[Function]

    def __init__(self, keyed_stream: KeyedStream[T, K], window_assigner: WindowAssigner[T, W]) -> None:
        if isinstance(window_assigner, type) or not isinstance(window_assigner, WindowAssigner):
            raise wrong_argument(f"{self._kind}()", "a WindowAssigner", window_assigner)
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[T, W] | None = None
        self._evictor: Evictor[T, W] | None = None
        self._allowed_lateness = 0
        self._late_tag: OutputTag[T] | None = None
        #: What windows keep when they keep the records themselves; `_joined_streams` knows better.
        self._kept_records: Mapping[str, TypeInformation | None] = {"records": keyed_stream._type}

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation[T]:
        """The declared type of the records; pickled bytes when none was declared."""
        return self._keyed_stream.get_type()

    # Settings ---------------------------------------------------------------------------------------

    def trigger(self, trigger: Trigger[T, W]) -> Self:
        """Decide with another trigger when windows fire; it replaces the assigner's own."""
        if not isinstance(trigger, Trigger):
            raise wrong_argument("trigger()", "a Trigger", trigger)
        if isinstance(self._assigner, MergingWindowAssigner):
            _check_mergeable(trigger, self._assigner)
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[T, W]) -> Self:
        """Let an evictor remove elements around the window function; not in PyFlink.

        All elements are kept then, and a reduce or aggregate function is applied when the window fires.
        """
        if not isinstance(evictor, Evictor):
            raise wrong_argument("evictor()", "an Evictor", evictor)
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: AnyLength) -> Self:
        """Keep windows for some time (milliseconds, or a length of time) after their end, for late records.

        Each one fires its window again. Without effect on windows of processing time, which knows no late records.
        """
        try:
            lateness = millis_of(time_ms)
        except TypeError:
            raise wrong_argument("allowed_lateness()", "a number of milliseconds", time_ms) from None
        if lateness < 0:
            raise ProgramError(f"allowed_lateness() cannot be negative, got {lateness} ms")
        self._allowed_lateness = lateness
        return self

    def side_output_late_data(self, output_tag: OutputTag[T]) -> Self:
        """Send records of which all windows are over to a side output, instead of dropping them."""
        if not isinstance(output_tag, OutputTag):
            raise wrong_argument("side_output_late_data()", "an OutputTag", output_tag)
        self._late_tag = output_tag
        return self

    # Functions --------------------------------------------------------------------------------------

    def reduce(
        self,
        reduce_function: _Reduce[T],
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """The reduction of each window's elements, or what a window function makes of it.

        Elements are reduced as they come, in each of their windows. Windows that overlap share parts when the function
        says that this makes no difference, with `merges_exactly`; sessions call it to merge, too.
        """
        aggregator = ship_callable(reduce_function, "reduce()", ReduceFunction, arguments=2)
        if window_function is None and output_type is None:
            output_type = self._keyed_stream._type
        stream = self._add(aggregator, self._shipped("reduce()", window_function), output_type)
        is_reduced = window_function is None
        return stream._annotated(
            self._keyed_stream._annotation if is_reduced else _annotation(window_function)
        )

    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, Any],
        window_function: Any = None,
        accumulator_type: _Accumulators = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """The aggregate of each window's elements, or what a window function makes of it.

        Elements are aggregated as they come, in each of their windows. Session windows need ``merge``; others use it
        to share parts only when the function says that this makes no difference, with `merges_exactly`.
        """
        aggregator = ship_function(aggregate_function, "aggregate()", AggregateFunction)
        if isinstance(accumulator_type, list):
            accumulator_type = TupleTypeInfo(accumulator_type)
        kept = {"accumulators": declared_type("aggregate()", accumulator_type)}
        stream = self._add(aggregator, self._shipped("aggregate()", window_function), output_type, kept)
        is_aggregate = window_function is None
        aggregated = Annotation.of_results(aggregate_function, "get_result") if is_aggregate else None
        return stream._annotated(aggregated if is_aggregate else _annotation(window_function))

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """What a window function makes of all elements of a window, which are kept until it fires."""
        shipped = ship_function(window_function, "apply()", self._apply_kind)
        return self._add(None, shipped, output_type)._annotated(_annotation(window_function))

    def process(
        self, process_window_function: Any, output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """What a window function makes of all elements of a window, with its times and with state."""
        shipped = ship_function(process_window_function, "process()", self._process_kind)
        return self._add(None, shipped, output_type)._annotated(_annotation(process_window_function))

    # Aggregates; not in PyFlink ---------------------------------------------------------------------

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """The sum of a field over each window; other fields are those of the first record that came."""
        field = self._keyed_stream._field("sum", position_to_sum)
        return self._add_built_in(RollingSum(field), f"sum({position_to_sum!r})")

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """The smallest value of a field in each window; other fields are those of the first record that came."""
        field = self._keyed_stream._field("min", position_to_min)
        return self._add_built_in(RollingExtreme(field, largest=False), f"min({position_to_min!r})")

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """The largest value of a field in each window; other fields are those of the first record that came."""
        field = self._keyed_stream._field("max", position_to_max)
        return self._add_built_in(RollingExtreme(field, largest=True), f"max({position_to_max!r})")

    def min_by(self, position_to_min_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record with the smallest value of a field in each window; of equal ones the first, or the last."""
        field = self._keyed_stream._field("min_by", position_to_min_by)
        function = RollingExtremeBy(field, largest=False, first=first)
        return self._add_built_in(function, f"min_by({position_to_min_by!r})")

    def max_by(self, position_to_max_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record with the largest value of a field in each window; of equal ones the first, or the last."""
        field = self._keyed_stream._field("max_by", position_to_max_by)
        function = RollingExtremeBy(field, largest=True, first=first)
        return self._add_built_in(function, f"max_by({position_to_max_by!r})")

    # Building the graph -----------------------------------------------------------------------------

    def _add_built_in(self, function: ReduceFunction, description: str) -> DataStream[T]:
        shipped = Shipped.of(function, description).described(description)
        stream = self._add(shipped, None, self._keyed_stream._type)
        return stream._annotated(self._keyed_stream._annotation)

    def _shipped(self, used_by: str, window_function: Any) -> Shipped | None:
        if window_function is None:
            return None
        return ship_function(window_function, used_by, self._apply_kind, self._process_kind)

    def _add(
        self,
        aggregator: Shipped | None,
        function: Shipped | None,
        output_type: TypeInformation | None,
        accumulators: Mapping[str, TypeInformation | None] | None = None,
    ) -> DataStream[Any]:
        assigner = self._assigner
        trigger = self._trigger
        if trigger is None:
            trigger = assigner.get_default_trigger(self.get_execution_environment())
            if isinstance(assigner, MergingWindowAssigner):
                _check_mergeable(trigger, assigner)
        if type(trigger) is NeverTrigger:
            _LOG.warning(
                "%s(%r) never gives a result, because its trigger is a NeverTrigger; call trigger(), or use "
                "GlobalWindows.create_with_end_of_stream_trigger() for a result when the input has ended",
                self._kind, assigner,
            )  # fmt: skip
        for part, used_by in ((assigner, self._kind), (trigger, "trigger"), (self._evictor, "evictor")):
            refuse_checkpointed_parts(part, f"{used_by}()", _IN_WINDOW_FUNCTION)
            check_parts(part, f"{used_by}()")
        spec = WindowSpec(
            Shipped.of(assigner, f"{self._kind}()"),
            Shipped.of(trigger, "trigger()"),
            aggregator,
            function,
            None if self._evictor is None else Shipped.of(self._evictor, "evictor()"),
            self._allowed_lateness,
            None if self._late_tag is None else self._late_tag.tag_id,
        )
        stream = self._keyed_stream._add(
            type(assigner).__name__,
            spec,
            declared_type("the window's output_type", output_type),
            # With an evictor windows keep all records, whatever becomes of them.
            self._kept_records if accumulators is None or self._evictor is not None else accumulators,
        )
        used = ", ".join(each.description for each in (aggregator, function) if each is not None)
        self._describe(stream, f"{self._shown}({assigner!r}, {type(trigger).__name__}, {used})")
        return stream

    def _describe(self, stream: DataStream, description: str) -> None:
        stream.set_description(description)


class WindowedStream(_Windowed[T, K, W]):
    """A stream divided by keys and windows."""

    _kind = "window"
    _shown = "Window"
    _apply_kind = WindowFunction
    _process_kind = ProcessWindowFunction

    if TYPE_CHECKING:
        # Signatures only: what `_Windowed` does is the same for both, and they are told apart by the number of
        # arguments, so that what is wrong with a function is shown at its line.

        @overload  # type: ignore[override]
        def reduce(self, reduce_function: _Reduce[T]) -> DataStream[T]: ...
        @overload
        def reduce(
            self, reduce_function: _Reduce[T], *, output_type: TypeInformation[OUT] | None
        ) -> DataStream[OUT]: ...
        @overload
        def reduce(
            self,
            reduce_function: _Reduce[T],
            window_function: WindowFunction[T, OUT, K, W] | ProcessWindowFunction[T, OUT, K, W],
        ) -> DataStream[OUT]: ...
        @overload
        def reduce(
            self,
            reduce_function: _Reduce[T],
            window_function: WindowFunction[T, Any, K, W] | ProcessWindowFunction[T, Any, K, W] | None,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @override
        def reduce(
            self, reduce_function: _Reduce[T], window_function: Any = None, output_type: Any = None
        ) -> DataStream[Any]: ...

        @overload  # type: ignore[override]
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, OUT],
            *,
            accumulator_type: _Accumulators = None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, Any],
            *,
            accumulator_type: _Accumulators = None,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, R],
            window_function: WindowFunction[R, OUT, K, W] | ProcessWindowFunction[R, OUT, K, W],
            accumulator_type: _Accumulators = None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, R],
            window_function: WindowFunction[R, Any, K, W] | ProcessWindowFunction[R, Any, K, W] | None,
            accumulator_type: _Accumulators = None,
            *,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, R],
            window_function: WindowFunction[R, Any, K, W] | ProcessWindowFunction[R, Any, K, W] | None,
            accumulator_type: _Accumulators,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @override
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, Any, Any],
            window_function: Any = None,
            accumulator_type: _Accumulators = None,
            output_type: Any = None,
        ) -> DataStream[Any]: ...

        @overload  # type: ignore[override]
        def apply(self, window_function: WindowFunction[T, OUT, K, W]) -> DataStream[OUT]: ...
        @overload
        def apply(
            self, window_function: WindowFunction[T, Any, K, W], output_type: TypeInformation[OUT] | None
        ) -> DataStream[OUT]: ...
        @override
        def apply(self, window_function: Any, output_type: Any = None) -> DataStream[Any]: ...

        @overload  # type: ignore[override]
        def process(
            self, process_window_function: ProcessWindowFunction[T, OUT, K, W]
        ) -> DataStream[OUT]: ...
        @overload
        def process(
            self,
            process_window_function: ProcessWindowFunction[T, Any, K, W],
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @override
        def process(self, process_window_function: Any, output_type: Any = None) -> DataStream[Any]: ...


class AllWindowedStream(_Windowed[T, int, W], Generic[T, W]):
    """A stream divided by windows alone; its operators have one subtask."""

    _kind = "window_all"
    _shown = "AllWindow"
    _apply_kind = AllWindowFunction
    _process_kind = ProcessAllWindowFunction

    def __init__(self, data_stream: DataStream[T], window_assigner: WindowAssigner[T, W]) -> None:
        super().__init__(data_stream.key_by(_same_key), window_assigner)

    @override
    def _describe(self, stream: DataStream, description: str) -> None:
        stream.force_non_parallel()
        super()._describe(stream, description)

    if TYPE_CHECKING:
        # Signatures only: what `_Windowed` does is the same for both, and they are told apart by the number of
        # arguments, so that what is wrong with a function is shown at its line.

        @overload  # type: ignore[override]
        def reduce(self, reduce_function: _Reduce[T]) -> DataStream[T]: ...
        @overload
        def reduce(
            self, reduce_function: _Reduce[T], *, output_type: TypeInformation[OUT] | None
        ) -> DataStream[OUT]: ...
        @overload
        def reduce(
            self,
            reduce_function: _Reduce[T],
            window_function: AllWindowFunction[T, OUT, W] | ProcessAllWindowFunction[T, OUT, W],
        ) -> DataStream[OUT]: ...
        @overload
        def reduce(
            self,
            reduce_function: _Reduce[T],
            window_function: AllWindowFunction[T, Any, W] | ProcessAllWindowFunction[T, Any, W] | None,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @override
        def reduce(
            self, reduce_function: _Reduce[T], window_function: Any = None, output_type: Any = None
        ) -> DataStream[Any]: ...

        @overload  # type: ignore[override]
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, OUT],
            *,
            accumulator_type: _Accumulators = None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, Any],
            *,
            accumulator_type: _Accumulators = None,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, R],
            window_function: AllWindowFunction[R, OUT, W] | ProcessAllWindowFunction[R, OUT, W],
            accumulator_type: _Accumulators = None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, R],
            window_function: AllWindowFunction[R, Any, W] | ProcessAllWindowFunction[R, Any, W] | None,
            accumulator_type: _Accumulators = None,
            *,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @overload
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, ACC, R],
            window_function: AllWindowFunction[R, Any, W] | ProcessAllWindowFunction[R, Any, W] | None,
            accumulator_type: _Accumulators,
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @override
        def aggregate(
            self,
            aggregate_function: AggregateFunction[T, Any, Any],
            window_function: Any = None,
            accumulator_type: _Accumulators = None,
            output_type: Any = None,
        ) -> DataStream[Any]: ...

        @overload  # type: ignore[override]
        def apply(self, window_function: AllWindowFunction[T, OUT, W]) -> DataStream[OUT]: ...
        @overload
        def apply(
            self, window_function: AllWindowFunction[T, Any, W], output_type: TypeInformation[OUT] | None
        ) -> DataStream[OUT]: ...
        @override
        def apply(self, window_function: Any, output_type: Any = None) -> DataStream[Any]: ...

        @overload  # type: ignore[override]
        def process(
            self, process_window_function: ProcessAllWindowFunction[T, OUT, W]
        ) -> DataStream[OUT]: ...
        @overload
        def process(
            self,
            process_window_function: ProcessAllWindowFunction[T, Any, W],
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @override
        def process(self, process_window_function: Any, output_type: Any = None) -> DataStream[Any]: ...


_IN_WINDOW_FUNCTION = "keep the state in the window function, or, in a trigger, in get_partitioned_state()"


def _annotation(window_function: Any) -> Annotation | None:
    is_process = isinstance(window_function, ProcessWindowFunction | ProcessAllWindowFunction)
    return Annotation.of_each_result(window_function, "process" if is_process else "apply")


def _same_key(value: Any) -> int:
    """The key of all records of a stream without keys."""
    return 0


def _check_mergeable(trigger: Trigger[Any, Any], assigner: WindowAssigner[Any, Any]) -> None:
    """Refuse triggers that cannot follow their windows when these merge."""
    if not trigger.can_merge():
        raise ProgramError(
            f"{assigner!r} merges windows, but {type(trigger).__name__} cannot: its can_merge() says so; use a trigger "
            "that merges, or windows that do not"
        )
    unmergeable = _unmergeable_state(trigger)
    if unmergeable:
        raise ProgramError(
            f"{assigner!r} merges windows, but {type(trigger).__name__} keeps {unmergeable[0]!r}, which cannot be "
            "merged; use list, reducing or aggregating state in triggers of merging windows"
        )


def _unmergeable_state(trigger: Trigger[Any, Any]) -> list[Any]:
    descriptors: list[Any] = []
    for attribute in vars(trigger).values():
        if isinstance(attribute, ValueStateDescriptor | MapStateDescriptor):
            descriptors.append(attribute)
        elif isinstance(attribute, Trigger):
            descriptors += _unmergeable_state(attribute)
    return descriptors
