"""Mistakes that only records show come with the remedy, and with nothing of the engine's insides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.functions import (
    CoFlatMapFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from firesteel.contracts.joins import CoGroupFunction, FlatJoinFunction
from firesteel.contracts.sink import Sink, SinkContext, SinkWriter
from firesteel.contracts.state import MapState, MapStateDescriptor
from firesteel.contracts.window_assigners import TumblingEventTimeWindows
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.testing import simulated_environment


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return simulated_environment(parallelism=1)


def reason(stream: DataStream) -> str:
    """The first line of the error that the job ends with."""
    with pytest.raises(UserCodeError) as caught:
        list(stream.execute_and_collect())
    return caught.value.reason.splitlines()[0]


# One output where any number is wanted --------------------------------------------------------------

YIELD = "; the function returned 5, and gives any number of outputs here: yield each of them, or return a list of them"


class Scalar(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        return 5


class ScalarOnTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        return 5


class ScalarOfTwo(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return 5

    def flat_map2(self, value: Any) -> Any:
        return []


class ScalarOfWindow(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return 5


class ScalarJoin(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return 5


class ScalarGroup(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Any:
        return 5


def test_flat_map_that_returns_one_output_is_told_to_yield(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1])
    assert reason(numbers.flat_map(lambda value: 5)) == f"TypeError: 'int' object is not iterable{YIELD}"


def test_process_functions_that_return_one_output_are_told_to_yield(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1])
    keyed = numbers.key_by(lambda value: value)
    window = TumblingEventTimeWindows.of(10)
    assert reason(numbers.process(Scalar())).endswith(YIELD)
    assert reason(keyed.process(ScalarOnTimer())).endswith(YIELD)
    assert reason(numbers.connect(numbers).flat_map(ScalarOfTwo())).endswith(YIELD)
    assert reason(keyed.flat_map_with_state(lambda value, state: (5, None))).endswith(YIELD)
    assert reason(keyed.count_window(1).process(ScalarOfWindow())).endswith(YIELD)
    timed = numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    )
    for pairs, function in ((timed.join(timed), ScalarJoin()), (timed.co_group(timed), ScalarGroup())):
        windowed = pairs.where(lambda value: value).equal_to(lambda value: value).window(window)
        assert reason(windowed.apply(function)).endswith(YIELD)


def test_error_of_the_functions_own_loop_stays_as_it_is(env: StreamExecutionEnvironment) -> None:
    def own_loop(value: Any) -> Iterator[Any]:
        for each in value:
            yield each + 1

    def delegates(value: Any) -> Iterator[Any]:
        yield from value

    numbers = env.from_collection([1])
    for function in (own_loop, delegates):
        assert reason(numbers.flat_map(function)) == "TypeError: 'int' object is not iterable"


# What a function has returned comes back to it -------------------------------------------------------


def test_reduce_that_is_given_its_own_none_is_told_so(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([[1], [2], [3]]).key_by(lambda value: 0)
    for stream in (keyed, keyed.count_window(3)):
        said = reason(stream.reduce(lambda left, right: left.append(right)))
        assert "NoneType" in said
        assert "given the None that it has returned for the record before: return the combination" in said


def test_none_in_records_is_no_mistake_of_reduce(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([[1], None]).key_by(lambda value: 0)
    said = reason(keyed.reduce(lambda left, right: left + right[0:1]))
    assert "given the None" not in said


def test_record_that_is_none_is_blamed_on_the_function_before(env: StreamExecutionEnvironment) -> None:
    changed = env.from_collection([{"a": 1}]).map(lambda record: record.update(b=2))
    said = reason(changed.map(lambda record: record["b"]))
    assert said.startswith(
        "TypeError: 'NoneType' object is not subscriptable; the record is None, which a function before"
    )


# Names ----------------------------------------------------------------------------------------------


class JavaNames(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [ctx.timerService()]


class WrongName(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [ctx.zzz]


class JavaState(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("seen", Types.INT(), Types.INT())
        self.seen: Any = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.putAll({1: 1})


def test_contexts_and_states_name_the_method_that_was_meant(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1])
    assert "did you mean timer_service()?" in reason(numbers.process(JavaNames()))
    assert reason(numbers.process(WrongName())).endswith("timer_service, timestamp")
    assert "did you mean put_all()?" in reason(numbers.key_by(lambda v: v).process(JavaState()))


def test_names_of_the_program_are_suggested_once(env: StreamExecutionEnvironment) -> None:
    said = reason(env.from_collection(["a"]).map(lambda text: text.uper()))
    assert said.lower().count("did you mean") == 1
    assert "upper" in said


class Unwilling:
    def __dir__(self) -> Any:
        raise RuntimeError("do not look")


def test_object_that_does_not_want_to_be_looked_at_hides_no_error(env: StreamExecutionEnvironment) -> None:
    said = reason(env.from_collection([1]).map(lambda value: Unwilling().uper))  # type: ignore[attr-defined]
    assert said == "AttributeError: 'Unwilling' object has no attribute 'uper'"


# Keys -----------------------------------------------------------------------------------------------


@dataclass
class Mutable:
    number: int


@dataclass(eq=False)
class ByIdentity:
    number: int


class InMapState(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY(), Types.INT())
        self.seen: MapState[Any, Any] = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.put(Mutable(value), 1)


def test_data_class_that_can_change_is_a_key_by_its_value(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1, 1, 2])
    assert list(numbers.key_by(lambda n: Mutable(n)).sum().execute_and_collect()) == [1, 2, 2]


def test_data_class_without_equality_is_told_to_be_frozen(env: StreamExecutionEnvironment) -> None:
    said = reason(env.from_collection([1]).key_by(lambda n: ByIdentity(n)).sum())
    assert "write @dataclass(frozen=True), without eq=False, above class ByIdentity" in said


def test_data_class_that_can_change_in_a_dict_is_told_to_be_frozen(env: StreamExecutionEnvironment) -> None:
    frozen = (
        "unhashable type: 'Mutable'; a data class that can change has no hash: write @dataclass(frozen=True)"
    )
    assert frozen in reason(env.from_collection([1]).map(lambda n: {Mutable(n): n}))
    assert frozen in reason(env.from_collection([1]).key_by(lambda n: n).process(InMapState()))


# Objects that are made in tasks ----------------------------------------------------------------------


class Writer(SinkWriter):
    def write(self, value: Any) -> None:  # type: ignore[override]
        pass


class OddSink(Sink):
    def create_writer(self, context: SinkContext) -> SinkWriter:
        return Writer()


def test_writer_that_cannot_be_called_ends_the_job_before_the_first_record(
    env: StreamExecutionEnvironment,
) -> None:
    env.from_collection([1]).sink_to(OddSink())
    with pytest.raises(
        UserCodeError, match=r"write\(\) of class Writer .*write def write\(self, value, context\)"
    ):
        env.execute()
