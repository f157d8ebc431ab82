"""What nobody can change, and copies of what somebody can."""

from __future__ import annotations

import collections
import copy
import datetime
import decimal
import enum
import threading
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from firesteel.common._values import is_immutable, private, private_all
from firesteel.common.types import Row, RowKind


class Colour(enum.Enum):
    RED = [1]


class Point(NamedTuple):
    x: int
    tags: Any = ()


@dataclass
class Order:
    number: int
    items: Any


@dataclass(frozen=True)
class Frozen:
    number: int
    items: Any


@dataclass(slots=True)
class Slotted:
    number: int
    items: Any


@dataclass(frozen=True, slots=True)
class FrozenSlotted:
    number: int
    items: Any


class Plain:
    def __init__(self, items: Any) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.items == self.items


class WithSlots:
    __slots__ = ("items",)

    def __init__(self, items: Any) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithSlots) and other.items == self.items


class OwnCopy(Plain):
    def __deepcopy__(self, memo: Any) -> OwnCopy:
        return OwnCopy(["own"])


class OwnList(list[Any]):
    pass


class Stated(Plain):
    def __getstate__(self) -> Any:
        return {"items": [*self.items, "stated"]}


IMMUTABLE = [
    0,
    "a",
    b"a",
    None,
    1.5,
    (1, ("a", b"b")),
    frozenset({1, (2, 3)}),
    datetime.datetime(2020, 1, 1),
    decimal.Decimal("1.5"),
    Colour.RED,
    RowKind.DELETE,
    Point(1, ("a",)),
    Frozen(1, ("a",)),
    FrozenSlotted(1, "a"),
    Order,
    len,
    object(),
]


@pytest.mark.parametrize("value", IMMUTABLE, ids=lambda value: type(value).__name__)
def test_what_cannot_change_is_given_back(value: Any) -> None:
    assert private(value) is value
    assert is_immutable(value)
    assert private_all([value])[0] is value


SHAPES = [
    lambda: [1, 2],
    lambda: {"a": 1},
    lambda: {"a": {"b": [1]}},
    lambda: {1, 2},
    lambda: bytearray(b"abc"),
    lambda: array("i", [1, 2]),
    lambda: ("a", [1]),
    lambda: (1, (2, {"a": []})),
    lambda: Row(1, "a"),
    lambda: Row(name="a", tags=["b"]),
    lambda: Row.of_kind(RowKind.DELETE, 1, [2]),
    lambda: Order(1, ["a"]),
    lambda: Order(1, "a"),
    lambda: Frozen(1, ["a"]),
    lambda: Slotted(1, ["a"]),
    lambda: FrozenSlotted(1, ["a"]),
    lambda: Point(1, ["a"]),
    lambda: Plain(["a"]),
    lambda: WithSlots(["a"]),
    lambda: collections.deque([1, [2]]),
    lambda: collections.OrderedDict(a=[1]),
    lambda: collections.defaultdict(list, a=[1]),
    lambda: collections.Counter("aab"),
    lambda: OwnList([1, [2]]),
]


@pytest.mark.parametrize("make", SHAPES)
def test_what_can_change_is_copied_through_and_through(make: Any) -> None:
    value, expected = make(), make()
    copied = private(value)
    assert copied is not value
    assert type(copied) is type(value)
    assert copied == value == expected
    assert not is_immutable(value)
    assert not _shared(value, copied), "they share something that can change"
    (again,) = private_all([value])
    assert again == expected
    assert again is not value


def _shared(first: Any, second: Any) -> bool:
    """Whether something that can change is in both, looked for in all ways that the shapes above have."""
    mutable = {id(part) for part in _parts(first)}
    return any(id(part) in mutable for part in _parts(second))


def _parts(value: Any) -> list[Any]:
    found = [] if private(value) is value else [value]
    inside: list[Any] = []
    if isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset | collections.deque):
        inside = list(value)
    elif isinstance(value, Row):
        inside = list(value._values)
    for name in ("items", "tags"):
        held = getattr(value, name, None)
        if not isinstance(value, dict) and held is not None and not callable(held):
            inside.append(held)
    # A tuple is copied only for what is in it, so two may be different objects or not.
    mutable = [part for part in found if not isinstance(part, tuple)]
    return mutable + [deeper for part in inside for deeper in _parts(part)]


def test_sharing_within_a_value_stays() -> None:
    tags = ["a"]
    first, second = private((tags, {"tags": tags}))
    assert first is second["tags"]
    assert first is not tags


def test_cycles_stay() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    copied = private(ring)
    assert copied is not ring
    assert copied[1] is copied
    node = Plain([])
    node.items.append(node)
    assert private(node).items[0] is not node


def test_records_that_share_something_share_nothing_afterwards() -> None:
    tags = ["a"]
    first, second = private_all([(1, tags), (2, tags)])
    assert first[1] is not second[1]


def test_what_cannot_be_copied_is_given_back() -> None:
    lock = threading.Lock()
    assert private(lock) is lock
    record = (1, lock)
    assert private(record)[1] is lock
    assert not is_immutable(lock)


def test_a_class_that_says_how_it_is_copied() -> None:
    assert private(OwnCopy(["a"])).items == ["own"]
    assert private(Stated(["a"])).items == copy.deepcopy(Stated(["a"])).items == ["a", "stated"]


def test_what_an_iterator_gives_is_copied_before_the_next() -> None:
    def reused() -> Any:
        record: dict[str, int] = {}
        for n in range(3):
            record["n"] = n
            yield record

    assert private_all(reused()) == [{"n": 0}, {"n": 1}, {"n": 2}]
