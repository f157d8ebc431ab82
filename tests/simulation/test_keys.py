"""One rule for keys, whatever the parallelism and the operator: what they are, what is refused, who is opened."""

from __future__ import annotations

import enum
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.common.types import Row
from firesteel.datastream.functions import (
    CoMapFunction,
    CoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessWindowFunction,
    RuntimeContext,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import CountTumblingWindowAssigner
from firesteel.testing import simulated_environment

PARALLELISMS = [1, 2, 3]


class Colour(enum.Enum):
    RED = 1


@dataclass
class Mutable:
    """Equal by value, without a hash."""

    number: int


@dataclass(frozen=True)
class Frozen:
    number: int


class Counting(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield repr(ctx.get_current_key()), count


def counted(
    keys: Callable[[Any], Any],
    values: list[Any],
    parallelism: int,
    key_type: Any = None,
    options: dict[str, str] | None = None,
) -> set[Any]:
    env = simulated_environment(parallelism=parallelism, configuration=Configuration.from_dict(options or {}))
    keyed = env.from_collection(values).rebalance().key_by(keys, key_type)
    with keyed.process(Counting()).execute_and_collect() as results:
        return {*results}


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("backend", ["hashmap", "disk"])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: [n, "a"],
        lambda n: {"n": n},
        lambda n: {n},
        lambda n: bytearray([n]),
        lambda n: (n, [n]),
        lambda n: {"deep": [{"n": [n]}]},
        lambda n: Mutable(n),
        lambda n: Frozen(n),
        lambda n: Row(a=n, b="x"),
        lambda n: Row(a=[n]),
        lambda n: (str(n), n),
        lambda n: float(n),
        lambda n: None if n else Colour.RED,
        lambda n: uuid.UUID(int=n),
    ],
)
def test_keys_are_equal_by_value_and_shown_as_they_are(
    make: Callable[[int], Any], parallelism: int, backend: str
) -> None:
    options = {"state.backend.type": backend, "state.backend.disk.cache-entries": "1"}
    expected = {(repr(make(n)), count) for n in (0, 1) for count in (1, 2, 3)}
    assert counted(make, [0, 1, 1, 0, 0, 1], parallelism, options=options) == expected


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize(
    "bad",
    [
        lambda: float("nan"),
        lambda: object(),
        lambda: ("a", float("nan")),
        lambda: [object()],
        lambda: {1: {2: float("nan")}},
    ],
)
def test_what_is_no_key_is_refused_wherever_it_comes(bad: Callable[[], Any], parallelism: int) -> None:
    with pytest.raises(UserCodeError, match="cannot be a key") as caught:
        counted(lambda n: bad() if n == 3 else n, [1, 2, 3, 4], parallelism)
    assert caught.value.record == "3"


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_what_is_no_key_is_refused_when_nobody_asks_for_the_key(parallelism: int) -> None:
    env = simulated_environment(parallelism=parallelism)
    env.from_collection([1, 2, 3]).key_by(lambda n: object() if n == 3 else n).map(lambda n: n).print()
    with pytest.raises(UserCodeError, match="cannot be a key") as caught:
        env.execute()
    assert caught.value.record == "3"


def test_a_key_is_private() -> None:
    """Changing the record, or the key that was shown, changes nothing of what state knows."""

    class Spoiling(Counting):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield from super().process_element(value, ctx)
            ctx.get_current_key().append("spoiled")
            value.append("spoiled")

    env = simulated_environment(parallelism=1)
    stream = env.from_collection([[1], [1], [2], [1]]).key_by(lambda value: value).process(Spoiling())
    with stream.execute_and_collect() as results:
        assert [*results] == [("[1]", 1), ("[1]", 2), ("[2]", 1), ("[1]", 3)]


