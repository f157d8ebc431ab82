"""Programs without a mistake: type checkers find none, and know what every stream holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

from firesteel.common import Duration, Row, TypeInformation, Types, WatermarkStrategy
from firesteel.datastream import (
    AggregateFunction,
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    CloseableIterator,
    CoGroupFunction,
    CoMapFunction,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    FilterFunction,
    FlatMapFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowedStream,
    WindowFunction,
)
from firesteel.datastream.connectors.file_system import FileSource, StreamFormat
from firesteel.datastream.functions import ProcessAllWindowFunction
from firesteel.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from firesteel.datastream.window import TumblingEventTimeWindows


@dataclass(frozen=True)
class Order:
    """A record of one's own."""

    city: str
    amount: float
    time: int


class Pair(NamedTuple):
    """A record that is a tuple."""

    word: str
    number: int


LATE = OutputTag("late", Types.STRING())
ROWS = OutputTag("rows", [Types.STRING(), Types.INT()])
UNTYPED = OutputTag("untyped")
OF_ORDERS = OutputTag[Order]("orders")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
assert_type(LATE, OutputTag[str])
assert_type(ROWS, OutputTag[Row])
assert_type(UNTYPED, OutputTag[Any])
assert_type(OF_ORDERS, OutputTag[Order])
assert_type(Types.INT(), TypeInformation[int])
assert_type(Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())), TypeInformation[dict[str, list[float]]])


def words(line: str) -> Iterator[str]:
    yield from line.split()


def first_of(pair: tuple[str, int]) -> str:
    return pair[0]


def untyped(value):  # type: ignore[no-untyped-def]
    return value


def record_by_record(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1, 2, 3])
    lines = env.from_collection(["a b"], type_info=Types.STRING())
    assert_type(numbers, DataStream[int])
    assert_type(lines, DataStream[str])
    assert_type(env.from_elements("a", "b"), DataStream[str])
    assert_type(env.from_sequence(1, 3), DataStream[int])
    assert_type(env.from_data_gen(lambda index: f"record {index}", 3), DataStream[str])
    assert_type(env.from_collection([(1, "a")], Types.ROW([Types.INT(), Types.STRING()])), DataStream[Row])
    assert_type(numbers.map(lambda n: str(n)), DataStream[str])
    assert_type(numbers.map(str), DataStream[str])
    assert_type(numbers.map(lambda n: n + 1, output_type=Types.LONG()), DataStream[int])
    assert_type(numbers.map(lambda n: (n, 1), Types.ROW([Types.INT(), Types.INT()])), DataStream[Row])
    assert_type(numbers.map(untyped), DataStream[Any])
    assert_type(numbers.map(untyped, None), DataStream[Any])
    assert_type(numbers.flat_map(lambda n: [str(n)] * n), DataStream[str])
    assert_type(lines.flat_map(words), DataStream[str])
    assert_type(lines.flat_map(str.split), DataStream[str])
    assert_type(numbers.filter(lambda n: n > 1), DataStream[int])
    assert_type(numbers.rebalance().map(abs).name("absolute").set_parallelism(2), DataStream[int])
    assert_type(numbers.union(numbers, env.from_collection([True])), DataStream[int])
    assert_type(lines.map(lambda line: Pair(line, 1)).map(lambda pair: pair.number), DataStream[int])
    assert_type(lines.map(lambda line: (line, 1)).map(first_of), DataStream[str])
    pairs = Types.TUPLE([Types.STRING(), Types.INT()])
    assert_type(lines.map(lambda line: (line, 1), output_type=pairs).map(first_of), DataStream[str])
    assert_type(numbers.split(lambda n: ["even"] if n % 2 == 0 else ["odd"]).select("odd"), DataStream[int])
    assert_type(numbers.partition_custom(lambda key, n: key % n, lambda n: n), DataStream[int])
    assert_type(numbers.print(), DataStreamSink)
    lines_of_file = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/tmp/in").build()
    assert_type(env.from_source(lines_of_file, WatermarkStrategy.no_watermarks(), "lines"), DataStream[str])


