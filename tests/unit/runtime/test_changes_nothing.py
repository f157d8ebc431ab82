"""Functions that provably change nothing in place are told from all others; in doubt, the answer is no."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
import pickle
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cloudpickle
import pytest

from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.common.types import Row
from firesteel.contracts.checkpointing import CheckpointedFunction
from firesteel.contracts.functions import (
    AggregateFunction,
    CoMapFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)
from firesteel.runtime.changes_nothing import changes_nothing, prove
from firesteel.runtime.code_walk import Unproven
from firesteel.state.hashmap_backend import HashMapBackend

ANY = Types.PICKLED_BYTE_ARRAY()
RATE = 3
NAMES = {"a": 1, "b": 2}
NESTED: dict[str, list[int]] = {"a": []}
LATE = OutputTag("late")
COUNT = 0
SHARED: list[Any] = []


class Pair(NamedTuple):
    key: str
    count: int


@dataclasses.dataclass
class Order:
    id: Any
    n: int


def counts() -> None:
    global COUNT
    COUNT = COUNT + 1


def twice(x: Any) -> Any:
    return [x, x]


def appends(x: Any) -> Any:
    x.append(1)
    return x


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Gathering(Sum):
    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator


class Appending(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        value1.append(value2)
        return value1


class Base(KeyedProcessFunction):
    """Has every kind of state, and attributes of many kinds."""

    LIMIT = 10
    NOTHING = None
    SHARED_BY_CLASS: list[Any] = []

    def __init__(self) -> None:
        self.count = 0
        self.last = None
        self.text = ""
        self.rates = {"a": 1.5}
        self.names = ["x", "y"]
        self.nested: list[Any] = [[1]]
        self.tag = OutputTag("aside")
        self.double = lambda x: x * 2
        self.add_to = appends
        self.lock = threading.Lock()

    def open(self, runtime_context: Any) -> None:
        store = runtime_context
        self.value = store.get_state(ValueStateDescriptor("value", ANY))
        self.items = store.get_list_state(ListStateDescriptor("items", ANY))
        self.table = store.get_map_state(MapStateDescriptor("table", ANY, ANY))
        self.sum = store.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, ANY))
        self.mean = store.get_aggregating_state(AggregatingStateDescriptor("mean", Sum(), ANY))
        self.bad_sum = store.get_reducing_state(ReducingStateDescriptor("bad_sum", Appending(), ANY))
        self.bad_mean = store.get_aggregating_state(AggregatingStateDescriptor("bad", Gathering(), ANY))
        expiring = ValueStateDescriptor("expiring", ANY)
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.expiring = store.get_state(expiring)
        self.states = [self.items]

    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    # Helpers.

    def plus(self, x: Any, n: int = 1) -> Any:
        return [x, n]

    def emits_aside(self, ctx: Any, x: Any) -> None:
        ctx.output(self.tag, x)

    def emits_the_last(self, ctx: Any) -> Iterator[Any]:
        ctx.output(self.tag, self.last)
        yield 1

    def expands(self, x: Any) -> Iterator[Any]:
        yield x
        yield [x]

    def changes(self, x: Any) -> None:
        x.append(1)

    def calls_itself(self, x: Any) -> Any:
        return self.calls_itself(x[1:]) if x else x

    @staticmethod
    def halved(x: Any) -> Any:
        return [x, 2]

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x

    @property
    def computed(self) -> Any:
        return self.nested


def opened(function: Callable[..., Any], base: type = Base, **more: Any) -> Any:
    """An opened object whose process_element is the function."""
    kind = type(function.__name__, (base,), {"process_element": function, **more})
    instance = kind()
    backend = HashMapBackend(lambda: 0.0)
    backend.current_key = "k"
    instance.open(backend)
    return instance


PROVEN: dict[str, Callable[..., Any]] = {}
REFUSED: dict[str, Callable[..., Any]] = {}


def proven(function: Callable[..., Any]) -> Callable[..., Any]:
    assert function.__name__ not in PROVEN
    PROVEN[function.__name__] = function
    return function


def refused(function: Callable[..., Any]) -> Callable[..., Any]:
    assert function.__name__ not in REFUSED
    REFUSED[function.__name__] = function
    return function


# What is proven. All of them get lists of two parts, of which the second is a list, too.


@proven
def yields(self: Any, value: Any, ctx: Any) -> Any:
    yield value
    yield value[0], 1


@proven
def returns(self: Any, value: Any, ctx: Any) -> Any:
    return [value, [value[0]]]


@proven
def returns_nothing(self: Any, value: Any, ctx: Any) -> Any:
    pass


@proven
def rolling_count(self: Any, value: Any, ctx: Any) -> Any:
    total = (self.value.value() or 0) + len(value)
    self.value.update(total)
    yield value[0], total


@proven
def expiring_count(self: Any, value: Any, ctx: Any) -> Any:
    count = self.expiring.value()
    if count is None:
        count = 0
    count = count + 1
    self.expiring.update(count)
    if count > 1:
        self.expiring.clear()
    yield count


@proven
def keeps_the_last(self: Any, value: Any, ctx: Any) -> Any:
    if self.last is not None:
        yield self.last
    self.last = value
    yield value


@proven
def counts_in_an_attribute(self: Any, value: Any, ctx: Any) -> Any:
    self.count += 1
    self.text += "."
    yield self.count, self.text, value


@proven
def stores_a_list_anew(self: Any, value: Any, ctx: Any) -> Any:
    seen = [*(self.value.value() or []), value[0]]
    self.value.update(seen)
    yield seen


@proven
def uses_all_states(self: Any, value: Any, ctx: Any) -> Any:
    self.items.add(value)
    self.items.add_all([value])
    self.table.put(value[0], value)
    self.table[value[0]] = value[1]
    self.sum.add(1)
    self.mean.add(2)
    yield self.table.get(value[0]), self.table[value[0]], self.table.contains(1), 1 in self.table
    yield self.sum.get(), self.mean.get(), self.table.is_empty()
    del self.table[value[0]]
    self.table.remove(value[0])
    self.items.update([value])
    self.sum.clear()


@proven
def goes_through_states(self: Any, value: Any, ctx: Any) -> Any:
    self.items.add(value)
    self.table.put(1, value)
    for item in self.items.get():
        yield item
    for item in self.items:
        yield item
    yield from self.items.get()
    for key in self.table:
        yield key
    for key, item in self.table.items():
        yield key, item
    yield list(self.items.get())
    yield [*self.items.get()], len(self.table.keys()), sorted(self.table.keys())
    yield [item for item in self.table.values() if item]
    yield sum(1 for _ in self.items.get())
    yield self.items.get()[0]
    for at, item in enumerate(self.items.get() or []):
        yield at, item


@proven
def copies_of_states(self: Any, value: Any, ctx: Any) -> Any:
    self.items.add(value)
    found = list(self.items.get())
    found.append(1)
    found.sort(key=lambda x: str(x))
    return found


@proven
def uses_the_context(self: Any, value: Any, ctx: Any) -> Any:
    now = ctx.timestamp() or 0
    now += 5
    ctx.timer_service().register_event_time_timer(now + 1000)
    timers = ctx.timer_service()
    timers.delete_processing_time_timer(timers.current_processing_time())
    if timers.current_watermark() < now:
        ctx.output(LATE, value)
    yield ctx.get_current_key(), now
    yield self.tag, value
    ctx.output(self.tag, [value])


@proven
def makes_and_changes_its_own(self: Any, value: Any, ctx: Any) -> Any:
    found = []
    for part in value:
        found.append([part])  # noqa: PERF401
    groups: dict[Any, Any] = {}
    groups["a"] = found
    groups.setdefault("b", 1)
    seen = set()
    seen.add(1)
    seen |= {2}
    del groups["b"]
    found[0:1] = [5]
    more = [x for x in value]  # noqa: C416
    more.append(1)
    return [found, groups, seen, more]


@proven
def changes_before_it_yields(self: Any, value: Any, ctx: Any) -> Any:
    for part in value:
        found = {}
        found["part"] = part
        found["again"] = [part]
        yield found


@proven
def with_helpers(self: Any, value: Any, ctx: Any) -> Any:
    found = []
    found.append(self.plus(value))
    found.append(self.plus(value, n=2))
    found.append(self.halved(value))
    found.append(self.double(value))
    found.append(twice(value))
    yield found
    yield from self.expands(value)
    self.emits_aside(ctx, value)


@proven
def with_tables(self: Any, value: Any, ctx: Any) -> Any:
    yield (
        self.rates.get(value[0], 1),
        self.rates["a"],
        "b" in self.rates,
        RATE * 2,
        NAMES["a"],
        NAMES.get("z"),
    )
    for key, rate in self.rates.items():
        yield rate, key
    yield (
        dict(self.rates),
        sorted(self.names),
        self.LIMIT,
        self.NOTHING,
        len(NAMES),
        self.names[0],
        self.names[1:],
    )
    if self.rates:
        yield 1


@proven
def with_keywords(self: Any, value: Any, ctx: Any) -> Any:
    try:
        yield sorted([2, 1], key=lambda x: -x, reverse=True), max([], default=0), round(1.234, ndigits=1)
        yield sorted(["b", "a"], key=len), {"a": value, "b": 1}, self.plus(x=value, n=3), ["a", "b"]
    except ValueError:
        yield sorted([2, 1], key=None)


@proven
def extends_in_place(self: Any, value: Any, ctx: Any) -> Any:
    found = [1]
    found += [2]
    found += (3,)
    found *= 2
    found.extend(self.items.get())
    return [found]


@proven
def with_exceptions(self: Any, value: Any, ctx: Any) -> Any:
    try:
        yield {"n": int(value[0])}
    except (ValueError, TypeError) as error:
        yield {"error": str(error)}
    finally:
        self.last = value
    if not value:
        raise ValueError(f"never empty: {value}")


@proven
def with_unpacking(self: Any, value: Any, ctx: Any) -> Any:
    first, *rest = value
    a, b = value
    yield first, rest, a, b
    match value:
        case [head, *_]:
            yield head
        case {"a": head}:
            yield head


@proven
def with_loops(self: Any, value: Any, ctx: Any) -> Any:
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            continue
        yield n, f"{n}:{value[0]}"
    for i in range(2):
        for part in value:
            if not part:
                break
            yield i, part
        else:
            yield "none"


@proven
def with_comprehensions(self: Any, value: Any, ctx: Any) -> Any:
    yield [self.rates.get(x, self.count) for x in "ab"]
    yield {x: [x, self.LIMIT] for x in "ab"}
    yield max((x for x in [1, 2]), key=lambda x: -x)
    yield any(x == self.count for x in value), [[y for y in "ab"] for x in value]  # noqa: C416
    yield list(x for x in self.items.get())  # noqa: C400


@proven
def with_new_objects(self: Any, value: Any, ctx: Any) -> Any:
    yield Pair(value[0], 1)
    yield Order(value[0], 1)
    yield Row(value[0], value)
    yield Row(a=value[0], b=value)
    yield json.loads("[1]"), math.floor(1.5), {"a": value}, ["a", "b"]


@proven
def with_a_local_function(self: Any, value: Any, ctx: Any) -> Any:
    def shifted(x: Any) -> Any:
        return [x, self.count]

    yield shifted(value)


class Emitted:
    """A context that remembers what was emitted, and what it was then."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.copies: list[Any] = []

    def take(self, value: Any) -> None:
        self.found.append(value)
        self.copies.append(copy.deepcopy(value))

    def output(self, tag: OutputTag, value: Any) -> None:
        self.take(value)

    def timestamp(self) -> int:
        return 1

    def get_current_key(self) -> str:
        return "k"

    def timer_service(self) -> Any:
        return self

    def current_watermark(self) -> int:
        return 0

    current_processing_time = current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        pass

    delete_processing_time_timer = register_event_time_timer


