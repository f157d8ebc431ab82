"""The harness for users' functions: every kind goes in, everything can be looked at, life goes on in a new one."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import JobExecutionError, WrongArgumentError
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from firesteel.datastream.window import ContinuousEventTimeTrigger, TumblingEventTimeWindows
from firesteel.testing import FunctionHarness, simulated_environment
from firesteel.testing.manual_clock import START

ODD = OutputTag("odd")


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


class Repeat(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        yield value
        yield value


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return value % 2 == 0


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield (ODD, value) if value % 2 else value


@pytest.mark.parametrize(
    ("function", "keys", "output"),
    [
        (Double(), None, [2, 4, 6]),
        (Repeat(), None, [1, 1, 2, 2, 3, 3]),
        (Even(), None, [2]),
        (Sum(), lambda value: value % 2, [1, 2, 4]),
        (Split(), None, [2]),
    ],
)
def test_functions_of_one_input(function: Any, keys: Any, output: list[int]) -> None:
    harness = FunctionHarness(function, keys)
    harness.process_elements([1, 2, 3])
    assert harness.take_output() == output
    assert harness.take_output() == []


class Sides(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return f"one {value}"

    def map2(self, value: Any) -> Any:
        return f"two {value}"


class FlatSides(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield f"one {value}"

    def flat_map2(self, value: Any) -> Any:
        yield f"two {value}"


class ProcessedSides(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield f"one {value}"

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield f"two {value}"


@pytest.mark.parametrize("function", [Sides(), FlatSides(), ProcessedSides()])
def test_functions_of_two_inputs(function: Any) -> None:
    harness = FunctionHarness(function)
    harness.process_element("a", timestamp=1)
    harness.process_element2("b", timestamp=2)
    assert harness.take_records() == [("one a", 1), ("two b", 2)]


class Memory(KeyedProcessFunction):
    """Keeps everything, in every kind of state."""

    LAST = ValueStateDescriptor("last", Types.INT())
    ALL = ListStateDescriptor("all", Types.INT())
    COUNTS = MapStateDescriptor("counts", Types.INT(), Types.INT())

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(self.LAST)
        self.all = runtime_context.get_list_state(self.ALL)
        self.counts = runtime_context.get_map_state(self.COUNTS)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value)
        self.all.add(value)
        self.counts.put(value, (self.counts.get(value) or 0) + 1)
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().register_processing_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp


class Parity(KeySelector):
    def get_key(self, value: Any) -> str:
        return "odd" if value % 2 else "even"


def test_state_and_timers_of_a_key() -> None:
    harness = FunctionHarness(Memory(), Parity(), processing_time=0)
    harness.process_elements([5, 2, 5, 3])
    assert harness.state("odd", Memory.LAST) == harness.state("odd", "last") == 3
    assert harness.state("odd", Memory.ALL) == [5, 5, 3]
    assert harness.state("odd", "counts") == {5: 2, 3: 1}
    assert harness.state("neither", "all") is None
    assert harness.keys_of_state("last") == {"even", "odd"}
    assert (harness.event_time_timers("odd"), harness.processing_time_timers("even")) == ([3, 5], [2])
    assert harness.event_time_timers("neither") == []


def test_time_is_in_your_hands() -> None:
    harness = FunctionHarness(Memory(), Parity(), processing_time=0)
    harness.process_elements([5, 2])
    harness.process_watermark(4)
    assert (harness.take_output(), harness.take_watermarks()) == ([("even", 2)], [4])
    harness.set_processing_time(4)
    harness.advance_processing_time(10)
    assert harness.take_output() == [("even", 2), ("odd", 5)]
    assert harness.processing_time == 14


def test_the_clock_starts_where_the_simulators_does() -> None:
    assert FunctionHarness(Double()).processing_time == START * 1000


def test_everything_lives_on_in_a_new_harness() -> None:
    harness = FunctionHarness(Memory(), Parity(), processing_time=0)
    harness.process_elements([5, 2])
    snapshot = harness.snapshot()
    harness.process_element(9)
    for _ in range(2):
        later = FunctionHarness(Memory(), Parity(), processing_time=3, snapshot=snapshot)
        assert later.take_output() == [("even", 2)]
        assert (later.state("odd", "all"), later.state("even", "last")) == ([5], 2)
        later.process_element(7)
        assert later.event_time_timers("odd") == [5, 7]


def test_side_outputs() -> None:
    harness = FunctionHarness(Split())
    harness.process_elements([1, 2, 3])
    assert harness.take_side_output(ODD) == [1, 3]
    assert harness.take_side_output(ODD) == []


def test_the_function_is_a_copy_and_is_closed() -> None:
    class Closing(MapFunction):
        closed = False

        def map(self, value: Any) -> Any:
            return value

        def close(self) -> None:
            self.closed = True

    function = Closing()
    with FunctionHarness(function) as harness:
        assert not harness.function.closed
    assert harness.function.closed
    assert not function.closed


def test_an_error_is_explained_as_in_a_job() -> None:
    with pytest.raises(JobExecutionError, match=r"(?s)ZeroDivisionError.*record:   0"):
        FunctionHarness.of(
            simulated_environment().from_collection([1]).map(lambda value: 1 // value)
        ).process_element(0)


def test_a_keyed_function_needs_keys() -> None:
    with pytest.raises(WrongArgumentError, match=r"Memory works on a keyed stream.*key_selector"):
        FunctionHarness(Memory())


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(WrongArgumentError, match=r"got 7 \(int\).*FunctionHarness.of"):
        FunctionHarness(7)  # type: ignore[arg-type]


def test_a_union_is_no_operator() -> None:
    stream = simulated_environment().from_collection([1])
    with pytest.raises(WrongArgumentError, match="one operator, got a union"):
        FunctionHarness.of(stream.union(stream))


def test_timers_of_windows_are_those_of_their_trigger() -> None:
    words = simulated_environment().from_collection(["a"]).key_by(lambda word: word)
    windows = words.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    early = windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
    plain = words.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    listed = []
    for windowed in (early, plain):
        harness = FunctionHarness.of(windowed.reduce(lambda a, b: a + b))
        harness.process_element("a", timestamp=1)
        listed.append(harness.event_time_timers("a"))
    assert listed == [[4, 9], []]