def per_key(env: StreamExecutionEnvironment) -> None:
    counts = (
        env.from_collection(["a b"]).flat_map(words).map(lambda word: (word, 1)).key_by(lambda pair: pair[0])
    )
    assert_type(counts.reduce(lambda a, b: (a[0], a[1] + b[1])).map(first_of), DataStream[str])
    assert_type(counts.sum(1).map(first_of), DataStream[str])
    orders = env.from_collection([Order("Bonn", 1.0, 2)])
    by_city = orders.key_by(lambda order: order.city)
    assert_type(by_city, KeyedStream[Order, str])
    assert_type(by_city.key_by(lambda order: order.time), KeyedStream[Order, int])
    assert_type(by_city.key_by("city"), KeyedStream[Order, Any])
    assert_type(orders.key_by(CityOf(), key_type=Types.STRING()), KeyedStream[Order, str])
    assert_type(orders.key_by(lambda order: order.city, Types.STRING()), KeyedStream[Order, str])
    assert_type(orders.key_by("city", "time"), KeyedStream[Order, tuple[Any, ...]])
    assert_type(orders.key_by(lambda o: o.city, lambda o: o.time), KeyedStream[Order, tuple[Any, ...]])
    assert_type(by_city.reduce(Larger()), DataStream[Order])
    assert_type(by_city.map_with_state(lambda order, n: (order.city, (n or 0) + 1)), DataStream[str])
    assert_type(
        by_city.map_with_state(lambda order, n: (order.time, (n or 0) + 1), Types.INT()), DataStream[int]
    )
    assert_type(by_city.filter_with_state(lambda order, seen: (not seen, True)), DataStream[Order])
    assert_type(by_city.map(lambda order: order.amount), DataStream[float])
    assert_type(by_city.execute_and_collect(), CloseableIterator[Row])
    processed = by_city.process(Count())
    assert_type(processed, DataStream[Pair])
    assert_type(processed.get_side_output(LATE), DataStream[str])
    assert_type(by_city.process(Count(), output_type=Types.STRING()), DataStream[str])
    with processed.execute_and_collect("name") as results:
        assert_type(results, CloseableIterator[Pair])
        for result in results:
            assert_type(result, Pair)
    assert_type(processed.execute_and_collect(limit=3), list[Pair])


class CityOf(KeySelector[Order, str]):
    def get_key(self, value: Order) -> str:
        return value.city


class Larger(ReduceFunction[Order]):
    def reduce(self, a: Order, b: Order) -> Order:
        return max(a, b, key=lambda order: order.amount)


class Count(KeyedProcessFunction[str, Order, Pair]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.INT()))
        self.names = runtime_context.get_list_state(ListStateDescriptor("names", Types.STRING()))
        descriptor = ReducingStateDescriptor("largest", lambda a, b: max(a, b), Types.DOUBLE())
        self.largest = runtime_context.get_reducing_state(descriptor)
        mean = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        self.mean = runtime_context.get_aggregating_state(mean)
        self.last: ValueState[Order] = runtime_context.get_state(
            ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> Iterator[Pair]:
        assert_type(self.count, ValueState[int])
        assert_type(self.count.value(), int | None)
        assert_type(self.seen, MapState[str, int])
        assert_type(self.seen.get("a"), int | None)
        assert_type(self.names, ListState[str])
        assert_type(self.largest, ReducingState[float])
        assert_type(self.mean, AggregatingState[Order, float])
        assert_type(self.mean.get(), float | None)
        assert_type(self.last.value(), Order | None)
        assert_type(ctx.timestamp(), int | None)
        assert_type(ctx.get_current_key(), str)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.mean.add(value)
        self.last.update(value)
        ctx.output(LATE, value.city)
        ctx.output(OF_ORDERS, value)
        ctx.timer_service().register_event_time_timer(value.time + 1)
        yield Pair(ctx.get_current_key(), count)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]
    ) -> Iterator[Pair | tuple[OutputTag[str], str]]:
        yield LATE, "by yield"
        yield Pair(ctx.get_current_key(), 0)


