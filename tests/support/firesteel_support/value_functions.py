"""The user code of programs with values that change: careless about its objects in all the ways that Flink allows.

These functions keep what they emitted and change it, emit one object again and again, change their arguments, empty
buffers that they have just yielded. None of that may show: a record is what it was when it was emitted. What Flink leaves
undefined they do not do, above all they never change an object of their state without writing it back.

A function says what it needs (see `Needs`), so that programs use it only where its results are defined.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from firesteel.common import Types, WatermarkStrategy
from firesteel.common._override import override
from firesteel.common.watermark_strategy import TimestampAssigner, Watermark, WatermarkGenerator
from firesteel.datastream import OutputTag, RuntimeContext
from firesteel.datastream.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from firesteel.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from firesteel.datastream.window import CountTrigger
from firesteel_support.value_shapes import append, change, key_of, made, number_of, parts_of, shown

SIDE = OutputTag("aside", Types.PICKLED_BYTE_ARRAY())
ANY = Types.PICKLED_BYTE_ARRAY()
KEPT = 4  # how many things a state keeps at most


class Needs(enum.IntEnum):
    """The order of its input that a function's results depend on."""

    NONE = 0  # each record for itself
    PER_KEY = 1  # the order of the records of a key
    TOTAL = 2  # the order of all records: it has variables of its own


class UserCode:
    """What programs want to know of a function."""

    needs: ClassVar[Needs] = Needs.NONE
    shape: str | None = None  # of its results; None: that of its input
    has_side: ClassVar[bool] = False
    uses_time: ClassVar[bool] = False
    has_timers: ClassVar[bool] = False


def plain(
    needs: Needs = Needs.NONE,
    shape: str | None = None,
    reads: tuple[str, ...] = ("list", "tuple", "row", "named"),
) -> Callable[[Any], Any]:
    """The same for functions that are no classes; ``reads``: shapes of records that they can take apart."""

    def described(function: Any) -> Any:
        function.needs, function.shape, function.reads = needs, shape, reads
        return function

    return described


# map and filter -----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Pass(UserCode, MapFunction):
    """Returns its argument."""

    @override
    def map(self, value: Any) -> Any:
        return value


@dataclass(eq=False)
class ChangesArgument(UserCode, MapFunction):
    """Changes its argument in place and returns it; whoever else reads that stream must not see it."""

    by: int

    @override
    def map(self, value: Any) -> Any:
        return change(value, self.by)


@dataclass(eq=False)
class Reshapes(UserCode, MapFunction):
    """A new record of another shape, around the very list of the old one."""

    shape: str | None

    @override
    def map(self, value: Any) -> Any:
        return made(self.shape or "list", key_of(value), number_of(value), parts_of(value))


@dataclass(eq=False)
class ReusesOneObject(UserCode, MapFunction):
    """One dictionary for all records, filled anew each time."""

    shape: str | None = "dict"

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.one: dict[str, Any] = made("dict", "a", 0)

    @override
    def map(self, value: Any) -> Any:
        self.one["key"] = key_of(value)
        self.one["number"] = number_of(value)
        self.one["parts"][:] = [[number_of(value)], 1]
        return self.one


@dataclass(eq=False)
class ReusesOneRow(UserCode, MapFunction):
    """One Row for all records, filled anew each time."""

    shape: str | None = "row"

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.row = made("row", "a", 0)

    @override
    def map(self, value: Any) -> Any:
        self.row["key"] = key_of(value)
        self.row["number"] = number_of(value)
        self.row["parts"] = parts_of(value)
        return self.row


@dataclass(eq=False)
class ReturnsItsOwnList(UserCode, MapFunction):
    """Every result has the same list in it, with all that came so far."""

    needs: ClassVar[Needs] = Needs.TOTAL
    shape: str | None

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen: list[Any] = [[]]

    @override
    def map(self, value: Any) -> Any:
        append(self.seen, number_of(value))
        return made(self.shape or "list", key_of(value), number_of(value), self.seen)


