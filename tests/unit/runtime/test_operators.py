"""What each operator does with a batch, with and without event time."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.sink import SinkFunction
from firesteel.contracts.state import ValueStateDescriptor
from firesteel.plan import operator_specs as specs
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.shipped import Shipped
from firesteel.testing._operator_harness import OperatorHarness

LATE = OutputTag("late")
ODD = OutputTag("odd")


def harness(kind: Any, function: Any, **more: Any) -> OperatorHarness:
    return OperatorHarness(kind(Shipped.of(function, "test")), **more)


def first(value: Any) -> Any:
    return value[0]


# map, filter, flat_map -----------------------------------------------------------------------------------


def test_map_keeps_timestamps() -> None:
    op = harness(specs.MapSpec, lambda x: x * 2)
    op.process([1, 2], [10, None])
    assert (op.output.values, op.output.timestamps) == ([2, 4], [10, None])


@dataclass
class Reading:
    sensor: int
    tags: list[int]
    shared: ClassVar[list[int]] = []


class KeepsReadings(MapFunction):
    """Returns the same object for all records, changed."""

    def __init__(self) -> None:
        self.kept = Reading(0, [])

    def map(self, value: Any) -> Any:
        self.kept.sensor += value.sensor
        return self.kept


def _of_the_class(reading: Reading) -> list[int]:
    reading.shared.append(reading.sensor)
    return reading.shared


def test_records_of_one_class_are_copied_where_a_function_could_change_them_later() -> None:
    readings = [Reading(1, [1]), Reading(2, [2])]
    harmless = harness(specs.MapSpec, lambda r: Reading(r.sensor * 2, r.tags))
    harmless.process(readings)
    assert harmless.output.values[0].tags is readings[0].tags, "nobody else holds it: no copy"
    kept = harness(specs.MapSpec, KeepsReadings())
    kept.process(readings)
    assert [r.sensor for r in kept.output.values] == [1, 3]
    shared = harness(specs.MapSpec, _of_the_class)
    shared.process(readings)
    assert shared.output.values == [[1], [1, 2]]
    judged = harness(specs.FilterSpec, lambda r: r.sensor > 1)
    judged.process(readings)
    assert judged.output.values[0] is readings[1]
    mixed = harness(specs.FilterSpec, lambda r: r.sensor > 1)
    mixed.process([*readings, Late(3)])
    assert mixed.output.values[0] is not readings[1], (
        "of a class that nobody has looked at anything may be true"
    )


@dataclass
class Late:
    sensor: int


def test_filter_keeps_timestamps_of_what_it_keeps() -> None:
    op = harness(specs.FilterSpec, lambda x: x % 2)
    op.process([1, 2, 3])
    op.process([4, 5, 6, 7], [40, 50, 60, 70])
    assert op.output.values == [1, 3, 5, 7]
    assert op.output.timestamps == [None, None, 50, 70]


def test_flat_map_takes_generators_lists_and_none() -> None:
    def expand(value: int) -> Any:
        if value == 0:
            return None
        return [value] * value if value % 2 else (value for _ in range(value))

    op = harness(specs.FlatMapSpec, expand)
    op.process([0, 1, 2, 3])
    assert op.output.values == [1, 2, 2, 3, 3, 3]


def test_flat_map_gives_results_the_timestamp_of_their_input() -> None:
    op = harness(specs.FlatMapSpec, lambda x: range(x))
    op.process([2, 0, 1], [20, 0, 10])
    assert list(zip(op.output.values, op.output.timestamps, strict=True)) == [(0, 20), (1, 20), (0, 10)]


def test_map_may_return_none() -> None:
    op = harness(specs.MapSpec, lambda x: None)
    op.process([1])
    assert op.output.values == [None]


def test_an_object_with_the_method_needs_no_base_class() -> None:
    class Doubler:
        def map(self, value: int) -> int:
            return value * 2

    op = harness(specs.MapSpec, Doubler())
    op.process([1])
    assert op.output.values == [2]


class Lifecycle(MapFunction):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.append(f"open {runtime_context.get_index_of_this_subtask()}")

    def close(self) -> None:
        self.calls.append("close")

    def map(self, value: Any) -> Any:
        return list(self.calls)


def test_functions_are_opened_once_before_and_closed_once_after() -> None:
    op = harness(specs.MapSpec, Lifecycle(), parallelism=4, subtask=3)
    op.process([1, 2])
    op.close()
    op.close()
    assert op.output.values == [["open 3"], ["open 3"]]
    function: Any = op.operator
    assert function.function.instance.calls == ["open 3", "close"]


# reduce --------------------------------------------------------------------------------------------------


def test_reduce_emits_every_update_in_streaming() -> None:
    op = harness(specs.ReduceSpec, lambda a, b: (a[0], a[1] + b[1]), keys=(first,))
    op.process([("a", 1), ("b", 1), ("a", 2)], [1, 2, 3])
    op.process([("a", 4)])
    assert op.output.values == [("a", 1), ("b", 1), ("a", 3), ("a", 7)]
    assert op.output.timestamps == [1, 2, 3, None]


def test_reduce_emits_only_the_last_value_of_each_key_in_batch() -> None:
    op = harness(specs.ReduceSpec, lambda a, b: (a[0], a[1] + b[1]), keys=(first,), mode=RuntimeMode.BATCH)
    op.process([("a", 1), ("b", 1), ("a", 2)])
    assert op.output.values == []
    op.finish()
    assert sorted(op.output.values) == [("a", 3), ("b", 1)]


def add_in_place(total: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    total["n"] += new["n"]
    return total


@pytest.mark.parametrize("size", [1, 3, 200])
def test_a_reduce_function_that_changes_its_argument_does_not_change_what_was_emitted(size: int) -> None:
    driven = harness(specs.ReduceSpec, add_in_place, keys=(lambda v: 0,))
    ones = [{"n": 1} for _ in range(200)]
    for start in range(0, 200, size):
        driven.process(ones[start : start + size])
    assert [result["n"] for result in driven.output.values] == list(range(1, 201))


def test_reduce_takes_falsy_values_and_none_for_what_they_are() -> None:
    op = harness(specs.ReduceSpec, lambda a, b: (a, b), keys=(lambda v: 0,))
    op.process([None, 0, ""])
    assert op.output.values == [None, (None, 0), ((None, 0), "")]


class CountingReduce(ReduceFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.seen.update((self.seen.value() or 0) + 1)
        return (value1[0], self.seen.value())


def test_a_rich_reduce_function_has_state_of_its_key() -> None:
    op = harness(specs.ReduceSpec, CountingReduce(), keys=(first,))
    op.process([("a", 0), ("b", 0), ("a", 0), ("a", 0), ("b", 0)])
    assert op.output.values == [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("b", 1)]


# keyed state in plain functions --------------------------------------------------------------------------


class RunningCount(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


class RunningFlat(RunningCount, FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[Any]:
        yield self.map(value)


@pytest.mark.parametrize(
    ("kind", "function"), [(specs.MapSpec, RunningCount()), (specs.FlatMapSpec, RunningFlat())]
)
def test_rich_functions_on_a_keyed_stream_see_the_state_of_the_record(kind: Any, function: Any) -> None:
    op = harness(kind, function, keys=(lambda v: v,))
    op.process(["a", "b", "a", "a"])
    assert op.output.values == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


def test_state_without_keys_is_refused_with_a_remedy() -> None:
    with pytest.raises(UserCodeError, match=r"asks for keyed state 'count'.*call key_by\(\) first"):
        harness(specs.MapSpec, RunningCount())


# process -------------------------------------------------------------------------------------------------


class Split(ProcessFunction):
    """Odd numbers aside by yield, multiples of ten aside through the context, the rest on."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 10 == 0:
            ctx.output(LATE, value)
        elif value % 2:
            yield ODD, value
        else:
            yield value


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3, 4, 5, 6]])
def test_side_outputs_get_what_is_meant_for_them_with_its_timestamp(timestamps: Any) -> None:
    op = harness(specs.ProcessSpec, Split())
    op.process([1, 2, 10, 3, 4, 20], timestamps)
    stamps = timestamps or [None] * 6
    assert (op.output.values, op.output.timestamps) == ([2, 4], [stamps[1], stamps[4]])
    assert op.output.sides == {"odd": [1, 3], "late": [10, 20]}
    assert op.output.side_timestamps == {"odd": [stamps[0], stamps[3]], "late": [stamps[2], stamps[5]]}


