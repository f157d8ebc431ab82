"""The user code of random programs: small functions over records that remember where they have been.

A record is ``(value, origin, sequence, path)``. ``origin`` names the source's subtask and whether its records
have event time (then the timestamp is the sequence number); ``path`` lists the subtasks that the record went
through. Records of one origin that took the same path must arrive in order: that is what order per channel
means for a whole program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from firesteel.common._override import override
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.state import ValueStateDescriptor

SIDE = OutputTag("side")
MODULUS = 997


class Origin(NamedTuple):
    """The source subtask that a record comes from."""

    source: int
    subtask: int
    timed: bool


Record = tuple[Any, Origin, int, tuple[tuple[int, int], ...]]


# What the functions do to values; the model uses the same ones ----------------------------------------


def mapped(value: int, number: int) -> int:
    """What map makes of a value."""
    return (value * 3 + number) % MODULUS


def kept(value: int, number: int) -> bool:
    """What filter keeps."""
    return value % (number + 1) != 0


def expanded(value: int, number: int) -> list[int]:
    """What flat_map makes of a value."""
    return [(value + i) % MODULUS for i in range(value % (number + 1))]


def goes_aside(value: int, number: int) -> bool:
    """What process sends to its side output."""
    return value % (number + 1) == 0


def co_mapped(value: int, number: int, index: int) -> int | None:
    """What the two sides of a connect make of a value; None is dropped."""
    return None if value % (number + 2) == 0 else (value * (index + 2)) % MODULUS


def co_expanded(value: int, number: int, index: int) -> list[int]:
    """What the two sides of a connect expand a value to."""
    return expanded((value + index) % MODULUS, number)


def key_of_value(value: int, number: int) -> int:
    """The key that a value is counted under."""
    return value % (number + 2)


def counted(key: int, count: int) -> int:
    """A key and its running count as one value again."""
    return (key * 100 + count) % MODULUS


# The functions -----------------------------------------------------------------------------------------


class Traced(Function):
    """Base: knows its step and its subtask, and notes both in the records' paths."""

    def __init__(self, step: int, number: int) -> None:
        self.step = step
        self.number = number
        self.subtask = -1

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        """Learn which subtask this is."""
        self.subtask = runtime_context.get_index_of_this_subtask()

    def moved(self, record: Record, value: Any, mark: int = 0) -> Record:
        """The record with another value, one step further."""
        _, origin, sequence, path = record
        return value, origin, sequence, (*path, (self.step * 10 + mark, self.subtask))


class TracedMap(Traced, MapFunction):
    """`mapped`."""

    @override
    def map(self, value: Record) -> Record:
        return self.moved(value, mapped(value[0], self.number))


class TracedPass(Traced, MapFunction):
    """Changes nothing but the path: stands behind filters and before sinks."""

    @override
    def map(self, value: Record) -> Record:
        return self.moved(value, value[0])


class TracedFilter(Traced, FilterFunction):
    """`kept`. A filter cannot change records: a `TracedPass` beside it notes the subtask."""

    @override
    def filter(self, value: Record) -> bool:
        return kept(value[0], self.number)


class TracedFlatMap(Traced, FlatMapFunction):
    """`expanded`."""

    @override
    def flat_map(self, value: Record) -> Iterator[Record]:
        for result in expanded(value[0], self.number):
            yield self.moved(value, result)


class TracedProcess(Traced, ProcessFunction):
    """Splits by `goes_aside`, and checks that event time has come along."""

    @override
    def process_element(self, value: Record, ctx: ProcessFunction.Context) -> Iterator[Any]:
        check_time(value, ctx)
        if goes_aside(value[0], self.number):
            yield SIDE, self.moved(value, value[0], mark=1)
        else:
            yield self.moved(value, value[0])


class ToKeyAndOne(Traced, MapFunction):
    """Prepares counting by reduce."""

    @override
    def map(self, value: Record) -> Record:
        return self.moved(value, (key_of_value(value[0], self.number), 1))


class FromKeyAndCount(Traced, MapFunction):
    """What reduce counted, as one value again."""

    @override
    def map(self, value: Record) -> Record:
        return self.moved(value, counted(*value[0]), mark=1)


def add_counts(old: Record, new: Record) -> Record:
    """The reduce function of counting; the newer record's way is kept."""
    (key, count), (_, more) = old[0], new[0]
    return ((key, count + more), *new[1:])


def counting_key(record: Record) -> int:
    """The key selector of counting."""
    key: int = record[0][0]
    return key


class KeyOf(Function):
    """A key selector with a parameter, called as a plain function."""

    def __init__(self, number: int) -> None:
        self.number = number

    def get_key(self, value: Record) -> int:
        """The key of a record."""
        return key_of_value(value[0], self.number)


class TracedKeyedCount(Traced, KeyedProcessFunction):
    """Counts by keyed state."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    @override
    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterator[Record]:
        check_time(value, ctx)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield self.moved(value, counted(ctx.get_current_key(), count))


class TracedCoMap(Traced, CoMapFunction):
    """`co_mapped`."""

    @override
    def map1(self, value: Record) -> Record | None:
        """A record of the first input."""
        return self._map(value, 0)

    @override
    def map2(self, value: Record) -> Record | None:
        """A record of the second input."""
        return self._map(value, 1)

    def _map(self, value: Record, index: int) -> Record | None:
        result = co_mapped(value[0], self.number, index)
        return None if result is None else self.moved(value, result, index)


class TracedCoFlatMap(Traced, CoFlatMapFunction):
    """`co_expanded`."""

    @override
    def flat_map1(self, value: Record) -> Iterator[Record]:
        """A record of the first input."""
        for result in co_expanded(value[0], self.number, 0):
            yield self.moved(value, result, 0)

    @override
    def flat_map2(self, value: Record) -> Iterator[Record]:
        """A record of the second input."""
        for result in co_expanded(value[0], self.number, 1):
            yield self.moved(value, result, 1)


class TracedKeyedCoCount(Traced, KeyedCoProcessFunction):
    """Counts the records of both inputs by state that they share."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    @override
    def process_element1(self, value: Record, ctx: KeyedCoProcessFunction.Context) -> Iterator[Record]:
        """A record of the first input."""
        return self._count(value, ctx, 0)

    @override
    def process_element2(self, value: Record, ctx: KeyedCoProcessFunction.Context) -> Iterator[Record]:
        """A record of the second input."""
        return self._count(value, ctx, 1)

    def _count(self, value: Record, ctx: KeyedCoProcessFunction.Context, index: int) -> Iterator[Record]:
        check_time(value, ctx)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield self.moved(value, counted(ctx.get_current_key(), count), index)


class ByValue(Partitioner):
    """A custom partitioner."""

    @override
    def partition(self, key: Any, num_partitions: int) -> int:
        return int(key) % num_partitions


def value_of(record: Record) -> int:
    """The key that `ByValue` is given."""
    value = record[0]
    return int(value[0]) if isinstance(value, tuple) else int(value)


def check_time(record: Record, ctx: Any) -> None:
    """A record of a timed source keeps its timestamp and is never late, any other has none."""
    _, origin, sequence, _ = record
    timestamp = ctx.timestamp()
    if timestamp is None:
        return  # reduce in BATCH forgets it; that STREAMING does not is for the caller to check at the sink
    if not origin.timed or timestamp != sequence:
        raise AssertionError(f"record {record} has timestamp {timestamp}")
    watermark = ctx.timer_service().current_watermark()
    if watermark >= timestamp:
        raise AssertionError(f"record {record} is late: the watermark is {watermark} already")