@dataclass(eq=False)
class RemembersArguments(UserCode, MapFunction):
    """Keeps the last arguments, reads them later, and changes them then."""

    needs: ClassVar[Needs] = Needs.TOTAL

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept: list[Any] = []

    @override
    def map(self, value: Any) -> Any:
        self.kept.append(value)
        del self.kept[:-3]
        seen = sum(number_of(each) for each in self.kept)
        result = made("dict", key_of(value), seen, parts_of(self.kept[0]))
        for each in self.kept[:-1]:
            change(each, 1)
        return result

    shape: str | None = "dict"


@dataclass(eq=False)
class KeepsSome(UserCode, FilterFunction):
    """Drops every record whose number is a multiple."""

    of: int

    @override
    def filter(self, value: Any) -> bool:
        return number_of(value) % self.of != 0


@dataclass(eq=False)
class ChangesWhileFiltering(UserCode, FilterFunction):
    """Changes its argument in place: what goes on is what it is afterwards."""

    by: int

    @override
    def filter(self, value: Any) -> bool:
        change(value, self.by)
        return number_of(value) % 5 != 0


@dataclass(eq=False)
class RemembersWhileFiltering(UserCode, FilterFunction):
    """Keeps its arguments and changes them later: when they have long gone on."""

    needs: ClassVar[Needs] = Needs.TOTAL

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept: list[Any] = []

    @override
    def filter(self, value: Any) -> bool:
        for each in self.kept:
            change(each, 1)
        self.kept.append(value)
        del self.kept[:-KEPT]
        return number_of(self.kept[0]) % 6 != 5


# Who is asked about records: nobody sees what they do ----------------------------------------------------


def change_and_tell_the_key(record: Any) -> Any:
    """A key selector that changes the record."""
    key = key_of(record)
    change(record, 1000)
    return key


class RemembersWhileTellingTheKey(KeySelector):
    """A key selector that keeps records and changes them later; and nobody else has changed them."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, str]] = []

    @override
    def get_key(self, value: Any) -> Any:
        del self.kept[: 1 - KEPT]
        for at, (record, text) in enumerate(self.kept):
            assert shown(record) == text, f"somebody has changed {text} to {shown(record)}"
            record = change(record, 3)
            self.kept[at] = (record, shown(record))
        key = key_of(value)
        self.kept.append((value, shown(value)))
        return key


#: What stands for `key_of` in programs.
SELECTORS: tuple[Any, ...] = (change_and_tell_the_key, RemembersWhileTellingTheKey())


@plain(reads=("list", "tuple", "row", "named", "deque"))
def third(record: Any) -> Any:
    """A selector for partitioners: a part of the record, the very object."""
    return record[2]


class RemembersKeys(Partitioner):
    """Keeps its keys, which are parts of records, and changes them; always says the same."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    @override
    def partition(self, key: Any, num_partitions: int) -> int:
        for parts in self.kept:
            append(parts, -1)
        self.kept.append(key)
        del self.kept[:-KEPT]
        return 0


@dataclass(eq=False)
class Partitions(UserCode):
    """A partitioner with its selector."""

    selector: Any
    partitioner: Any = field(default_factory=RemembersKeys)


def change_and_tell_the_time(record: Any, timestamp: int) -> int:
    """A timestamp assigner that changes the record: that goes on with it."""
    change(record, 2)
    return timestamp + 1


def tell_the_time_plainly(record: Any, timestamp: int) -> int:
    """One that provably keeps nothing, and changes the record."""
    record[1] += 4
    return timestamp


