"""What is proven of functions holds for classes that leave operators alone; records of other classes are protected."""

from __future__ import annotations

import collections
import datetime
import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from firesteel.common import Configuration, Row, Types, _values
from firesteel.datastream import KeyedCoProcessFunction, KeyedProcessFunction, ReduceFunction
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.runtime.changes_nothing import changes_nothing
from firesteel.runtime.harmless import _Noticed, are_as_usual, is_as_usual, meets_unusual, notice
from firesteel.runtime.keeps_nothing import keeps_nothing
from firesteel.testing import simulated_environment


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int

    def length(self) -> int:
        return self.x + self.y


@dataclass(order=True)
class Order:
    number: int
    items: Any = ()

    def total(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return f"order {self.number}"


@dataclass(frozen=True, slots=True)
class Frozen:
    number: int


class Numbers(list[int]):
    pass


class Plain:
    def __init__(self, n: int) -> None:
        self.n = n


USUAL: list[Any] = [
    1,
    "a",
    (1, 2),
    [1],
    {"a": 1},
    Row(1),
    datetime.date(2020, 1, 1),
    collections.deque([1]),
    collections.OrderedDict(a=1),
    collections.Counter("a"),
    Colour.RED,
    Point(1, 2),
    collections.namedtuple("Pair", "a b")(1, 2),  # type: ignore[call-arg]
    Order(1),
    Frozen(1),
    Numbers([1]),
    Plain(1),
]


@pytest.mark.parametrize("value", USUAL, ids=lambda value: type(value).__name__)
def test_classes_that_define_nothing_that_matters(value: Any) -> None:
    assert is_as_usual(type(value))
    assert are_as_usual([value, value])
    assert are_as_usual([value, 1, "a"])
    assert are_as_usual([])


class Stats:
    """Adding works in place."""

    def __init__(self, n: int) -> None:
        self.all = [n]

    def __add__(self, other: Any) -> Stats:
        self.all += other.all
        return self

    def __repr__(self) -> str:
        return f"Stats{self.all}"


class SubStats(Stats):
    pass


@dataclass
class DataStats:
    all: list[int] = field(default_factory=list)

    def __add__(self, n: Any) -> DataStats:
        self.all.append(n)
        return self


class TupleStats(NamedTuple):
    all: Any

    def get(self, name: str) -> Any:
        return self.all


class Pool:
    shared: list[int] = []

    def __init__(self, n: int) -> None:
        self.n = n

    def get(self, name: str) -> list[int]:
        self.shared.append(self.n)
        return self.shared


class Basket:
    last: Any = None

    def __init__(self, n: int) -> None:
        self.parts: list[str] = []

    def update(self, n: int) -> Basket:
        if Basket.last is not None:
            Basket.last.parts.append("next")
        Basket.last = self
        return self


class AnswersAll:
    def __getattr__(self, name: str) -> Any:
        return Pool.shared.append


class Computed:
    @property
    def copy(self) -> Any:
        return Pool.shared.copy


UNUSUAL = [
    Stats(1),
    SubStats(1),
    DataStats(),
    TupleStats(1),
    Pool(1),
    Basket(1),
    AnswersAll(),
    Computed(),
]


@pytest.mark.parametrize("value", UNUSUAL, ids=lambda value: type(value).__name__)
def test_classes_that_define_what_the_proofs_believe_to_know(value: Any) -> None:
    kind = type(value)
    assert not is_as_usual(kind)
    assert not are_as_usual([value])
    assert not are_as_usual([1, value])
    assert not keeps_nothing(lambda x: {"n": x}, kind)


def test_functions_that_make_objects_of_such_classes_are_not_proven() -> None:
    assert keeps_nothing(lambda n: Order(n))
    assert not keeps_nothing(lambda n: DataStats([n]))
    assert changes_nothing(lambda n: Frozen(n))
    assert not changes_nothing(lambda n: TupleStats([n]))


class Total(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        old = self.total.value()
        new = value if old is None else old + value
        self.total.update(new)
        yield new


class TotalOfBoth(KeyedCoProcessFunction):
    """What the first input puts there, the second one changes, and its own records are numbers."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.total.update(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        old = self.total.value()
        if old is not None:
            new = old + value
            self.total.update(new)
            yield new


class Summed(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


@pytest.fixture(autouse=True)
def nothing_met(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What tests do with these classes is new to the process, and forgotten afterwards."""
    before = len(_values.MET)
    monkeypatch.setattr(_Noticed, "unusual", False)
    monkeypatch.setattr(_Noticed, "looked_at", before)
    yield
    for kind in _values.MET[before:]:
        del _values._COPIERS[kind]
    del _values.MET[before:]


def test_classes_are_met_when_something_is_copied_or_comes_from_elsewhere() -> None:
    _values.private([("a", Order(1))])
    notice([Order(1), 2])
    assert not meets_unusual()
    _values.private(("a", {"total": Stats(1)}))
    assert meets_unusual()
    assert meets_unusual()
    _Noticed.unusual = False
    assert not meets_unusual()
    notice([1, Pool(1)])
    assert meets_unusual()


@pytest.fixture(params=["1", "7", "1024"])
def env(request: pytest.FixtureRequest) -> Any:
    chunks = {"firesteel.chunk.records": request.param, "firesteel.source.batch": request.param}
    return simulated_environment(parallelism=1, configuration=Configuration.from_dict(chunks))


GROWING = "Stats[1]\nStats[1, 2]\nStats[1, 2, 3]\n"


def test_an_addition_that_works_in_place(env: Any, capsys: pytest.CaptureFixture[str]) -> None:
    env.from_collection([1, 2, 3]).map(lambda n: Stats(n)).key_by(lambda s: "all").process(Total()).print()
    env.execute()
    assert capsys.readouterr().out == GROWING


def test_within_other_records(env: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = env.from_collection([1, 2, 3]).map(lambda n: ("a", {"stats": Stats(n)}))
    pairs.map(lambda pair: pair[1]["stats"]).key_by(lambda s: "all").process(Total()).print()
    env.execute()
    assert capsys.readouterr().out == GROWING


def test_in_a_reduce(env: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stats = env.from_collection([1, 2, 3]).map(lambda n: Stats(n))
    stats.key_by(lambda s: "all").reduce(Summed()).print()
    env.execute()
    assert capsys.readouterr().out == GROWING


def test_among_other_records(env: Any, capsys: pytest.CaptureFixture[str]) -> None:
    mixed = env.from_collection([0, 1, 2, 3]).map(lambda n: Stats(n) if n else "text")
    mixed.key_by(lambda s: str(type(s))).process(Total()).print()
    env.execute()
    assert capsys.readouterr().out == "text\n" + GROWING


class Counted:
    def __init__(self) -> None:
        self.all: list[int] = []

    def __add__(self, n: int) -> Counted:
        self.all.append(n)
        return self

    def __repr__(self) -> str:
        return f"{self.all}"


def test_what_came_by_another_input(env: Any, capsys: pytest.CaptureFixture[str]) -> None:
    env.set_buffer_timeout(0)
    counted = env.from_collection([0]).map(lambda n: Counted()).key_by(lambda s: 0)
    numbers = env.from_collection(list(range(50))).map(lambda n: n).key_by(lambda n: 0)
    counted.connect(numbers).process(TotalOfBoth()).print()
    env.execute()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(set(lines))


def test_what_a_method_shares(env: Any) -> None:
    Pool.shared.clear()
    pools = env.from_collection([1, 2, 3]).map(lambda n: Pool(n)).map(lambda pool: pool.get("x"))
    assert list(pools.execute_and_collect()) == [[1], [1, 2], [1, 2, 3]]
    Pool.shared.clear()
    pools = env.from_collection([1, 2, 3]).map(lambda n: Pool(n)).flat_map(lambda pool: [pool.get("x")])
    assert list(pools.execute_and_collect()) == [[1], [1, 2], [1, 2, 3]]


def test_what_a_method_changes_elsewhere(env: Any) -> None:
    Basket.last = None
    baskets = env.from_collection([1, 2, 3]).map(lambda n: Basket(n)).map(lambda basket: basket.update(1))
    assert list(baskets.map(lambda basket: basket.parts).execute_and_collect()) == [[], [], []]