class Mean(AggregateFunction[Order, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Order, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value.amount, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]


class Label(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterator[str]:
        for element in elements:
            yield f"{key} until {context.window().end}: {element}"


class Amounts(WindowFunction[Order, float, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Order]) -> Iterator[float]:
        return (order.amount for order in inputs)


class Number(ProcessAllWindowFunction[Order, int, TimeWindow]):
    def process(
        self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Order]
    ) -> Iterable[int]:
        return [len(list(elements))]


def in_windows(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy[Order].for_bounded_out_of_orderness(Duration.of_seconds(1))
    timed = strategy.with_timestamp_assigner(lambda order, _: order.time).with_idleness(
        Duration.of_minutes(1)
    )
    assert_type(timed, WatermarkStrategy[Order])
    anything = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value.time
    )
    orders = env.from_collection([Order("Bonn", 1.0, 2)])
    assert_type(orders.assign_timestamps_and_watermarks(anything), DataStream[Order])
    orders = orders.assign_timestamps_and_watermarks(timed)
    assigner = TumblingEventTimeWindows.of(Duration.of_seconds(5))
    windows = orders.key_by(lambda order: order.city).window(assigner)
    assert_type(windows, WindowedStream[Order, str, TimeWindow])
    assert_type(
        windows.side_output_late_data(OF_ORDERS).allowed_lateness(5).aggregate(Mean()), DataStream[float]
    )
    assert_type(windows.aggregate(Mean(), Label()), DataStream[str])
    assert_type(windows.aggregate(Mean(), Label(), output_type=Types.STRING()), DataStream[str])
    assert_type(windows.aggregate(Mean(), accumulator_type=Types.PICKLED_BYTE_ARRAY()), DataStream[float])
    assert_type(windows.reduce(lambda a, b: a if a.amount > b.amount else b), DataStream[Order])
    assert_type(windows.reduce(Larger(), Amounts()), DataStream[float])
    assert_type(windows.apply(Amounts()), DataStream[float])
    assert_type(windows.sum("amount"), DataStream[Order])
    assert_type(orders.window_all(assigner).process(Number()), DataStream[int])
    assert_type(
        orders.key_by(lambda o: o.city).count_window(3).apply(Counted(), Types.INT()), DataStream[int]
    )


class Counted(WindowFunction[Order, int, str, Any]):
    def apply(self, key: str, window: Any, inputs: Iterable[Order]) -> Iterable[int]:
        return [len(list(inputs))]


class Both(CoMapFunction[Order, int, str]):
    def map1(self, value: Order) -> str:
        return value.city

    def map2(self, value: int) -> str | None:
        return str(value) if value else None


class Matched(KeyedCoProcessFunction[str, Order, Pair, float]):
    def process_element1(self, value: Order, ctx: KeyedCoProcessFunction.Context[str]) -> Iterator[float]:
        yield value.amount

    def process_element2(self, value: Pair, ctx: KeyedCoProcessFunction.Context[str]) -> None:
        ctx.timer_service().register_event_time_timer(value.number)


class ByRules(BroadcastProcessFunction[Order, int, Order]):
    def process_element(self, value: Order, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Order]:
        if ctx.get_broadcast_state(RULES).get(value.city):
            yield value

    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> None:
        assert_type(ctx.get_broadcast_state(RULES), BroadcastState[str, int])
        ctx.get_broadcast_state(RULES).put("Bonn", value)


class KeyedByRules(KeyedBroadcastProcessFunction[str, Order, int, Order]):
    def process_element(
        self, value: Order, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]
    ) -> Iterator[Order]:
        assert_type(ctx.get_current_key(), str)
        yield value

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.apply_to_keyed_state(
            ValueStateDescriptor("n", Types.INT()), lambda key, state: state.update(value)
        )


class Joined(JoinFunction[Order, Pair, float]):
    def join(self, first: Order, second: Pair) -> float:
        return first.amount * second.number


class Grouped(CoGroupFunction[Order, Pair, int]):
    def co_group(self, first: list[Order], second: list[Pair]) -> Iterable[int]:
        return [len(first), len(second)]