@pytest.mark.parametrize("name", PROVEN)
def test_proven_and_true(name: str) -> None:
    instance = opened(PROVEN[name])
    assert changes_nothing(instance.process_element)
    assert changes_nothing(instance.on_timer), "the answer is for the object"
    ctx = Emitted()
    records = [["7", ["x"]], ["8", ["y"]], ["7", ["z"]]]
    for record in records:
        ctx.take(record)
        for result in instance.process_element(record, ctx) or ():
            ctx.take(result)
    assert ctx.found == ctx.copies


# What is refused.


@refused
def changes_a_stored_value(self: Any, value: Any, ctx: Any) -> Any:
    seen = self.value.value() or []
    seen.append(value)
    self.value.update(seen)
    yield seen


@refused
def changes_its_argument(self: Any, value: Any, ctx: Any) -> Any:
    value.append(1)
    return [value]


@refused
def sets_an_item_of_its_argument(self: Any, value: Any, ctx: Any) -> Any:
    value[0] = 1
    yield value


@refused
def deletes_an_item(self: Any, value: Any, ctx: Any) -> Any:
    del value[0]
    yield value


@refused
def sets_a_slice(self: Any, value: Any, ctx: Any) -> Any:
    value[:] = []
    yield value


@refused
def sets_an_attribute_of_a_record(self: Any, value: Any, ctx: Any) -> Any:
    value.n = 1
    yield value