def test_both_ways_to_a_side_output_keep_their_order() -> None:
    class Both(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
            ctx.output(ODD, (value, "first"))
            yield ODD, (value, "second")

    op = harness(specs.ProcessSpec, Both())
    op.process([1, 2])
    assert op.output.sides["odd"] == [(1, "first"), (1, "second"), (2, "first"), (2, "second")]


class Times(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        yield value, ctx.timestamp(), timers.current_watermark(), timers.current_processing_time()


def test_context_tells_timestamp_watermark_and_processing_time() -> None:
    op = harness(specs.ProcessSpec, Times())
    now = int(op.services.now() * 1000)
    op.process(["a", "b"], [5, None])
    op.watermark(7)
    op.process(["c"])
    start = -(2**63)
    assert op.output.values == [("a", 5, start, now), ("b", None, start, now), ("c", None, 7, now)]
    assert op.output.watermarks == [7]


class Keyed(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]])
def test_keyed_process_has_key_and_state(timestamps: Any) -> None:
    op = harness(specs.ProcessSpec, Keyed(), keys=(first,))
    op.process(["ax", "by", "az"], timestamps)
    assert op.output.values == [("a", 1), ("b", 1), ("a", 2)]


def test_process_may_return_a_list_or_none() -> None:
    class Plain(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            return [value, value] if value else None

    op = harness(specs.ProcessSpec, Plain())
    op.process([0, 1])
    assert op.output.values == [1, 1]


# two inputs ----------------------------------------------------------------------------------------------


class CoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return None if value == 0 else ("one", value)

    def map2(self, value: Any) -> Any:
        return ("two", value)


def test_co_map_drops_none_and_its_timestamp() -> None:
    op = harness(specs.CoMapSpec, CoMap())
    op.process([1, 0, 2], [10, 20, 30])
    op.process_second([0])
    assert op.output.values == [("one", 1), ("one", 2), ("two", 0)]
    assert op.output.timestamps == [10, 30, None]


def test_co_map_does_not_compare_results() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise AssertionError("results must not be compared")

        __hash__ = None  # type: ignore[assignment]

    class Function(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return Odd()

        def map2(self, value: Any) -> Any:
            return None

    op = harness(specs.CoMapSpec, Function())
    op.process([1])
    op.process_second([1])
    assert len(op.output.values) == 1


class CoFlat(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [value] * value

    def flat_map2(self, value: Any) -> Iterator[Any]:
        yield -value


def test_co_flat_map() -> None:
    op = harness(specs.CoFlatMapSpec, CoFlat())
    op.process([2, 0, 1], [1, 2, 3])
    op.process_second([5])
    assert op.output.values == [2, 2, 1, -5]
    assert op.output.timestamps == [1, 1, 3, None]


class CoKeyed(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 10)
        yield ctx.get_current_key(), self.count.value()


def test_keyed_co_process_shares_state_between_its_inputs() -> None:
    op = harness(specs.CoProcessSpec, CoKeyed(), keys=(first, lambda v: v[1]))
    op.process(["ax", "bx"])
    op.process_second(["xa", "xa"])
    op.process(["ay"])
    assert op.output.values == [("a", 1), ("b", 1), ("a", 11), ("a", 21), ("a", 22)]


class CoPlain(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 1, value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield ODD, (2, value)


def test_co_process_with_side_output() -> None:
    op = harness(specs.CoProcessSpec, CoPlain())
    op.process(["a"])
    op.process_second(["b"])
    assert op.output.values == [(1, "a")]
    assert op.output.sides == {"odd": [(2, "b")]}


class CoRich(CoMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map1(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()

    map2 = map1


def test_rich_co_map_on_keyed_streams_has_state() -> None:
    op = harness(specs.CoMapSpec, CoRich(), keys=(first, first))
    op.process(["a", "b"])
    op.process_second(["a"])
    assert op.output.values == [("a", 1), ("b", 1), ("a", 2)]


# sinks ---------------------------------------------------------------------------------------------------


class Seen(SinkFunction):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.seen.append((value, context.timestamp(), context.current_watermark()))


def sink_of(op: OperatorHarness) -> Any:
    operator: Any = op.operator
    return operator.function.instance


def test_sink_sees_every_record_with_its_time() -> None:
    op = harness(specs.SinkSpec, Seen())
    op.process(["a"])
    op.watermark(3)
    op.process(["b", "c"], [4, None])
    assert sink_of(op).seen == [("a", None, -(2**63)), ("b", 4, 3), ("c", None, 3)]


class CountsPerKey(Seen):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.append((value, self.count.value()))


def test_sink_on_a_keyed_stream_has_the_state_of_the_records_key() -> None:
    op = harness(specs.SinkSpec, CountsPerKey(), keys=(first,))
    op.process(["ab", "b", "ac"])
    op.process(["b"], [5])
    assert sink_of(op).seen == [("ab", 1), ("b", 1), ("ac", 2), ("b", 2)]


def test_sink_without_a_context_parameter() -> None:
    class Short:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def invoke(self, value: Any) -> None:
            self.seen.append(value)

    op = harness(specs.SinkSpec, Short())
    op.process([1, 2], [1, 2])
    assert sink_of(op).seen == [1, 2]


@pytest.mark.parametrize(
    ("identifier", "parallelism", "prefix"),
    [("", 1, ""), ("", 2, "2> "), ("out", 1, "out> "), ("out", 3, "out:2> ")],
)
def test_print_prefixes_as_flink_does(identifier: str, parallelism: int, prefix: str) -> None:
    op = OperatorHarness(
        specs.PrintSpec(identifier), parallelism=parallelism, subtask=min(1, parallelism - 1)
    )
    op.process([1, "two"])
    assert op.services.texts == [(f"{prefix}1\n{prefix}two\n", False)]


def test_print_to_standard_error() -> None:
    op = OperatorHarness(specs.PrintSpec(to_stderr=True))
    op.process([1])
    assert op.services.texts == [("1\n", True)]


def test_collect_sends_each_batch_to_the_driver() -> None:
    op = OperatorHarness(specs.CollectSpec("c1"))
    op.process([1, "a"])
    op.process([None])
    assert [(name, pickle.loads(blob)) for name, blob in op.services.blobs] == [
        ("c1", [1, "a"]),
        ("c1", [None]),
    ]


# counters ------------------------------------------------------------------------------------------------


def test_metrics_and_accumulators_are_reported() -> None:
    from firesteel.common.accumulators import IntCounter

    class Measured(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.metric = runtime_context.get_metrics_group().counter("seen")
            self.accumulator = IntCounter()
            runtime_context.add_accumulator("total", self.accumulator)

        def map(self, value: int) -> int:
            self.metric.inc()
            self.accumulator.add(value)
            return value

    op = harness(specs.MapSpec, Measured())
    op.process([5, 6])
    assert dict(op.runtime.metrics.snapshot())["Operator.seen"] == 2
    assert op.runtime.get_accumulator("total").get_local_value() == 11


# exit ----------------------------------------------------------------------------------------------------


class Leaves(KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> None:
        if value < 0:
            sys.exit("no negative numbers")
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        sys.exit(5)


def test_exit_is_explained_like_any_other_error() -> None:
    op = OperatorHarness(specs.ProcessSpec(Shipped.of(Leaves(), "process")), keys=(lambda v: v % 10,))
    with pytest.raises(
        UserCodeError, match=r"wanted the task's process to exit \(SystemExit: no neg"
    ) as caught:
        op.process([1, -7, 3], [1, 2, 3])
    assert (caught.value.operator, caught.value.record) == ("Operator", "-7")
    assert "Leaves" in caught.value.function
    assert "sys.exit(" in caught.value.traceback_text
    with pytest.raises(UserCodeError, match=r"SystemExit: 5.*\n.*in on_timer for key 1 at 1"):
        op.watermark(1)


def test_exit_in_open_and_close_is_explained() -> None:
    class LeavesAtOnce(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            sys.exit(6)

        def map(self, value: int) -> int:
            return value

    class LeavesAtTheEnd(LeavesAtOnce):
        def open(self, runtime_context: RuntimeContext) -> None:
            pass

        def close(self) -> None:
            sys.exit(7)

    with pytest.raises(UserCodeError, match="SystemExit: 6"):
        harness(specs.MapSpec, LeavesAtOnce())
    op = harness(specs.MapSpec, LeavesAtTheEnd())
    with pytest.raises(UserCodeError, match="SystemExit: 7"):
        op.close()