class RemembersWhileTellingTheTime(TimestampAssigner):
    """Changes records when it is asked about later ones: that is not seen."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    @override
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        for record in self.kept:
            change(record, 5)
        self.kept.append(change(value, 1))
        del self.kept[:-KEPT]
        return record_timestamp


class RemembersEvents(WatermarkGenerator):
    """Changes the events that it is shown, at once and later."""

    def __init__(self, punctuates: bool) -> None:
        self.punctuates = punctuates
        self.kept: list[Any] = []
        self.latest = 0

    @override
    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        self.latest = max(self.latest, event_timestamp)
        if self.punctuates and number_of(event) % 3 == 0:
            output.emit_watermark(Watermark(self.latest - 2))
        self.kept.append(change(event, 7))
        for record in self.kept:
            change(record, 1)
        del self.kept[:-KEPT]

    @override
    def on_periodic_emit(self, output: Any) -> None:
        for record in self.kept:
            change(record, 1)


@dataclass(eq=False)
class TellsTimeAgain(UserCode):
    """An assigner of timestamps, and how watermarks are made: not at all, by a generator, behind some records."""

    needs: ClassVar[Needs] = Needs.TOTAL
    uses_time: ClassVar[bool] = True
    assigner: Any
    generator: str = ""  # nothing; remembers, punctuates

    def strategy(self) -> Any:
        """The watermark strategy."""
        strategy = WatermarkStrategy.no_watermarks()
        if self.generator:
            punctuates = self.generator == "punctuates"
            strategy = WatermarkStrategy.for_generator(lambda: RemembersEvents(punctuates))
        return strategy.with_timestamp_assigner(self.assigner)


# flat_map -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Repeats(UserCode, FlatMapFunction):
    """One object several times."""

    times: int

    @override
    def flat_map(self, value: Any) -> Iterable[Any]:
        return [value] * self.times


@dataclass(eq=False)
class YieldsChangesYields(UserCode, FlatMapFunction):
    """``yield x``, change x, ``yield x``; and changes it once more when nobody asks any more."""

    @override
    def flat_map(self, value: Any) -> Iterator[Any]:
        yield value
        value = change(value, 1)
        yield value
        change(value, 100)


@dataclass(eq=False)
class BuffersAndClears(UserCode, FlatMapFunction):
    """Gathers numbers in a buffer, yields it when it is full, and clears it."""

    needs: ClassVar[Needs] = Needs.TOTAL
    size: int
    shape: str | None

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.buffer: list[int] = []

    @override
    def flat_map(self, value: Any) -> Iterator[Any]:
        self.buffer.append(number_of(value))
        if len(self.buffer) == self.size:
            yield made(self.shape or "list", key_of(value), len(self.buffer), self.buffer)
            self.buffer.clear()


@dataclass(eq=False)
class ReturnsOneListAgain(UserCode, FlatMapFunction):
    """Returns the same list of results each time, with other contents."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.results: list[Any] = []

    @override
    def flat_map(self, value: Any) -> Iterable[Any]:
        self.results.clear()
        self.results += [value, value] if number_of(value) % 2 else [value]
        return self.results


@dataclass(eq=False)
class Bursts(UserCode, FlatMapFunction):
    """One object a thousand times and more for the first record, changed each time; all others pass."""

    needs: ClassVar[Needs] = Needs.TOTAL
    count: int
    shape: str | None = "list"

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.began = False

    @override
    def flat_map(self, value: Any) -> Iterator[Any]:
        record = made("list", key_of(value), number_of(value), [1])
        yield record
        if not self.began:
            self.began = True
            for _ in range(self.count):
                record[1] += 1
                record[2][0] += 1
                yield record


# Plain functions: some keep nothing, and it can be seen, but records share parts with others; some only look like it ----


@plain()
def same_record(record: Any) -> Any:
    """For map: the argument."""
    return record


@plain(shape="list")
def new_list_around(record: Any) -> Any:
    """For map: something new around a part of the argument."""
    return [record[0], record[1] + 1, record[2]]


@plain(shape="list")
def one_part_twice(record: Any) -> Any:
    """For map: one part of the argument in two places of the result."""
    return [record[0], record[1], [record[2], record[2]]]


@plain(reads=("list", "row"))
def change_plainly(record: Any) -> Any:
    """For map: the argument, changed in place."""
    record[1] += 3
    record[2] = [record[1]]
    return record


@plain()
def is_even(record: Any) -> Any:
    """For filter."""
    return record[1] % 2 == 0


@plain(reads=("list",))
def is_even_then_changed(record: Any) -> Any:
    """For filter: asks, and changes the argument."""
    record[1] += 2
    return record[1] % 2 == 0


@plain()
def record_twice(record: Any) -> Any:
    """For flat_map: nothing is kept, but two records are one object."""
    return [record, record]