@refused
def adds_in_place(self: Any, value: Any, ctx: Any) -> Any:
    value += [1]
    yield value


@refused
def adds_a_text_to_a_list_in_place(self: Any, value: Any, ctx: Any) -> Any:
    value += "ab"
    yield value


@refused
def multiplies_a_list_in_place(self: Any, value: Any, ctx: Any) -> Any:
    value *= 2
    yield value


@refused
def adds_to_a_stored_value_in_place(self: Any, value: Any, ctx: Any) -> Any:
    total = self.value.value()
    total += 1
    self.value.update(total)
    yield total


@refused
def adds_in_place_to_what_may_be_a_list(self: Any, value: Any, ctx: Any) -> Any:
    total = 0
    if value:
        total = value
    total += 1
    yield total


@refused
def adds_in_place_in_a_loop(self: Any, value: Any, ctx: Any) -> Any:
    total = 0
    for part in value:
        total += part
    yield total


@refused
def attribute_that_gets_anything_in_place(self: Any, value: Any, ctx: Any) -> Any:
    self.count += value[0]
    yield self.count


@refused
def attribute_that_got_anything_before(self: Any, value: Any, ctx: Any) -> Any:
    self.count += 1
    yield self.count
    self.count = value


@refused
def attribute_through_another_one(self: Any, value: Any, ctx: Any) -> Any:
    self.count += 1
    self.count = self.last
    self.last = value
    yield self.count


@refused
def element_of_an_attribute(self: Any, value: Any, ctx: Any) -> Any:
    self.rates[value[0]] = 1
    yield value


@refused
def appends_to_an_attribute(self: Any, value: Any, ctx: Any) -> Any:
    self.names.append(value)
    yield value


@refused
def appends_to_what_it_kept(self: Any, value: Any, ctx: Any) -> Any:
    if self.last is not None:
        self.last.append(1)
    self.last = value
    yield value


