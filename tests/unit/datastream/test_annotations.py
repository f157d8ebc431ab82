"""Annotations of functions tell which fields their results have; they never change or refuse a value."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, TypedDict, TypeVar

import pytest

from firesteel.common import Time, Types
from firesteel.common.errors import InvalidFieldError
from firesteel.contracts.output_tag import OutputTag
from firesteel.datastream import ProcessJoinFunction
from firesteel.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from firesteel.datastream.state import MapStateDescriptor
from firesteel.datastream.utils import ResultTypeQueryable
from firesteel.datastream.window import TimeWindow, TumblingEventTimeWindows
from firesteel.testing import simulated_environment


@dataclass
class Customer:
    city: str


@dataclass
class Order:
    customer: Customer
    amount: int

    @property
    def total(self) -> int:
        return self.amount * 2


class Reading(NamedTuple):
    sensor: str
    value: float


class Entry(TypedDict):
    word: str


def order(line: str) -> Order:
    return Order(Customer(line), 1)


def maybe_order(line: str) -> Optional[Order]:  # noqa: UP045 - the older spelling
    return order(line)


def reading(line: str) -> Reading:
    return Reading(line, 1.0)


def entry(line: str) -> Entry:
    return {"word": line}


def pair(line: str) -> tuple[str, int]:
    return line, 1


def nested(line: str) -> tuple[str, tuple[int, int]]:
    return line, (1, 2)


def number(line: str) -> int:
    return 1


def anything(line: str) -> Any:
    return line


def unknown(line: str) -> NoSuchName:  # type: ignore[name-defined]  # noqa: F821 - it is the point
    return line


class ToOrder(MapFunction):
    def map(self, value: str) -> Order:
        return order(value)


@pytest.mark.parametrize(
    ("function", "key"),
    [
        (order, "amount"),
        (order, "customer.city"),
        (order, "total"),
        (order, "*"),
        (maybe_order, "amount"),
        (reading, "sensor"),
        (reading, 0),
        (entry, "word"),
        (pair, 0),
        (pair, "f1"),
        (pair, "_1"),
        (nested, "f1.f0"),
        (number, "*"),
        (anything, "whatever"),
        (unknown, "whatever"),
        (lambda line: line, "whatever"),
        (len, "real"),
        (ToOrder(), "amount"),
    ],
)
def test_fields_that_may_be_there_pass(env, function, key):
    env.from_collection(["a"]).map(function).key_by(key)


@pytest.mark.parametrize(
    ("function", "key", "there_is"),
    [
        (order, "amuont", r"no field 'amuont' in Order \(customer, amount\)"),
        (order, "customer.town", r"no field 'town' in Customer \(city\)"),
        (maybe_order, "price", "no field 'price' in Order"),
        (reading, 2, r"no field 2 in Reading \(sensor, value\)"),
        (entry, "wrd", r"no field 'wrd' in Entry \(word\)"),
        (pair, 2, r"no field 2 in tuple\[str, int\] \(fields 0 to 1\)"),
        (nested, "f1.f2", r"no field 'f2' in tuple\[int, int\]"),
        (number, "amount", "no field 'amount' in int"),
        (ToOrder(), "price", "no field 'price' in Order"),
    ],
)
def test_fields_that_cannot_be_there_are_refused_at_once(env, function, key, there_is):
    with pytest.raises(InvalidFieldError, match=f"{there_is}.*returns according to its annotation"):
        env.from_collection(["a"]).map(function).key_by(key)


def several(line: str) -> Iterator[tuple[str, int]]:
    yield line, 1


def listed(line: str) -> list[tuple[str, int]]:
    return [(line, 1)]


def generated(line: str) -> Generator[tuple[str, int], None, None]:
    yield line, 1


class ToSeveral(FlatMapFunction):
    def flat_map(self, value: str) -> Iterable[tuple[str, int]]:
        yield value, 1


class Sorting(ProcessFunction):
    def process_element(
        self, value: str, ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, int] | tuple[OutputTag, str]]:
        yield value, 1


class Keyed(KeyedProcessFunction):
    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        yield value, 1


class ByParameter(MapFunction[str, tuple[str, int]]):
    def map(self, value):
        return value, 1


class ByParameterOfBase(ByParameter):
    pass


class ByOtherParameter(KeyedProcessFunction[str, str, tuple[str, int]]):
    def process_element(self, value, ctx):
        yield value, 1


class OnlyOnTimer(KeyedProcessFunction):
    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[str, int]]:
        yield "late", timestamp


class TypedTag(ProcessFunction):
    def process_element(
        self, value: str, ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, int] | tuple[OutputTag[str], str]]:
        yield value, 1


class OfBoth(CoMapFunction):
    def map1(self, value: str) -> tuple[str, int]:
        return value, 1

    def map2(self, value: str) -> tuple[str, int] | None:
        return None


class OfEach(CoFlatMapFunction):
    def flat_map1(self, value: str) -> Iterator[tuple[str, int]]:
        yield value, 1

    def flat_map2(self, value: str) -> None:
        pass


class OfTwo(CoProcessFunction):
    def process_element1(self, value: str, ctx: CoProcessFunction.Context) -> Iterator[tuple[str, int]]:
        yield value, 1

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> list[tuple[str, int]]:
        return []


class WithRules(BroadcastProcessFunction):
    def process_element(
        self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, int]]:
        yield value, 1

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> None:
        pass


class OfWindow(WindowFunction):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[str]) -> list[tuple[str, int]]:
        return [(key, 1)]


class OfProcessedWindow(ProcessWindowFunction[str, tuple[str, int], str, TimeWindow]):
    def process(self, key, context, elements):
        return [(key, 1)]


class Counted(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> tuple[str, int]:
        return "count", accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class Near(ProcessJoinFunction):
    def process_element(
        self, left: str, right: str, ctx: ProcessJoinFunction.Context
    ) -> Iterator[tuple[str, int]]:
        yield left, 1


def joined(first: str, second: str) -> tuple[str, int]:
    return first, 1


def grouped(first: list[str], second: list[str]) -> list[tuple[str, int]]:
    return []


RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
FIVE = TumblingEventTimeWindows.of(Time.seconds(5))


@pytest.mark.parametrize(
    "use",
    [
        lambda lines: lines.flat_map(several),
        lambda lines: lines.map(ByParameter()),
        lambda lines: lines.map(ByParameterOfBase()),
        lambda lines: lines.key_by("*").process(ByOtherParameter()),
        lambda lines: lines.key_by("*").process(OnlyOnTimer()),
        lambda lines: lines.process(TypedTag()),
        lambda lines: lines.connect(lines).map(OfBoth()),
        lambda lines: lines.connect(lines).flat_map(OfEach()),
        lambda lines: lines.connect(lines).process(OfTwo()),
        lambda lines: lines.connect(lines.broadcast(RULES)).process(WithRules()),
        lambda lines: lines.key_by("*").window(FIVE).apply(OfWindow()),
        lambda lines: lines.key_by("*").window(FIVE).process(OfProcessedWindow()),
        lambda lines: lines.key_by("*").window(FIVE).aggregate(Counted()),
        lambda lines: lines.key_by("*").window(FIVE).reduce(lambda a, b: a, OfWindow()),
        lambda lines: lines.map(pair).key_by(0).window(FIVE).reduce(lambda a, b: a),
        lambda lines: lines.map(pair).key_by(0).window(FIVE).sum(1),
        lambda lines: lines.key_by("*").interval_join(lines.key_by("*")).between(0, 1).process(Near()),
        lambda lines: lines.join(lines).where("*").equal_to("*").window(FIVE).apply(joined),
        lambda lines: lines.co_group(lines).where("*").equal_to("*").window(FIVE).apply(grouped),
        lambda lines: lines.map(pair).union(lines.map(ByParameter())),
        lambda lines: lines.flat_map(listed),
        lambda lines: lines.flat_map(generated),
        lambda lines: lines.flat_map(ToSeveral()),
        lambda lines: lines.process(Sorting()),
        lambda lines: lines.key_by("*").process(Keyed()),
        lambda lines: lines.map(pair).filter(lambda each: True).rebalance(),
        lambda lines: lines.map(pair).key_by(0).reduce(lambda a, b: a),
    ],
)
def test_all_functions_are_read_and_what_keeps_records_keeps_what_is_known_of_them(env, use):
    stream = use(env.from_collection(["a"]))
    stream.key_by(1).sum(1)
    for refused in (lambda: stream.key_by(2), lambda: stream.key_by(0).max("f5"), lambda: stream.project(3)):
        with pytest.raises(InvalidFieldError, match="according to its annotation"):
            refused()


class Differing(KeyedProcessFunction[str, str, Any]):
    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        yield value, 1

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Order]:
        yield Order(Customer("Bonn"), timestamp)


Whatever = TypeVar("Whatever")


class Generic(MapFunction[Whatever, Whatever]):
    def map(self, value):
        return value


@pytest.mark.parametrize(
    "use",
    [
        lambda lines: lines.key_by("*").process(Differing()),
        lambda lines: lines.map(Generic()),
        lambda lines: lines.map(pair).union(lines.map(order)),
        lambda lines: lines.map(pair).union(lines),
    ],
)
def test_what_is_not_known_for_all_results_passes(env, use):
    stream = use(env.from_collection(["a"]))
    stream.key_by("amount")
    assert repr(stream.get_type()) == "PickledByteArrayTypeInfo"


def city_of(value: Order) -> str:
    return value.customer.city


def test_the_type_of_a_stream_and_of_its_keys_says_what_annotations_say(env):
    orders = env.from_collection(["a"]).map(order)
    assert repr(orders.get_type()) == "AnnotatedTypeInfo(Order)"
    assert orders.get_type().python_type is Order
    assert orders.key_by(city_of).get_key_type().python_type is str
    assert orders.map(lambda each: each, output_type=Types.INT()).get_type() == Types.INT()
    # It is no declared type: given as one, it says nothing, and what is compared by type stays equal.
    assert orders.map(lambda each: each, output_type=orders.get_type())._type is None
    assert orders.get_type() == Types.PICKLED_BYTE_ARRAY() == env.from_collection([1]).map(number).get_type()
    assert hash(orders.get_type()) == hash(Types.PICKLED_BYTE_ARRAY())


def test_a_declared_type_wins(env):
    stream = env.from_collection(["a"]).map(order, output_type=Types.ROW_NAMED(["x"], [Types.INT()]))
    stream.key_by("x")
    with pytest.raises(InvalidFieldError, match="it has x"):
        stream.key_by("amount")


def wrong(value: int) -> str:
    return value * 2  # type: ignore[return-value]


def huge(value: int) -> int:
    return 2**100 + 0.5 if value else True  # type: ignore[return-value]


def test_values_are_what_the_function_returned_whatever_it_says():
    for function, expected in ((wrong, [0, 2]), (huge, [True, 2**100 + 0.5])):
        env = simulated_environment(parallelism=1)
        stream = env.from_collection([0, 1]).map(function)
        assert stream.get_type() == Types.PICKLED_BYTE_ARRAY()
        with stream.execute_and_collect() as results:
            found = [*results]
        assert [(type(value), value) for value in found] == [(type(value), value) for value in expected]


class Produces(MapFunction, ResultTypeQueryable):
    def map(self, value: int) -> float:
        return value

    def get_produced_type(self):
        return Types.DOUBLE()


def test_a_function_may_declare_the_type_of_its_results():
    env = simulated_environment(parallelism=1)
    stream = env.from_collection([1]).map(Produces())
    assert stream.get_type() == Types.DOUBLE()
    assert env.from_collection([1]).map(Produces(), output_type=Types.INT()).get_type() == Types.INT()
    with stream.execute_and_collect() as results:
        assert [repr(value) for value in results] == ["1.0"]