@plain(shape="list")
def lists_around_one_part(record: Any) -> Any:
    """For flat_map: nothing is kept, but three records share a part."""
    return [[record[0], number, record[2]] for number in (1, 2, 3)]


def gathering() -> Any:
    """For map: a function with a list that nobody else knows."""
    seen: list[int] = []

    @plain(needs=Needs.TOTAL, shape="list")
    def gather(record: Any) -> Any:
        seen.append(record[1])
        del seen[:-KEPT]
        return [record[0], record[1], seen]

    return gather


@plain(needs=Needs.PER_KEY, shape="list", reads=("list",))
def add_lists(first: Any, second: Any) -> Any:
    """For reduce: something new around a part of the state."""
    return [first[0], first[1] + second[1], first[2]]


@plain(needs=Needs.PER_KEY, shape="list", reads=("list",))
def cross_lists(first: Any, second: Any) -> Any:
    """For reduce: something new around a part of the record."""
    return [second[0], first[1] + 1, second[2]]


@plain(needs=Needs.PER_KEY, shape="list", reads=("list",))
def add_in_place(first: Any, second: Any) -> Any:
    """For reduce: the state, changed in place."""
    first[1] += second[1]
    first[2] = [second[1]]
    return first


@plain(needs=Needs.PER_KEY)
def first_one(first: Any, second: Any) -> Any:
    """For reduce: the state as it is, again and again."""
    return first


# process and side outputs -------------------------------------------------------------------------------


@dataclass(eq=False)
class GivesOneObjectToBoth(UserCode, ProcessFunction):
    """Main and side output get one object, which changes in between and afterwards."""

    has_side: ClassVar[bool] = True

    @override
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        ctx.output(SIDE, value)
        value = change(value, 1)
        yield value
        value = change(value, 1)
        if number_of(value) % 2:
            ctx.output(SIDE, value)
        yield value
        change(value, 50)


@dataclass(eq=False)
class YieldsATag(UserCode, ProcessFunction):
    """Side output by yielding ``tag, value``, around and between records for the main output."""

    has_side: ClassVar[bool] = True

    @override
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield SIDE, value
        value = change(value, 1)
        ctx.output(SIDE, value)
        yield value
        value = change(value, 2)
        yield SIDE, value


@dataclass(eq=False)
class TellsTheTime(UserCode, ProcessFunction):
    """The record's timestamp and its number, in a list that it keeps."""

    uses_time: ClassVar[bool] = True
    shape: str | None = "list"

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.record: list[Any] = ["a", 0, []]

    @override
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        self.record[0] = key_of(value)
        self.record[1] = ctx.timestamp()
        self.record[2] = [number_of(value)]
        yield self.record


# Keyed: state -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class YieldsItsState(UserCode, KeyedProcessFunction):
    """A list in a value state: read, append, update, yield - and on, while the generator lives."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    shape: str | None

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("state", ANY))

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        kept = self.state.value() or made(self.shape or "list", key_of(value), 0, [[]])
        kept = change(kept, number_of(value))
        self.state.update(kept)
        yield kept
        if number_of(value) % 2:
            kept = change(self.state.value(), 1)
            self.state.update(kept)
            yield kept


@dataclass(eq=False)
class KeepsTheLast(UserCode, KeyedProcessFunction):
    """The record itself goes into the state and on; later what was in the state goes on, changed."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    has_side: ClassVar[bool] = True

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", ANY))

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        last = self.last.value()
        if last is not None:
            last = change(last, 7)
            ctx.output(SIDE, last)
            yield last
        self.last.update(value)
        yield value


@dataclass(eq=False)
class ListOfRecords(UserCode, KeyedProcessFunction):
    """Records in a list state; every now and then they are changed, written back and emitted."""

    needs: ClassVar[Needs] = Needs.PER_KEY

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.records = runtime_context.get_list_state(ListStateDescriptor("records", ANY))

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.records.add(value)
        records = [change(record, 1) for record in self.records.get()]
        self.records.update(records[-KEPT:])
        yield from records