class Near(ProcessJoinFunction[Order, Pair, str]):
    def process_element(self, left: Order, right: Pair, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        yield f"{left.city} {right.number} {ctx.timestamp()}"


def of_two_streams(env: StreamExecutionEnvironment) -> None:
    orders = env.from_collection([Order("Bonn", 1.0, 2)])
    numbers = env.from_collection([1])
    pairs = env.from_collection([Pair("Bonn", 1)])
    by_city, by_word = orders.key_by(lambda order: order.city), pairs.key_by(lambda pair: pair.word)
    assert_type(orders.connect(numbers), ConnectedStreams[Order, int])
    assert_type(orders.connect(numbers).map(Both()), DataStream[str])
    assert_type(by_city.connect(by_word).process(Matched()), DataStream[float])
    assert_type(
        orders.connect(pairs).key_by(lambda o: o.city, lambda p: p.word).process(Matched()), DataStream[float]
    )
    assert_type(orders.connect(numbers.broadcast(RULES)), BroadcastConnectedStream[Order, int])
    assert_type(orders.connect(numbers.broadcast(RULES)).process(ByRules()), DataStream[Order])
    assert_type(by_city.connect(numbers.broadcast(RULES)).process(KeyedByRules()), DataStream[Order])
    windows = TumblingEventTimeWindows.of(Duration.of_seconds(5))
    joined = orders.join(pairs).where(lambda o: o.city).equal_to(lambda p: p.word).window(windows)
    assert_type(joined.apply(Joined()), DataStream[float])
    assert_type(joined.apply(lambda order, pair: order.amount * pair.number), DataStream[float])
    grouped = orders.co_group(pairs).where(lambda o: o.city).equal_to(lambda p: p.word).window(windows)
    assert_type(grouped.apply(Grouped()), DataStream[int])
    assert_type(grouped.apply(lambda some, others: [len(some) + len(others)]), DataStream[int])
    assert_type(by_city.interval_join(by_word).between(0, 5).process(Near()), DataStream[str])


class Parse(MapFunction[str, int]):
    def map(self, text: str) -> int:  # a parameter may have any name
        return int(text)


class Split(FlatMapFunction[str, str]):
    def flat_map(self, value: str) -> Iterable[str]:
        return value.split()


class NotEmpty(FilterFunction[object]):
    def filter(self, value: object) -> bool:
        return bool(value)


class Divide(ProcessFunction[int, int]):
    def process_element(
        self, value: int, ctx: ProcessFunction.Context
    ) -> Iterator[int | tuple[OutputTag[str], str]]:
        if value < 0:
            yield LATE, str(value)
        else:
            yield value


class Ticks(SourceFunction[int]):
    def run(self, ctx: SourceFunction.SourceContext[int]) -> None:
        ctx.collect(1)


class Show(SinkFunction[object]):
    def invoke(self, value: object, context: SinkFunction.Context) -> None:
        print(value, context.timestamp())


class Remainder(Partitioner[int]):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


def by_objects(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection(["1 2"]).flat_map(Split()).filter(NotEmpty()).map(Parse())
    assert_type(numbers, DataStream[int])
    divided = numbers.process(Divide())
    assert_type(divided, DataStream[int])
    assert_type(divided.get_side_output(LATE), DataStream[str])
    assert_type(env.add_source(Ticks()), DataStream[int])
    numbers.partition_custom(Remainder(), lambda n: n).add_sink(Show())
    anything: DataStream[object] = numbers  # a stream of ints is one of objects
    anything.print()


# As in PyFlink: classes without parameters, and streams of whatever there is --------------------------------


class Doubled(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


class Latest(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.last.update(value)
        yield self.last.value()


def without_parameters(stream: DataStream, results: list[Any]) -> DataStream:
    assert_type(stream, DataStream[Any])
    doubled = stream.map(Doubled())
    assert_type(doubled, DataStream[Any])
    return doubled.key_by(lambda value: value.whatever).process(Latest(), output_type=Types.INT())
