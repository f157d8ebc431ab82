"""Programs with mistakes: type checkers report every line that ends with the mark, and no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from firesteel.common import Duration, Types, WatermarkStrategy
from firesteel.datastream import (
    AggregateFunction,
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import TumblingEventTimeWindows


class Order(NamedTuple):
    city: str
    amount: float


env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3])
orders = env.from_collection([Order("Bonn", 1.5)])
LATE = OutputTag("late", Types.STRING())

numbers.map(lambda n: n.upper())  # WRONG


def length(text: str) -> int:
    return len(text)


numbers.map(length)  # WRONG
numbers.filter(length)  # WRONG
(
    numbers.map(lambda n: n + 1)
    .filter(lambda n: n.is_large)  # WRONG
    .flat_map(lambda n: n + 1)  # WRONG
)
(
    numbers.map(lambda n: n + 1)
    .key_by(lambda n: n.city)  # WRONG
    .reduce(lambda a, b: a.total)  # WRONG
)
(
    numbers.map(lambda n: (n, "number"))
    .map(lambda pair: pair[1] + 1, output_type=Types.STRING())  # WRONG
    .key_by(lambda text: text.upper(), key_type=Types.STRING())
    .reduce(lambda a, b: len(a))  # WRONG
)
orders.key_by(lambda order: order.town)  # WRONG
orders.map(lambda order: order.city).map(lambda city: city.amount)  # WRONG
numbers.union(orders)  # WRONG
numbers.keyBy(lambda n: n)  # WRONG
numbers.sum()  # WRONG
orders.assign_timestamps_and_watermarks(
    WatermarkStrategy[Order]
    .for_monotonous_timestamps()
    .with_timestamp_assigner(
        lambda order, _: order.time  # WRONG
    )
)
for number in numbers.execute_and_collect():
    number.append(1)  # WRONG
numbers.execute_and_collect(limit=1)[0].append(1)  # WRONG


class Parse(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return value.split()  # WRONG


class Shout(MapFunction[str, str]):
    def map(self, value: int) -> str:  # WRONG
        return str(value)


numbers.map(Parse())  # WRONG


class Total(KeyedProcessFunction[str, Order, float]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> Iterator[float]:
        yield self.total.value() + value.amount  # WRONG
        self.total.update(value.city)  # WRONG
        ctx.output(LATE, value)  # WRONG
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)  # WRONG
        yield value.city  # WRONG


totals = orders.key_by(lambda order: order.city).process(Total())
totals.map(lambda total: total.city)  # WRONG
totals.get_side_output(LATE).map(lambda text: text.amount)  # WRONG
orders.process(Total())  # WRONG
numbers.key_by(lambda n: n).process(Total())  # WRONG


class Largest(AggregateFunction[Order, float, float]):
    def create_accumulator(self) -> float:
        return 0.0

    def add(self, value: Order, accumulator: float) -> float:
        return max(accumulator, value)  # WRONG

    def get_result(self, accumulator: float) -> float:
        return accumulator

    def merge(self, a: float, b: float) -> float:
        return max(a, b)


class WithCity(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterator[str]:
        yield key + context.window().end  # WRONG


windows = orders.key_by(lambda order: order.city).window(TumblingEventTimeWindows.of(Duration.of_seconds(5)))
windows.aggregate(Largest(), WithCity()).map(lambda text: text.amount)  # WRONG
windows.reduce(lambda a, b: a.amount + b.amount)  # WRONG
windows.process(WithCity())  # WRONG


class Both(CoMapFunction[Order, int, str]):
    def map1(self, value: Order) -> str:
        return value.amount  # WRONG

    def map2(self, value: int) -> str:
        return str(value)


orders.connect(numbers).map(Both())
numbers.connect(orders).map(Both())  # WRONG
orders.join(numbers).where(lambda order: order.town)  # WRONG


class Save(SinkFunction[Order]):
    def invoke(self, value: Order, context: SinkFunction.Context) -> None:
        print(value)


numbers.add_sink(Save())  # WRONG