@dataclass(eq=False)
class MapOfLists(UserCode, KeyedProcessFunction):
    """Lists in a map state, under some keys of its own; changed, written back and emitted."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    shape: str | None = "dict"

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.lists = runtime_context.get_map_state(MapStateDescriptor("lists", ANY, ANY))

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        number = number_of(value)
        place = number % 3
        found = self.lists.get(place)
        kept = [[]] if found is None else found
        append(kept, number)
        self.lists.put(place, kept)
        yield made("dict", key_of(value), number, kept)
        if number % 5 == 0:
            for other, items in sorted(self.lists.items()):
                append(items, -number)
                self.lists.put(other, items)
                yield made("dict", key_of(value), other, items)
        if number % 7 == 0:
            self.lists.remove(place)


class AddsNumbers(ReduceFunction):
    """Adds numbers into a list that it changes in place."""

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        value1[0] += value2[0]
        return value1


class GathersNumbers(AggregateFunction):
    """An accumulator that is changed in place, and is itself the result."""

    @override
    def create_accumulator(self) -> Any:
        return [[], 0]

    @override
    def add(self, value: Any, accumulator: Any) -> Any:
        append(accumulator, number_of(value))
        return accumulator

    @override
    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    @override
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Only windows that merge may ask for it, and states are no windows."""
        raise AssertionError("nothing is to be merged here")


@dataclass(eq=False)
class ReducingAndAggregating(UserCode, KeyedProcessFunction):
    """Emits what reducing and aggregating state give, as they give it."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    shape: str | None = "list"

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sums = runtime_context.get_reducing_state(ReducingStateDescriptor("sums", AddsNumbers(), ANY))
        gathers = AggregatingStateDescriptor("gathered", GathersNumbers(), ANY)
        self.gathered = runtime_context.get_aggregating_state(gathers)

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        number = number_of(value)
        self.sums.add([number])
        yield [key_of(value), number, self.sums.get()]
        self.gathered.add(value)
        yield [key_of(value), number, self.gathered.get()]
        self.sums.add([1])
        yield [key_of(value), number, self.sums.get()]
        if number % 6 == 0:
            self.gathered.clear()


@dataclass(eq=False)
class KeepsUntilATimer(UserCode, KeyedProcessFunction):
    """Keeps records until a timer fires, lets them go, changes them, and lets them go once more at another."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    has_side: ClassVar[bool] = True
    uses_time: ClassVar[bool] = True
    has_timers: ClassVar[bool] = True
    delay: int

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept", ANY))

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        timers, timestamp = ctx.timer_service(), ctx.timestamp()
        assert timestamp is not None
        if number_of(value) % 7 == 3:
            timers.delete_event_time_timer(timestamp + self.delay - 1)
        timers.register_event_time_timer(timestamp + self.delay)
        self.kept.add(value)
        if timestamp <= timers.current_watermark():
            ctx.output(SIDE, value)
        yield value

    @override
    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Let go what is kept."""
        records = list(self.kept.get())
        yield from records
        changed = [change(record, timestamp % 10) for record in records]
        self.kept.update(changed[-KEPT:])
        ctx.output(
            SIDE, made("list", ctx.get_current_key(), timestamp, parts_of(changed[0]) if changed else [0])
        )
        yield from changed
        if timestamp % 3 == 0:
            self.kept.clear()
        elif timestamp < 200:
            ctx.timer_service().register_event_time_timer(timestamp + 3 - timestamp % 3)


# State as an argument -----------------------------------------------------------------------------------


@plain(needs=Needs.PER_KEY, shape="list", reads=())
def list_with_state(record: Any, state: Any) -> Any:
    """For map_with_state: the state, changed in place, is the output's list, too."""
    state = state or [[]]
    append(state, number_of(record))
    return made("list", key_of(record), number_of(record), state), state


@plain(needs=Needs.PER_KEY, shape="plain", reads=())
def lists_with_state(record: Any, state: Any) -> Any:
    """For flat_map_with_state: one object twice, and it is the state."""
    state = change(state or made("plain", key_of(record), 0, [[]]), number_of(record))
    return [state, state], state if number_of(record) % 8 else None


