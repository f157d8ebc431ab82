"""``on_error``: which errors count as the record's, what a dead letter says, and what stays a failure of the job."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from firesteel.common._override import override
from firesteel.common.errors import CorruptStateError, UnsupportedOperationError, UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import MapStateDescriptor, ValueStateDescriptor
from firesteel.plan import operator_specs as specs
from firesteel.plan.on_error import OnError
from firesteel.plan.shipped import Shipped
from firesteel.testing._operator_harness import OperatorHarness

DROP = OnError()
ASIDE = OnError("bad")


def harness(kind: Any, function: Any, on_error: OnError = ASIDE, **more: Any) -> OperatorHarness:
    return OperatorHarness(kind(Shipped.of(function, "test"), on_error=on_error), **more)


def raising(error: BaseException) -> Any:
    def function(value: Any) -> Any:
        if value == "bad":
            raise error
        return value

    return function


def test_a_dead_letter_has_record_error_place_and_time() -> None:
    op = harness(specs.MapSpec, lambda text: int(text))
    op.process(["1", "x", "2"], [10, 20, 30])
    assert (op.output.values, op.output.timestamps) == ([1, 2], [10, 30])
    (letter,) = op.output.sides["bad"]
    assert (letter.value, letter.error_type, letter.operator, letter.timestamp) == (
        "x",
        "ValueError",
        "Operator",
        20,
    )
    assert letter.message == "invalid literal for int() with base 10: 'x'"
    assert letter.traceback.startswith("Traceback (most recent call last):\n")
    assert __file__ in letter.traceback
    assert "firesteel/runtime" not in letter.traceback
    assert letter.traceback.endswith("ValueError: invalid literal for int() with base 10: 'x'\n")
    assert op.output.side_timestamps["bad"] == [20]


def test_a_dead_letter_is_a_value() -> None:
    """The function goes on with an object that it keeps; the letter has it as it was when it failed."""

    class Keeps(MapFunction):
        def __init__(self) -> None:
            self.seen: list[list[int]] = []

        @override
        def map(self, value: list[int]) -> int:
            for earlier in self.seen:
                earlier.append(0)
            self.seen.append(value)
            raise ValueError("no")

    op = harness(specs.MapSpec, Keeps())
    op.process([[1], [2]])
    assert [letter.value for letter in op.output.sides["bad"]] == [[1], [2]]


def test_the_first_dropped_record_is_told_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    op = harness(specs.MapSpec, int, DROP)
    with caplog.at_level(logging.WARNING):
        op.process(["x", "1", "y"])
    assert op.output.values == [1]
    assert op.runtime.accumulators["badRecords.Operator"].get_local_value() == 2
    assert op.runtime.metrics.snapshot()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert all(text in warning for text in ("Operator (1/1)", "'x'", "ValueError"))
    assert "'y'" not in warning


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        CorruptStateError("checksum does not match"),
        UnsupportedOperationError("not here"),
        SystemExit(3),
    ],
)
def test_what_is_not_the_records_fault_fails_the_job(error: BaseException) -> None:
    op = harness(specs.MapSpec, raising(error), DROP)
    with pytest.raises(UserCodeError) as caught:
        op.process(["good", "bad"])
    assert caught.value.record == "'bad'"


def test_stop_iteration_is_an_error_like_any_other() -> None:
    op = harness(specs.MapSpec, raising(StopIteration()))
    op.process(["a", "bad", "b"])
    assert op.output.values == ["a", "b"]


def test_an_error_that_cannot_be_shown_is_an_error_like_any_other() -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not me")

    op = harness(specs.MapSpec, raising(Shy()))
    op.process(["a", "bad", "b"])
    assert op.output.values == ["a", "b"]
    (letter,) = op.output.sides["bad"]
    assert (letter.error_type.rpartition(".")[2], letter.message) == (
        "Shy",
        "<an error without text: its __str__() raised>",
    )


def test_a_flat_map_that_gives_no_results_but_a_number_is_a_mistake_of_the_program() -> None:
    op = harness(specs.FlatMapSpec, lambda value: 5)
    with pytest.raises(UserCodeError):
        op.process([1])


def test_what_was_done_before_the_error_stays() -> None:
    class Counts(KeyedProcessFunction):
        @override
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

        @override
        def process_element(self, value: Any, ctx: Any) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            ctx.timer_service().register_event_time_timer(100)
            yield self.count.value()
            if value[1] == "bad":
                raise ValueError("bad")
            yield "end"

        @override
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield "timer", self.count.value()

    op = harness(specs.ProcessSpec, Counts(), keys=(lambda value: value[0],))
    op.process([("a", "bad"), ("a", "good")], [1, 2])
    op.watermark(200)
    assert op.output.values == [1, 2, "end", ("timer", 2)]


def test_an_error_in_a_timer_fails_the_job() -> None:
    class Fails(KeyedProcessFunction):
        @override
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(100)

        @override
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            raise ValueError("in a timer")

    op = harness(specs.ProcessSpec, Fails(), DROP, keys=(lambda value: value,))
    op.process(["a"], [1])
    with pytest.raises(UserCodeError, match="in a timer"):
        op.watermark(200)


def test_both_sides_of_a_broadcast_function_may_raise() -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())

    class Rules(BroadcastProcessFunction[Any, Any, Any]):
        @override
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield ctx.get_broadcast_state(rules).get("limit") // value

        @override
        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(rules).put("limit", int(value))

    shipped = Shipped.of(Rules(), "test")
    op = OperatorHarness(specs.BroadcastProcessSpec(shipped, (rules,), on_error=ASIDE))
    op.process_second(["8", "x"])
    op.process([2, 0, 4])
    assert op.output.values == [4, 2]
    assert [letter.error_type for letter in op.output.sides["bad"]] == ["ValueError", "ZeroDivisionError"]


def test_an_error_behind_the_operator_is_not_its_own() -> None:
    """The side output is full in the middle of a call, and whoever reads it raises."""

    class Many(ProcessFunction):
        @override
        def process_element(self, value: Any, ctx: Any) -> Any:
            for number in range(5_000):
                try:
                    ctx.output(OutputTag("side"), number)
                except Exception as error:
                    raise ValueError("told as an error of my own") from error
            yield value

    op = harness(specs.ProcessSpec, Many())
    down = UserCodeError("raised further down")

    def fail(*_: Any) -> None:
        raise down

    op.output.emit_side = fail  # type: ignore[method-assign]
    with pytest.raises(UserCodeError) as caught:
        op.process([1])
    assert caught.value is down


def test_operators_without_on_error_are_the_ones_they_were() -> None:
    """The loops that everybody pays for know nothing of it."""
    from firesteel.runtime.operators import stateless, tolerance

    for kind, plain in (
        (specs.MapSpec, stateless.MapOperator),
        (specs.FilterSpec, stateless.FilterOperator),
        (specs.FlatMapSpec, stateless.FlatMapOperator),
    ):
        assert type(OperatorHarness(kind(Shipped.of(bool, "test"))).operator) is plain
        assert isinstance(harness(kind, bool).operator, tolerance.TolerantFlatMapOperator)
    assert "tolerance" not in sys.modules[stateless.__name__].__dict__
