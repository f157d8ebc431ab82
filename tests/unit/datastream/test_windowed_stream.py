"""What window operations put into the graph, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from firesteel.common import Time, Types
from firesteel.common.errors import ProgramError, WrongArgumentError
from firesteel.common.typeinfo import TypeInformation
from firesteel.datastream import OutputTag, StreamExecutionEnvironment, TimeCharacteristic
from firesteel.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.plan.exchange import KeyGroups
from firesteel.plan.operator_specs import WindowSpec

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
LATE = OutputTag("late", PAIR)
FIVE = TumblingEventTimeWindows.of(Time.seconds(5))


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([("a", 1)], PAIR)


@pytest.fixture
def keyed(pairs: Any) -> Any:
    return pairs.key_by(lambda pair: pair[0])


@pytest.fixture
def spec_of(node_of: Any) -> Any:
    def find(stream: Any) -> WindowSpec:
        spec: WindowSpec = node_of(stream).spec
        return spec

    return find


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Process(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class Apply(WindowFunction):  # type: ignore[type-arg]
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


class ProcessAll(ProcessAllWindowFunction):  # type: ignore[type-arg]
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class ApplyAll(AllWindowFunction):  # type: ignore[type-arg]
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


# The graph ----------------------------------------------------------------------------------------------


def test_a_window_operation_is_one_keyed_node_named_after_its_assigner(keyed: Any, node_of: Any) -> None:
    node = node_of(keyed.window(FIVE).reduce(add))
    assert node.name == "TumblingEventTimeWindows"
    assert node.description.startswith("Window(TumblingEventTimeWindows(5000, 0), EventTimeTrigger, ")
    (edge,) = node.inputs
    assert isinstance(edge.distribution, KeyGroups)
    assert node.key_selectors == (edge.distribution.selector,)


def test_window_all_has_one_subtask(pairs: Any, node_of: Any) -> None:
    node = node_of(pairs.window_all(FIVE).reduce(add))
    assert (node.parallelism, node.fixed_parallelism) == (1, True)
    assert node.key_selectors[0].load().selector(("a", 1)) == node.key_selectors[0].load().selector(("b", 2))


def test_settings_reach_the_spec(keyed: Any, spec_of: Any) -> None:
    stream = (
        keyed.window(FIVE)
        .trigger(CountTrigger.of(2))
        .trigger(PurgingTrigger.of(CountTrigger.of(3)))
        .evictor(CountEvictor.of(1))
        .allowed_lateness(Time.seconds(1))
        .side_output_late_data(LATE)
        .aggregate(Sum(), Process())
    )
    spec = spec_of(stream)
    assert repr(spec.trigger.load()) == "PurgingTrigger(CountTrigger(3))", "the last one wins"
    assert repr(spec.evictor.load()) == "CountEvictor(1)"
    assert (spec.allowed_lateness, spec.late_tag) == (1000, "late")
    assert type(spec.aggregator.load()).__name__ == "Sum"
    assert type(spec.window_function.load()).__name__ == "Process"
    assert spec.user_code is spec.window_function
    assert stream.get_side_output(LATE).get_type() == PAIR


def test_output_types(keyed: Any, pairs: Any) -> None:
    windows = keyed.window(FIVE)
    assert windows.get_input_type() == PAIR
    assert windows.get_execution_environment() is keyed.get_execution_environment()
    assert windows.reduce(add).get_type() == windows.sum(1).get_type() == PAIR
    untyped: TypeInformation = Types.PICKLED_BYTE_ARRAY()
    assert windows.reduce(add, Process()).get_type() == untyped
    assert windows.aggregate(Sum()).get_type() == untyped
    assert windows.aggregate(Sum(), output_type=Types.INT()).get_type() == Types.INT()
    assert windows.aggregate(Sum(), Apply(), [Types.INT()], Types.LONG()).get_type() == Types.LONG()
    assert windows.apply(Apply(), PAIR).get_type() == windows.process(Process(), PAIR).get_type() == PAIR
    assert pairs.window_all(FIVE).apply(ApplyAll(), PAIR).get_type() == PAIR
    assert pairs.window_all(FIVE).process(ProcessAll()).get_type() == untyped


def test_count_window(keyed: Any, spec_of: Any) -> None:
    assert isinstance(spec_of(keyed.count_window(3).sum(1)).assigner.load(), CountTumblingWindowAssigner)
    assert isinstance(spec_of(keyed.count_window(3, 2).sum(1)).assigner.load(), CountSlidingWindowAssigner)
    with pytest.raises(ProgramError, match="at least 1 record"):
        keyed.count_window(0)


def test_count_window_all(pairs: Any, spec_of: Any) -> None:
    windowed = pairs.count_window_all(3).sum(1)
    assert isinstance(spec_of(windowed).assigner.load(), CountTumblingWindowAssigner)
    assert spec_of(pairs.count_window_all(3, 2).sum(1)).assigner.load().grid[:2] == (3, 2)
    with pytest.raises(ProgramError, match="at least 1 record"):
        pairs.count_window_all(0)


@pytest.mark.parametrize(
    ("characteristic", "tumbling", "sliding"),
    [
        (TimeCharacteristic.EventTime, TumblingEventTimeWindows, SlidingEventTimeWindows),
        (TimeCharacteristic.IngestionTime, TumblingEventTimeWindows, SlidingEventTimeWindows),
        (TimeCharacteristic.ProcessingTime, TumblingProcessingTimeWindows, SlidingProcessingTimeWindows),
    ],
)
def test_time_window_follows_the_time_characteristic(
    env: Any, keyed: Any, pairs: Any, spec_of: Any, characteristic: Any, tumbling: type, sliding: type
) -> None:
    env.set_stream_time_characteristic(characteristic)
    for windows in (keyed.time_window, pairs.time_window_all):
        assert type(spec_of(windows(Time.seconds(5)).sum(1)).assigner.load()) is tumbling
        assert type(spec_of(windows(Time.seconds(5), Time.seconds(1)).sum(1)).assigner.load()) is sliding


# Refusals -----------------------------------------------------------------------------------------------


def test_l12_a_trigger_that_cannot_merge_is_refused_with_merging_windows(keyed: Any, pairs: Any) -> None:
    sessions = EventTimeSessionWindows.with_gap(Time.seconds(5))
    trigger = DeltaTrigger.of(5, lambda a, b: 1)
    for windows in (keyed.window(sessions), pairs.window_all(sessions)):
        with pytest.raises(
            ProgramError, match=r"EventTimeSessionWindows\(5000\) merges .* DeltaTrigger cannot"
        ):
            windows.trigger(trigger)
        with pytest.raises(ProgramError, match="PurgingTrigger cannot"):
            windows.trigger(PurgingTrigger.of(trigger))
    assert keyed.window(GlobalWindows.create()).trigger(trigger)


def test_l12_a_trigger_with_state_that_cannot_merge_is_refused_with_merging_windows(keyed: Any) -> None:
    class Flagging(EventTimeTrigger):
        def __init__(self) -> None:
            self.flag = ValueStateDescriptor("flag", Types.BOOLEAN())

    sessions = keyed.window(EventTimeSessionWindows.with_gap(5))
    for trigger in (Flagging(), PurgingTrigger.of(Flagging())):
        with pytest.raises(
            ProgramError, match=r"keeps ValueStateDescriptor\('flag'\), which cannot be merged"
        ):
            sessions.trigger(trigger)
    assert keyed.window(FIVE).trigger(Flagging())


def test_l12_a_default_trigger_that_cannot_merge_is_refused_as_well(keyed: Any) -> None:
    class Sessions(EventTimeSessionWindows):
        def get_default_trigger(self, env: Any) -> Any:
            return DeltaTrigger.of(5, lambda a, b: 1)

    with pytest.raises(ProgramError, match="DeltaTrigger cannot"):
        keyed.window(Sessions(5)).reduce(add)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda k: k.window(None), r"window\(\) needs a WindowAssigner, got None"),
        (lambda k: k.window(TumblingEventTimeWindows), r"window\(\) needs a WindowAssigner"),
        (lambda k: k.window(FIVE).trigger("x"), r"trigger\(\) needs a Trigger"),
        (lambda k: k.window(FIVE).evictor(3), r"evictor\(\) needs an Evictor"),
        (
            lambda k: k.window(FIVE).allowed_lateness("1 s"),
            r"allowed_lateness\(\) needs a number of milliseconds",
        ),
        (lambda k: k.window(FIVE).side_output_late_data("late"), "needs an OutputTag"),
        (
            lambda k: k.window(FIVE).reduce(None),
            r"reduce\(\) needs a ReduceFunction or a function of 2 values",
        ),
        (lambda k: k.window(FIVE).reduce(add, ApplyAll()), "needs a WindowFunction or ProcessWindowFunction"),
        (lambda k: k.window(FIVE).aggregate(add), r"aggregate\(\) needs an AggregateFunction"),
        (lambda k: k.window(FIVE).apply(Process()), r"apply\(\) needs a WindowFunction"),
        (lambda k: k.window(FIVE).process(Apply()), r"process\(\) needs a ProcessWindowFunction"),
        (lambda k: k.window(FIVE).process(Process), "pass an instance"),
        (lambda k: k.window(FIVE).reduce(add, output_type="int"), "needs a TypeInformation"),
    ],
)
def test_wrong_arguments_are_refused_where_the_program_is_built(keyed: Any, ask: Any, sentence: str) -> None:
    with pytest.raises(WrongArgumentError, match=sentence):
        ask(keyed)


def test_lateness_cannot_be_negative(keyed: Any) -> None:
    with pytest.raises(ProgramError, match="cannot be negative, got -1 ms"):
        keyed.window(FIVE).allowed_lateness(-1)