# Types of keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize(
    ("key_type", "keys", "expected"),
    [
        (Types.DOUBLE(), [1, 1.0, 2], {("1.0", 1), ("1.0", 2), ("2.0", 1)}),
        (Types.BOOLEAN(), [1, 0, 2], {("True", 1), ("False", 1), ("True", 2)}),
        (Types.INT(), [1.0, 1.5, 2], {("1", 1), ("1", 2), ("2", 1)}),
        (Types.LONG(), [1, True, 1.0], {("1", 1), ("1", 2), ("1", 3)}),
        (Types.FLOAT(), [0.1], {("0.10000000149011612", 1)}),
        (Types.INT(), [None], {("None", 1)}),
        (Types.LIST(Types.INT()), [[1, 2], [1, 2]], {("[1, 2]", 1), ("[1, 2]", 2)}),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}], {("{'a': 1}", 1)}),
        (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), (1.0, "a")], {("(1, 'a')", 1), ("(1, 'a')", 2)}),
        (Types.ROW([Types.INT()]), [Row(1), Row(1)], {("Row(f0=1)", 1), ("Row(f0=1)", 2)}),
        (Types.ROW_NAMED(["p"], [Types.DOUBLE()]), [Row(1)], {("Row(p=1.0)", 1)}),
    ],
)  # fmt: skip
def test_keys_have_the_declared_type(key_type: Any, keys: list[Any], expected: Any, parallelism: int) -> None:
    assert counted(lambda n: keys[n], [*range(len(keys))], parallelism, key_type) == expected


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_keys_of_another_type_than_declared_are_refused(parallelism: int) -> None:
    with pytest.raises(
        UserCodeError, match=r"declared type: key: expected Integer, got 'a' \(str\)"
    ) as caught:
        counted(lambda n: "a" if n == 2 else n, [0, 1, 2], parallelism, Types.INT())
    assert caught.value.record == "2"


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_a_window_function_sees_the_key_as_it_is(parallelism: int) -> None:
    class Shown(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
            yield repr(key), sorted(elements)

    env = simulated_environment(parallelism=parallelism)
    keyed = env.from_collection([1, 2, 3, 4]).key_by(lambda n: [n % 2])
    with keyed.window(CountTumblingWindowAssigner.of(2)).process(Shown()).execute_and_collect() as results:
        assert dict(results) == {"[0]": [2, 4], "[1]": [1, 3]}


# Life of selectors and partitioners ------------------------------------------------------------------------

EVENTS: Counter[Any] = Counter()


class Opened(KeySelector):
    def __init__(self, name: str) -> None:
        self.name = name
        self.divisor = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        EVENTS[self.name, "open", runtime_context.get_index_of_this_subtask()] += 1
        self.divisor = 2

    def get_key(self, value: int) -> int:
        return value % self.divisor

    def close(self) -> None:
        EVENTS[self.name, "close"] += 1


class OpenedPartitioner(Partitioner):
    def open(self, runtime_context: RuntimeContext) -> None:
        EVENTS["partitioner", "open", runtime_context.get_index_of_this_subtask()] += 1
        self.offset = 0

    def partition(self, key: int, num_partitions: int) -> int:
        return (key + self.offset) % num_partitions

    def close(self) -> None:
        EVENTS["partitioner", "close"] += 1


class Last(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.last.update(value)
        return value


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    map2 = map1


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "use",
    [
        lambda numbers: numbers.key_by(Opened("a")).reduce(lambda a, b: b),
        lambda numbers: numbers.key_by(Opened("a")).map(lambda n: n),
        lambda numbers: numbers.key_by(Opened("a")).map(Last()),
        lambda numbers: numbers.key_by(Opened("a")).process(Counting()),
        lambda numbers: numbers.key_by(Opened("a"), Opened("a")).process(Counting()),
        lambda numbers: numbers.key_by(Opened("a")).map_with_state(lambda n, s: (n, n)),
        lambda numbers: numbers.key_by(Opened("a")).count_window(2).reduce(lambda a, b: b),
        lambda numbers: numbers.connect(numbers).key_by(Opened("a"), Opened("a")).map(Both()),
        lambda numbers: numbers.join(numbers).where(Opened("a")).equal_to(Opened("a"))
        .window(CountTumblingWindowAssigner.of(2)).apply(lambda a, b: a),
        lambda numbers: numbers.co_group(numbers).where(Opened("a")).equal_to(Opened("a"))
        .window(CountTumblingWindowAssigner.of(2)).apply(lambda a, b: a),
        lambda numbers: numbers.partition_custom(OpenedPartitioner(), Opened("a")).map(lambda n: n),
    ],
)  # fmt: skip
def test_selectors_are_opened_before_they_are_asked_and_closed_once(use: Any, parallelism: int) -> None:
    EVENTS.clear()
    env = simulated_environment(parallelism=parallelism)
    stream = use(env.from_collection([1, 2, 3, 4]).map(lambda n: n, output_type=Types.INT()).rebalance())
    with stream.execute_and_collect() as results:
        list(results)
    for name in {event[0] for event in EVENTS}:
        opened = sum(count for event, count in EVENTS.items() if event[:2] == (name, "open"))
        assert opened == EVENTS[name, "close"] >= parallelism
        assert {event[2] for event in EVENTS if event[:2] == (name, "open")} == {*range(parallelism)}
    assert EVENTS["a", "close"]


def test_a_selector_has_no_state() -> None:
    class Greedy(KeySelector):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("mine", Types.LONG()))

        def get_key(self, value: int) -> int:
            return value

    env = simulated_environment()
    env.from_collection([1]).key_by(Greedy()).process(Counting()).print()
    with pytest.raises(UserCodeError, match="its input has no keys"):
        env.execute()


# Two streams, of which one has keys ------------------------------------------------------------------------


class Plain(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 1, value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 2, value


class WithState(Plain):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("state", Types.LONG()))


class WithTimer(Plain):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(5)
        yield 1, value


MIXTURES = {
    "first keyed": lambda numbers: numbers.key_by(lambda n: n).connect(numbers),
    "second keyed": lambda numbers: numbers.connect(numbers.key_by(lambda n: n)),
    "second broadcast": lambda numbers: numbers.key_by(lambda n: n).connect(numbers.broadcast()),
}


@pytest.mark.parametrize("mixture", MIXTURES)
def test_one_keyed_stream_alone_gives_no_keyed_operator(mixture: str) -> None:
    env = simulated_environment(parallelism=1)
    connected: Any = MIXTURES[mixture](env.from_collection([7, 8]))
    with connected.process(Plain()).execute_and_collect() as results:
        assert sorted(results) == [(1, 7), (1, 8), (2, 7), (2, 8)]


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize(
    ("function", "why"), [(WithState(), r"on both.*broadcast\(descriptor\)"), (WithTimer(), "key_by")]
)
def test_state_and_timers_need_keys_on_both_sides(mixture: str, function: Any, why: str) -> None:
    env = simulated_environment(parallelism=1)
    connected: Any = MIXTURES[mixture](env.from_collection([7, 8]))
    connected.process(function).print()
    with pytest.raises(UserCodeError, match=f"(?s){why}"):
        env.execute()


def test_a_timer_without_on_timer_is_explained() -> None:
    env = simulated_environment(parallelism=1)
    numbers = env.from_collection([7, 8])
    numbers.connect(numbers).key_by(lambda n: n, lambda n: n).process(WithTimer()).print()
    with pytest.raises(UserCodeError, match=r"a timer fired, but .*WithTimer.* has no on_timer\(\)"):
        env.execute()