# Keyed: reduce ------------------------------------------------------------------------------------------


@dataclass(eq=False)
class StartsToChange(UserCode, ReduceFunction):
    """Gives new records at first; from some call on it changes its first argument in place. The results are the same."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    after: int
    calls = 0
    shape: str | None = "list"

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Two become one; both are lists."""
        self.calls += 1
        if self.calls <= self.after:
            value1 = [value1[0], value1[1], [list(p) if isinstance(p, list) else p for p in value1[2]]]
        return change(value1, value2[1])


@dataclass(eq=False)
class ChangesTheSecond(UserCode, ReduceFunction):
    """Changes its second argument in place and returns it."""

    needs: ClassVar[Needs] = Needs.PER_KEY

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        return change(value2, number_of(value1) % 100)


@dataclass(eq=False)
class ChoosesOne(UserCode, ReduceFunction):
    """The one or the other, changed in place."""

    needs: ClassVar[Needs] = Needs.PER_KEY

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        chosen = value1 if number_of(value1) % 100 > number_of(value2) % 100 else value2
        return change(chosen, 1)


# Two inputs ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ChangesBothSides(UserCode, CoMapFunction):
    """Changes its arguments in place, differently on either side."""

    @override
    def map1(self, value: Any) -> Any:
        """One record of the first side."""
        return change(value, 1)

    @override
    def map2(self, value: Any) -> Any:
        """One record of the second side."""
        return change(value, 2)


@dataclass(eq=False)
class YieldsBothSides(UserCode, CoFlatMapFunction):
    """One object again and again on either side."""

    @override
    def flat_map1(self, value: Any) -> Iterator[Any]:
        """One record of the first side."""
        yield value
        yield change(value, 3)

    @override
    def flat_map2(self, value: Any) -> Iterator[Any]:
        """One record of the second side."""
        if number_of(value) % 2:
            yield value
            change(value, 1)


@dataclass(eq=False)
class SharesState(UserCode, KeyedCoProcessFunction):
    """Both sides change one object in the state and emit it."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    has_side: ClassVar[bool] = True
    uses_time: ClassVar[bool] = True
    shape: str | None

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("state", ANY))

    def _changed(self, value: Any, by: int) -> Any:
        kept = self.state.value() or made(self.shape or "list", key_of(value), 0, [[]])
        kept = change(kept, number_of(value) + by)
        self.state.update(kept)
        return kept

    @override
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """One record of the first side."""
        kept = self._changed(value, 0)
        yield kept
        ctx.output(SIDE, kept)
        timestamp = ctx.timestamp()
        assert timestamp is not None
        ctx.timer_service().register_event_time_timer(timestamp + 5)

    @override
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """One record of the second side."""
        yield self._changed(value, 1)
        yield self._changed(value, 2)

    @override
    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Emit the state, changed once more."""
        kept = change(self.state.value(), 1)
        self.state.update(kept)
        yield kept


# Windows and joins --------------------------------------------------------------------------------------


@dataclass(eq=False)
class AddsToTheFirst(UserCode, ReduceFunction):
    """Changes its first argument in place by the number of the second: to be called in the order of arrival."""

    needs: ClassVar[Needs] = Needs.PER_KEY

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        return change(value1, number_of(value2))


@dataclass(eq=False)
class CountsOn(UserCode, ReduceFunction):
    """Looks only at its first argument: wrong when parts of a window are reduced for themselves."""

    needs: ClassVar[Needs] = Needs.PER_KEY

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        return change(value1, 1)


@dataclass(eq=False)
class TakesTheLast(UserCode, ReduceFunction):
    """The record that came last."""

    needs: ClassVar[Needs] = Needs.PER_KEY

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2


@dataclass(eq=False)
class GathersInOrder(UserCode, AggregateFunction):
    """An accumulator in order of arrival, changed in place, which is the result as well. Cannot merge."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    shape: str | None = "list"

    @override
    def create_accumulator(self) -> Any:
        return ["a", 0, [[]]]

    @override
    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] = key_of(value)
        accumulator[1] += 1
        append(accumulator[2], number_of(value))
        return accumulator

    @override
    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    @override
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Only windows that merge may ask for it."""
        raise AssertionError("windows that do not merge must not ask for a merge")