@refused
def appends_after_yield(self: Any, value: Any, ctx: Any) -> Any:
    found = [1]
    yield found
    found.append(2)


@refused
def appends_in_a_loop_with_yield(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    for part in value:
        found.append(part)
        yield found


@refused
def appends_after_a_yield_of_something_around(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    around = [found]
    yield around
    found.append(1)


@refused
def appends_what_yield_gives(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    found.append((yield found))


@refused
def appends_when_closed(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    try:
        yield found
    finally:
        found.append(1)


@refused
def appends_when_it_failed(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    try:
        yield found
        found = []
    except ValueError:
        found.append(1)


@refused
def appends_after_output(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    ctx.output(self.tag, found)
    found.append(1)
    return [found]


@refused
def appends_after_output_by_a_helper(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    self.emits_aside(ctx, found)
    found.append(1)
    return [found]


@refused
def appends_after_output_in_a_generator(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    emitting = (ctx.output(self.tag, x) for x in [found])
    for _ in emitting:
        pass
    found.append(1)
    return [found]


@refused
def appends_after_output_by_a_helper_in_a_generator(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    emitting = (self.emits_aside(ctx, x) for x in [found])
    list(emitting)
    found.append(1)
    return [found]


@refused
def appends_after_output_in_a_key(self: Any, value: Any, ctx: Any) -> Any:
    found: list[Any] = []
    sorted([found, found], key=lambda x: ctx.output(LATE, x))
    found.append(1)
    return [found]


@refused
def appends_to_either(self: Any, value: Any, ctx: Any) -> Any:
    found = [] if value else value
    found.append(1)
    yield found


@refused
def appends_to_a_part_of_its_own(self: Any, value: Any, ctx: Any) -> Any:
    found = [value]
    found[0].append(1)
    return found


@refused
def appends_to_a_part_in_a_loop(self: Any, value: Any, ctx: Any) -> Any:
    for part in [value]:
        part.append(1)
    return [value]


@refused
def appends_through_a_helper(self: Any, value: Any, ctx: Any) -> Any:
    self.changes(value)
    yield value


@refused
def appends_through_a_function(self: Any, value: Any, ctx: Any) -> Any:
    appends(value)
    yield value


@refused
def appends_through_a_function_in_an_attribute(self: Any, value: Any, ctx: Any) -> Any:
    self.add_to(value)
    yield value


@refused
def appends_through_a_lambda(self: Any, value: Any, ctx: Any) -> Any:
    yield sorted([value], key=lambda x: x.append(1))


@refused
def appends_through_a_local_function(self: Any, value: Any, ctx: Any) -> Any:
    def add(x: Any) -> None:
        x.append(1)

    add(value)
    yield value


@refused
def appends_in_a_comprehension(self: Any, value: Any, ctx: Any) -> Any:
    yield [x.append(1) for x in [value]]


@refused
def appends_through_a_bound_method(self: Any, value: Any, ctx: Any) -> Any:
    add = value.append
    add(1)
    yield value


@refused
def appends_through_a_key(self: Any, value: Any, ctx: Any) -> Any:
    yield sorted([1], key=value.append)


@refused
def appends_through_the_class(self: Any, value: Any, ctx: Any) -> Any:
    list.append(value, 1)
    yield value


@refused
def appends_by_map(self: Any, value: Any, ctx: Any) -> Any:
    yield list(map(value.append, [1]))


@refused
def sets_by_setattr(self: Any, value: Any, ctx: Any) -> Any:
    setattr(value, "n", 1)  # noqa: B010
    yield value


@refused
def sets_in_its_own_dictionary(self: Any, value: Any, ctx: Any) -> Any:
    self.__dict__["value"] = value
    yield value


@refused
def calls_a_part(self: Any, value: Any, ctx: Any) -> Any:
    yield value[0](1)


@refused
def calls_a_record(self: Any, value: Any, ctx: Any) -> Any:
    yield value(1)


@refused
def attribute_of_a_record(self: Any, value: Any, ctx: Any) -> Any:
    yield value.tags


@refused
def yields_a_live_list(self: Any, value: Any, ctx: Any) -> Any:
    yield self.items.get()
    self.items.add(value)


@refused
def yields_a_live_list_or_not(self: Any, value: Any, ctx: Any) -> Any:
    yield self.items.get() or []


@refused
def yields_a_live_list_within(self: Any, value: Any, ctx: Any) -> Any:
    yield value, self.items.get()


@refused
def returns_a_live_list(self: Any, value: Any, ctx: Any) -> Any:
    return self.items.get()


@refused
def keeps_a_live_list(self: Any, value: Any, ctx: Any) -> Any:
    self.last = self.items.get()
    yield self.last


@refused
def stores_a_live_list(self: Any, value: Any, ctx: Any) -> Any:
    self.value.update(self.items.get())
    yield self.value.value()


@refused
def appends_to_a_live_list(self: Any, value: Any, ctx: Any) -> Any:
    self.items.get().append(1)
    yield value


@refused
def live_list_in_a_cell(self: Any, value: Any, ctx: Any) -> Any:
    found = self.items.get()
    yield sorted([1, 2], key=lambda x: found)


@refused
def live_list_by_type(self: Any, value: Any, ctx: Any) -> Any:
    yield copy.copy(self.items.get())


@refused
def yields_live_values(self: Any, value: Any, ctx: Any) -> Any:
    yield self.table.values()


@refused
def yields_going_through_a_live_list(self: Any, value: Any, ctx: Any) -> Any:
    yield reversed(self.items.get())


@refused
def yields_a_table(self: Any, value: Any, ctx: Any) -> Any:
    yield self.rates


@refused
def yields_a_view_of_a_table(self: Any, value: Any, ctx: Any) -> Any:
    yield value, self.rates.items()


@refused
def yields_a_global_table(self: Any, value: Any, ctx: Any) -> Any:
    yield NAMES


@refused
def table_with_parts_that_change(self: Any, value: Any, ctx: Any) -> Any:
    yield self.nested[0]


@refused
def global_table_with_parts_that_change(self: Any, value: Any, ctx: Any) -> Any:
    yield NESTED["a"]


@refused
def table_of_the_class(self: Any, value: Any, ctx: Any) -> Any:
    yield self.SHARED_BY_CLASS


@refused
def state_in_a_list(self: Any, value: Any, ctx: Any) -> Any:
    yield self.states[0].get()


@refused
def state_as_a_value(self: Any, value: Any, ctx: Any) -> Any:
    yield self.items


@refused
def state_in_a_tuple(self: Any, value: Any, ctx: Any) -> Any:
    for state in (self.items, self.items):
        yield state.get()


@refused
def state_in_an_attribute_that_is_set(self: Any, value: Any, ctx: Any) -> Any:
    self.value.update(value)
    self.value = value


@refused
def unknown_method_of_a_state(self: Any, value: Any, ctx: Any) -> Any:
    yield self.value.peek("k")


@refused
def attribute_of_a_state(self: Any, value: Any, ctx: Any) -> Any:
    yield self.value._table


@refused
def element_of_a_value_state(self: Any, value: Any, ctx: Any) -> Any:
    self.value[0] = 1


@refused
def reduces_in_place(self: Any, value: Any, ctx: Any) -> Any:
    self.bad_sum.add(value)
    yield value


@refused
def aggregates_in_place(self: Any, value: Any, ctx: Any) -> Any:
    self.bad_mean.add(value)
    yield self.bad_mean.get()


@refused
def yields_itself(self: Any, value: Any, ctx: Any) -> Any:
    yield self


@refused
def yields_its_context(self: Any, value: Any, ctx: Any) -> Any:
    yield ctx


@refused
def unknown_method_of_the_context(self: Any, value: Any, ctx: Any) -> Any:
    yield ctx.apply_to_keyed_state(1, 2)


@refused
def attribute_of_the_context(self: Any, value: Any, ctx: Any) -> Any:
    yield ctx._emission


@refused
def context_that_is_replaced(self: Any, value: Any, ctx: Any) -> Any:
    ctx = value
    yield sorted([1], key=lambda x: ctx)
    yield ctx.timer_service()


@refused
def computed_attribute(self: Any, value: Any, ctx: Any) -> Any:
    yield self.computed


@refused
def attribute_that_is_not_there(self: Any, value: Any, ctx: Any) -> Any:
    yield self.not_there


@refused
def attribute_of_an_unknown_class(self: Any, value: Any, ctx: Any) -> Any:
    with self.lock:
        yield value


@refused
def method_of_an_unknown_class(self: Any, value: Any, ctx: Any) -> Any:
    yield self.lock.acquire()


@refused
def class_method(self: Any, value: Any, ctx: Any) -> Any:
    yield self.of_class(value)


@refused
def recursion(self: Any, value: Any, ctx: Any) -> Any:
    yield self.calls_itself(value)


@refused
def hides_a_method(self: Any, value: Any, ctx: Any) -> Any:
    self.plus = value
    yield self.plus(1)


@refused
def deletes_an_attribute(self: Any, value: Any, ctx: Any) -> Any:
    del self.last
    yield value


@refused
def super_method(self: Any, value: Any, ctx: Any) -> Any:
    yield super(Base, self).process_element(value, ctx)


@refused
def sets_a_global(self: Any, value: Any, ctx: Any) -> Any:
    global SHARED
    SHARED = value
    yield value


@refused
def global_that_is_set(self: Any, value: Any, ctx: Any) -> Any:
    yield COUNT


@refused
def global_list(self: Any, value: Any, ctx: Any) -> Any:
    SHARED.append(value)
    yield value


@refused
def unknown_module(self: Any, value: Any, ctx: Any) -> Any:
    yield sys.intern(value[0])


@refused
def imports(self: Any, value: Any, ctx: Any) -> Any:
    import operator

    yield operator.setitem(value, 0, 1)


@refused
def star_call(self: Any, value: Any, ctx: Any) -> Any:
    yield max(*value)


@refused
def variable_of_an_outer_function(self: Any, value: Any, ctx: Any) -> Any:
    n = 0

    def count() -> Any:
        nonlocal n
        n = n + 1
        return n

    yield count()


@refused
def local_function_with_a_default(self: Any, value: Any, ctx: Any) -> Any:
    def keep(x: Any, seen: Any = []) -> Any:  # noqa: B006
        return seen

    yield keep(value)


@refused
def local_class(self: Any, value: Any, ctx: Any) -> Any:
    class Made:
        part = value

    yield Made


@refused
def default_that_can_change(self: Any, value: Any, ctx: Any, seen: Any = []) -> Any:  # noqa: B006
    yield seen


@refused
def constant_default(self: Any, value: Any, ctx: Any, n: int = 1) -> Any:
    yield n  # nothing is wrong with it, but which argument is the context is told by their number


@refused
def any_number_of_arguments(self: Any, *args: Any) -> Any:
    yield args


@refused
async def coroutine(self: Any, value: Any, ctx: Any) -> Any:
    return [value]


@refused
def appends_while_a_generator_emits_what_was_kept(self: Any, value: Any, ctx: Any) -> Any:
    emitting = self.emits_the_last(ctx)
    made: list[Any] = []
    self.last = made
    for _ in emitting:
        break
    made.append(1)
    return []


@refused
def in_place_with_something_that_gives_itself(self: Any, value: Any, ctx: Any) -> Any:
    found = {1}
    found |= value  # value.__ror__ may return value
    found.clear()
    return [found]


@refused
def key_of_a_call_that_may_fail(self: Any, value: Any, ctx: Any) -> Any:
    try:
        yield sorted(value, key=value[0])
    except ValueError:
        yield sorted(value)


@refused
def memo(self: Any, value: Any, ctx: Any) -> Any:
    yield copy.deepcopy(value[0], value[1])


@refused
def in_place_by_request(self: Any, value: Any, ctx: Any) -> Any:
    yield value.replace(1, 2, inplace=True)


@refused
def method_of_a_function(self: Any, value: Any, ctx: Any) -> Any:
    yield twice.get(value)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call = opened(REFUSED[name]).process_element
    assert not changes_nothing(call)
    with pytest.raises(Unproven):
        prove(call)


# The object as a whole.


def sets_the_last(self: Any, value: Any, ctx: Any) -> Any:
    self.last = value
    yield self.last


def test_what_one_method_emits_another_may_change() -> None:
    def on_timer(self: Any, timestamp: int, ctx: Any) -> Any:
        self.last.append(timestamp)
        yield self.last

    assert changes_nothing(opened(sets_the_last).process_element)
    instance = opened(sets_the_last, on_timer=on_timer)
    assert not changes_nothing(instance.process_element)
    assert not changes_nothing(instance.on_timer)


def test_timers_are_proven() -> None:
    def on_timer(self: Any, timestamp: int, context: Any) -> Any:
        context.timer_service().register_event_time_timer(timestamp + 5)
        yield context.get_current_key(), self.value.value(), context.timestamp(), timestamp
        self.value.clear()

    assert changes_nothing(opened(rolling_count, on_timer=on_timer).on_timer)


def test_a_snapshot_may_change_what_was_emitted() -> None:
    class Snapshots(Base, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            self.started = [1]

        def snapshot_state(self, context: Any) -> None:
            self.last.clear()  # type: ignore[attr-defined]

    class Harmless(Snapshots):
        def snapshot_state(self, context: Any) -> None:
            self.items.update([self.last])

    assert not changes_nothing(opened(sets_the_last, Snapshots).process_element)
    assert changes_nothing(opened(sets_the_last, Harmless).process_element)


def test_attributes_that_others_set_may_be_anything() -> None:
    def refreshes(self: Any) -> None:
        self.rates = {}
        self.value = None
        self.count = []

    for reads in (with_tables, rolling_count, counts_in_an_attribute):
        assert changes_nothing(opened(reads).process_element)
        assert not changes_nothing(opened(reads, refreshes=refreshes).process_element)
    assert changes_nothing(opened(yields, refreshes=refreshes).process_element), "it is never called"


def set_from_outside(holder: Any) -> None:
    holder.value = [1]


def test_attributes_that_a_function_outside_sets() -> None:
    def hands_itself_out(self: Any, value: Any, ctx: Any) -> Any:
        set_from_outside(self)
        yield self.value.value()

    assert not changes_nothing(opened(hands_itself_out).process_element)


def test_a_number_that_became_a_list_before() -> None:
    instance = opened(counts_in_an_attribute)
    instance.count = [1]
    assert not changes_nothing(instance.process_element)


def test_a_method_hidden_by_an_attribute() -> None:
    instance = opened(with_helpers)
    assert changes_nothing(instance.process_element)
    instance.plus = appends
    assert not changes_nothing(instance.process_element)


@pytest.mark.parametrize("name", ["__getattribute__", "__setattr__", "__delattr__", "__getattr__"])
def test_classes_that_decide_what_attributes_are(name: str) -> None:
    def own(self: Any, *args: Any) -> Any:
        return getattr(object, name)(self, *args)

    assert not changes_nothing(opened(yields, **{name: own}).process_element)


def test_slots() -> None:
    class Slotted(FlatMapFunction):
        __slots__ = ("count", "last")

        def __init__(self) -> None:
            self.count = 0

        def flat_map(self, value: Any) -> Any:
            self.count += 1
            self.last = value
            yield self.count, self.last

    class Changing(Slotted):
        def flat_map(self, value: Any) -> Any:
            self.last.append(1)
            self.last = value
            yield value

    assert changes_nothing(Slotted().flat_map)
    assert not changes_nothing(Changing().flat_map)


def test_a_state_of_somebody_else() -> None:
    class Mine(ValueState[Any]):
        def value(self) -> Any:
            return SHARED

        def update(self, value: Any) -> None:
            SHARED.append(value)

        def clear(self) -> None:
            SHARED.clear()

    instance = opened(rolling_count)
    instance.value = Mine()
    assert not changes_nothing(instance.process_element)


def test_a_method_under_another_name() -> None:
    instance = opened(yields)
    assert changes_nothing(instance.process_element)
    assert not changes_nothing(types.MethodType(appends_to_what_it_kept, instance))
    assert not changes_nothing(types.MethodType(changes_its_argument, instance))
    instance.on_timer = changes_its_argument
    assert not changes_nothing(instance.process_element)
    instance = opened(yields)
    instance.process_element = changes_its_argument
    assert not changes_nothing(instance.process_element)


# Other functions.


def test_functions_of_two_inputs() -> None:
    class CoMaps(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        def map2(self, value: Any) -> Any:
            value.clear()

    class Both(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(1)
            yield value

        def process_element2(self, value: Any, ctx: Any) -> Any:
            yield ctx.get_current_key()

    class Broadcast(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
        def __init__(self) -> None:
            self.rules = MapStateDescriptor("rules", ANY, ANY)

        def process_element(self, value: Any, ctx: Any) -> Any:
            rule = ctx.get_broadcast_state(self.rules).get(value[0])
            for key, other in ctx.get_broadcast_state(self.rules).items():
                yield rule, key, other, ctx.current_watermark()

        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(self.rules).put(value[0], value)

    class EmitsRules(Broadcast):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield ctx.get_broadcast_state(self.rules).values()

    assert not changes_nothing(CoMaps().map1)
    assert changes_nothing(Both().process_element1)
    assert changes_nothing(Broadcast().process_element)
    assert changes_nothing(Broadcast().process_broadcast_element)
    assert not changes_nothing(EmitsRules().process_element)


def test_window_functions() -> None:
    class Window(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield key, len(elements), context.current_watermark(), sorted(elements)

    class EmitsContents(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield elements

    assert changes_nothing(Window().process)
    assert not changes_nothing(EmitsContents().process)


def test_functions_of_other_kinds() -> None:
    class Maps(MapFunction):
        def map(self, value: Any) -> Any:
            return [value, 1]

    class ChangingMaps(MapFunction):
        def map(self, value: Any) -> Any:
            value["n"] = 1
            return value

    class Plain:
        def map(self, value: Any) -> Any:
            return [value]

        def change(self, value: Any) -> Any:
            value.append(1)

        __call__ = map

    assert changes_nothing(Maps().map)
    assert not changes_nothing(ChangingMaps().map)
    assert changes_nothing(Plain().map)
    assert not changes_nothing(Plain().change)
    assert not changes_nothing(Plain())
    assert not changes_nothing(Plain)
    assert changes_nothing(Sum().add)
    assert not changes_nothing(Gathering().create_accumulator), "add changes what it makes"


def words_of(line: Any) -> Iterator[Any]:
    for word in line.split():
        if word:
            yield word.lower(), 1


def with_cell(n: Any) -> Callable[..., Any]:
    return lambda x: [x, n, n[0]] if n else n


def looking_up(table: Any) -> Callable[..., Any]:
    return lambda x: [table[x], table.get(x)]


def with_counter() -> Callable[..., Any]:
    n = 0

    def count(x: Any) -> Any:
        nonlocal n
        n += 1
        return n

    return count


def not_yet_set() -> Callable[..., Any]:
    def read(x: Any) -> Any:
        return later

    if COUNT < 0:
        later = 1
    return read


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (words_of, True),
        (lambda x: x, True),
        (lambda x: x.append(1), False),
        (lambda x, seen=[]: seen, False),
        (lambda x, n=1: n, True),
        (lambda *xs, **more: [xs, more], True),
        (lambda x: [y for y in x if y > RATE], True),
        (lambda x: twice(x), True),
        (lambda x: appends(x), False),
        (lambda x: COUNT, False),
        (with_cell(1), True),
        (with_cell("text"), True),
        (with_cell((1, ("a",))), True),
        (with_cell([1]), False),
        (looking_up({"a": 1}), True),
        (looking_up({"a": [1]}), False),
        (with_counter(), False),
        (not_yet_set(), False),
        (functools.partial(twice, 1), False),
        (functools.lru_cache(twice), False),
        (len, False),
        (list, False),
        (None, False),
    ],
)
def test_plain_functions(function: Any, expected: bool) -> None:
    assert changes_nothing(function) is expected


def test_assertions() -> None:
    namespace: dict[str, Any] = {}  # pytest rewrites assertions of its own files
    exec("def checks(x):\n  assert x\n  assert x[0] > 0, f'{x}'\n  yield x", namespace)
    assert changes_nothing(namespace["checks"])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x.key, x.count + 1, x.order.id), True),
        (lambda x: [y.key for y in x.parts if y.count > RATE], True),
        (lambda x: sorted(x.parts, key=lambda y: y.count), True),
        (lambda x: x.parts.append(1), False),
        (lambda x: x.process(), False),
        (lambda x: sorted(x, key=x.append), False),
        (lambda x: (x.append)(1), False),
        (lambda x: [x.append][0](1), False),
        (lambda x: x.__dict__, False),
        (lambda x: x.__class__.tags, False),
        (lambda x: NAMES.parts, False),  # type: ignore[attr-defined]
        (lambda x: twice.parts, False),  # type: ignore[attr-defined]
        (lambda x: json.decoder, False),
    ],
)
def test_attributes_of_records(function: Any, expected: bool) -> None:
    assert changes_nothing(function, attributes_are_parts=True) is expected
    assert not changes_nothing(function)


def test_attributes_of_records_in_methods_and_states() -> None:
    class SumOfPrices(Sum):
        def add(self, value: Any, accumulator: Any) -> Any:
            return accumulator + value.price

    class Prices(Base):
        def open(self, runtime_context: Any) -> None:
            super().open(runtime_context)
            self.prices = runtime_context.get_aggregating_state(
                AggregatingStateDescriptor("prices", SumOfPrices(), ANY)
            )

    def adds(self: Any, value: Any, ctx: Any) -> Any:
        self.prices.add(value)
        yield value.id, self.prices.get()

    def sets(self: Any, value: Any, ctx: Any) -> Any:
        value.price += 1
        yield value

    instance = opened(adds, Prices)
    assert not changes_nothing(instance.process_element)
    assert changes_nothing(instance.process_element, attributes_are_parts=True)
    assert not changes_nothing(opened(sets, Prices).process_element, attributes_are_parts=True)


# Functions reach their tasks pickled, by value when their module is not there.


def by_value(text: str, name: str, module: str = "__main__") -> Any:
    """What a program defines, as a task gets it."""
    namespace: dict[str, Any] = {"__name__": module}
    exec(compile(text, "program.py", "exec"), namespace)
    return pickle.loads(cloudpickle.dumps(namespace[name]))


PROGRAM = """
import json, dataclasses, threading
from typing import NamedTuple
from firesteel.common.types import Row
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import KeyedProcessFunction
from firesteel.contracts.state import ValueStateDescriptor

RATE = 3
SEEN = []

class Pair(NamedTuple):
    key: str
    n: int

def helper(x):
    return [x, RATE]

def remember(x):
    SEEN.append(x)
    return x

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def process_element(self, value, ctx):
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        yield json.dumps(value), n, len(value), helper(value), Pair("a", n), Row(n)

class Remember(Count):
    def process_element(self, value, ctx):
        yield remember(value)

count, remembering = Count(), Remember()

def make(n):
    def inner(x):
        for y in x:
            yield helper(y), n, max(y, key=lambda z: z[n])
    return inner

inner = make(3)
outer = lambda x: [remember(x)]
"""


def test_functions_pickled_by_value() -> None:
    backend = HashMapBackend(lambda: 0.0)
    for name, expected in (("count", True), ("remembering", False)):
        instance = by_value(PROGRAM, name)
        instance.open(backend)
        assert changes_nothing(instance.process_element) is expected
    assert changes_nothing(by_value(PROGRAM, "inner"))
    assert changes_nothing(by_value(PROGRAM, "helper"))
    assert not changes_nothing(by_value(PROGRAM, "outer"))


def test_functions_defined_in_functions_pickled_by_value() -> None:
    limit = 3

    class Local(MapFunction):
        def map(self, value: Any) -> Any:
            return [value, limit, json.dumps(value)]

    class Changes(MapFunction):
        def map(self, value: Any) -> Any:
            return value.pop(limit)

    assert changes_nothing(pickle.loads(cloudpickle.dumps(Local())).map)
    assert not changes_nothing(pickle.loads(cloudpickle.dumps(Changes())).map)
    assert changes_nothing(pickle.loads(cloudpickle.dumps(lambda x: [x, limit, len(x)])))


def _around(function: Any, keys: int = 5) -> Any:
    return lambda n: (n % keys, function(n))


def _comprehending(function: Any) -> Any:
    return lambda values: [function(value) for value in values]


def test_functions_in_variables_of_outer_functions_are_looked_at() -> None:
    seen: list[Any] = []

    def keeps(value: Any) -> Any:
        seen.append(value)
        return value

    for around in (_around, _comprehending):
        assert changes_nothing(around(lambda n: n + 1))
        assert not changes_nothing(around(keeps))
        assert not changes_nothing(around(print))
        assert not changes_nothing(around(around(keeps)))