@dataclass(eq=False)
class GathersTheSmallest(GathersInOrder):
    """The smallest numbers and the record they came with: whatever the order of adding and merging."""

    needs: ClassVar[Needs] = Needs.NONE

    @override
    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] = key_of(value)
        accumulator[1] += number_of(value)
        accumulator[2][0].append(number_of(value))
        return self._sorted(accumulator)

    @override
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Both in one, which is changed in place."""
        acc_b[0] = max(acc_a[0], acc_b[0])
        acc_b[1] += acc_a[1]
        acc_b[2][0] += acc_a[2][0]
        return self._sorted(acc_b)

    def _sorted(self, accumulator: Any) -> Any:
        accumulator[2][0].sort()
        del accumulator[2][0][KEPT:]
        return accumulator


@dataclass(eq=False)
class ChangesElements(UserCode, ProcessWindowFunction):
    """Changes the records of the window in place and emits them; other windows and later firings must not see it."""

    needs: ClassVar[Needs] = Needs.PER_KEY

    @override
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for element in sorted(elements, key=shown):
            yield element
            yield change(element, 1)


class RemembersElements(CountTrigger):
    """Counts; and keeps the elements that it is asked about, and changes them."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.kept: list[Any] = []

    @override
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        self.kept = [change(each, 9) for each in (*self.kept, element)][-KEPT:]
        return super().on_element(element, timestamp, window, ctx)


@dataclass(eq=False)
class ReusesOneList(UserCode, ProcessWindowFunction):
    """The numbers of the window in a list that it uses again for the next window."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    in_order: bool
    shape: str | None = "list"

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.numbers: list[int] = []

    @override
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        window = context.window()
        first, last = (window.id, window.id) if hasattr(window, "id") else (window.start, window.end)
        self.numbers.clear()
        self.numbers += [number_of(element) for element in elements]
        if not self.in_order:
            self.numbers.sort()
        yield made("list", key, first, self.numbers)
        self.numbers.append(last)
        yield made("list", key, len(self.numbers), self.numbers)


@dataclass(eq=False)
class CountsFirings(UserCode, ProcessWindowFunction):
    """Lists in the state of the window and of the key: changed in place, written back, emitted, cleared at the end."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    shape: str | None = "list"

    @override
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        number = sum(map(number_of, elements))
        for store, name in (
            (context.window_state(), "of the window"),
            (context.global_state(), "of the key"),
        ):
            state = store.get_state(ValueStateDescriptor(name, ANY))
            firings = state.value() or []
            firings.append(number)
            del firings[:-KEPT]
            state.update(firings)
            yield made("list", key, number, firings)

    @override
    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("of the window", ANY)).clear()


@dataclass(eq=False)
class PairsShareLists(UserCode, ProcessJoinFunction):
    """Pairs made of the lists of both records, and the left record itself."""

    shape: str | None = "mixed"

    @override
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        pair = made("list", key_of(left), number_of(left), [parts_of(left), parts_of(right)])
        yield pair
        pair[1] += number_of(right) + ctx.timestamp()
        yield pair
        yield left


@dataclass(eq=False)
class ChangesPairs(UserCode, ProcessJoinFunction):
    """Changes both records of a pair in place: what waits for other partners is not these objects."""

    needs: ClassVar[Needs] = Needs.PER_KEY
    shape: str | None = "mixed"

    @override
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left
        left, right = change(left, 1), change(right, 2)
        yield right
        yield left
        change(right, 3)


@dataclass(eq=False)
class GroupsAndChanges(UserCode, CoGroupFunction):
    """One list for all groups, and then the records themselves, which it changes."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self.numbers: list[int] = []

    @override
    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        records = sorted(first, key=shown) + sorted(second, key=shown)
        self.numbers[:] = map(number_of, records)
        yield made("list", key_of(records[0]), len(first), self.numbers)
        for record in records:
            yield change(record, len(second))
        self.numbers.clear()

    shape: str | None = "mixed"
