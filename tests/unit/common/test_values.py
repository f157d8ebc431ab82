"""What nobody can change, and copies of what somebody can."""

from __future__ import annotations

import collections
import copy
import copyreg
import datetime
import decimal
import enum
import threading
import types
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


class NamedAfterAll:
    """What ``copyreg`` knows about it says more than its attributes."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedAfterAll) and other.items == self.items


def _without_the_last(value: NamedAfterAll) -> Any:
    return NamedAfterAll, (value.items[:-1],)


copyreg.pickle(NamedAfterAll, _without_the_last)


@dataclass(frozen=True)
class FrozenDict(dict[str, Any]):
    name: str = "n"


@dataclass(frozen=True)
class FrozenTuple(tuple[Any, ...]):
    name: str = "n"


class PlainSub(Frozen):
    pass


@dataclass(frozen=True)
class FrozenSub(Frozen):
    more: str = ""


class OneSlot:
    __slots__ = "items"
    items: Any


@dataclass(frozen=True)
class FrozenWithSlot(OneSlot):
    number: int = 0


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
    FrozenSub(1, ("a",), "b"),
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


def test_only_the_part_that_cannot_be_copied_is_passed_as_it_is() -> None:
    lock, tags = threading.Lock(), ["a"]
    shapes: list[Any] = [
        {"tags": tags, "lock": lock},
        [lock, tags],
        (tags, [lock]),
        Row(tags=tags, lock=lock),
        Plain([tags, lock]),
        WithSlots([lock, tags]),
        Frozen(1, [lock, tags]),
        FrozenSlotted(1, [lock, tags]),
        collections.deque([lock, tags]),
        collections.defaultdict(list, lock=lock, tags=tags),
    ]
    for shape in shapes:
        copied = private(shape)
        assert copied is not shape
        parts, originals = _deep_parts(copied), _deep_parts(shape)
        assert any(part is lock for part in parts)
        assert ["a"] in parts
        assert not any(part is tags for part in parts)
        assert len(parts) == len(originals)
        assert not is_immutable(shape)
    assert not is_immutable((1, lock))
    assert not is_immutable(Frozen(1, lock))


def _deep_parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, Row | list | tuple | collections.deque):
        inside = list(value)
    else:
        inside = [value.items] if hasattr(value, "items") else []
    return [value, *[deeper for part in inside for deeper in _deep_parts(part)]]


def test_a_copy_of_its_own_that_fails_of_a_part() -> None:
    class Deep(Plain):
        def __deepcopy__(self, memo: Any) -> Deep:
            return Deep(copy.deepcopy(self.items, memo))

    lock = threading.Lock()
    record = Deep([["a"], lock])
    copied = private(record)
    assert copied is not record
    assert copied.items[0] is not record.items[0]
    assert copied.items[1] is lock


def test_a_generator_beside_what_can_be_copied() -> None:
    numbers = (n for n in range(3))
    seen = [1]
    copied = private({"seen": seen, "numbers": numbers})
    seen.append(2)
    assert copied["seen"] == [1]
    assert copied["numbers"] is numbers


def test_views_are_copied() -> None:
    order: Any = {"a": [1]}
    for make in (dict, collections.OrderedDict):
        order = make(a=[1])
        keys, values, items = private((order.keys(), order.values(), order.items()))
        (held,) = private([order.values()])
        order["a"].append(2)
        order["b"] = 3
        assert list(keys) == ["a"]
        assert type(keys) is type({}.keys())
        assert list(values) == [[1]] == list(held)
        assert list(items) == [("a", [1])]
        assert next(iter(values)) is items.mapping["a"], "what is shared within a value stays shared"
    under = {"a": [1]}
    proxy = private(types.MappingProxyType(under))
    under["a"].append(2)
    assert proxy == {"a": [1]}
    assert type(proxy) is types.MappingProxyType
    content = bytearray(8)
    whole, numbers = private((memoryview(content), memoryview(content).cast("i").toreadonly()))
    content[0] = 1
    assert whole[0] == numbers[0] == 0
    assert (numbers.format, numbers.shape, numbers.readonly) == ("i", (2,), True)


@pytest.mark.parametrize("depth", [100, 320, 400, 5000])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: [0, inner],
        lambda inner: {"v": inner},
        lambda inner: (0, inner),
        lambda inner: Row(v=inner),
        lambda inner: Plain(inner),
        lambda inner: WithSlots(inner),
        lambda inner: Frozen(1, inner),
        lambda inner: collections.deque([0, inner]),
    ],
)
def test_however_deep(depth: int, wrap: Any) -> None:
    innermost = ["a"]
    value: Any = innermost
    for _ in range(depth):
        value = wrap(value)
    copied = private(value)
    assert copied is not value
    for _ in range(depth):
        assert copied is not value
        assert type(copied) is type(value)
        copied, value = _last_part(copied), _last_part(value)
    assert copied == ["a"]
    assert copied is not innermost


def _last_part(value: Any) -> Any:
    if isinstance(value, dict):
        return value["v"]
    return value[-1] if isinstance(value, list | tuple | Row | collections.deque) else value.items


def test_deep_and_shared_and_round() -> None:
    innermost: list[Any] = ["a"]
    value: Any = innermost
    for _ in range(2000):
        value = [value, innermost]
    innermost.append(value)
    copied = private(value)
    end = copied[1]
    assert end is not innermost
    assert end[1] is copied
    for _ in range(2000):
        assert copied[1] is end
        copied = copied[0]
    assert copied is end


def test_deep_with_something_that_cannot_be_copied() -> None:
    lock = threading.Lock()
    value: Any = [lock, 0]
    for _ in range(2000):
        value = [0, value]
    copied = private(value)
    for _ in range(2000):
        assert copied is not value
        copied, value = copied[1], value[1]
    assert copied[0] is lock
    assert copied is not value


def test_parts_without_end() -> None:
    class Endless:
        def __reduce__(self) -> Any:
            return Endless, (Endless(),)

    class Itself(Plain):
        def __reduce__(self) -> Any:
            return Itself, ([self],)

    endless = Endless()
    assert private(endless) is endless
    ring = Itself([1])
    assert private(ring).items[0] is ring


def test_classes_registered_with_copyreg() -> None:
    value = NamedAfterAll([["a"], "b"])
    copied = private(value)
    assert copied == copy.deepcopy(value) == NamedAfterAll([["a"]])
    assert copied.items[0] is not value.items[0]
    (again,) = private_all([NamedAfterAll(["a", "b"])])
    assert again.items == ["a"]


def test_a_frozen_class_that_is_a_container() -> None:
    value = FrozenDict("n")
    dict.__setitem__(value, "a", 1)
    copied = private(value)
    assert copied is not value
    assert (type(copied), copied["a"], copied.name) == (FrozenDict, 1, "n")
    assert not is_immutable(value)
    pair = FrozenTuple.__new__(FrozenTuple, ([1],))
    assert private(pair)[0] is not pair[0]


def test_a_frozen_class_and_what_is_not_its_fields() -> None:
    sub: Any = PlainSub(1, "a")
    sub.note = 1
    copied = private(sub)
    sub.note = 2
    assert (type(copied), copied.note, copied.number) == (PlainSub, 1, 1)
    assert not is_immutable(PlainSub(1, "a"))
    slotted = FrozenWithSlot(3)
    object.__setattr__(slotted, "items", ["a"])
    copied = private(slotted)
    assert copied is not slotted
    assert copied == slotted
    assert copied.items == ["a"]
    assert copied.items is not slotted.items


def test_parts_made_for_the_copy_are_not_taken_for_each_other() -> None:
    class Halves:
        def __init__(self, numbers: Any) -> None:
            self.numbers = numbers

        def __reduce__(self) -> Any:
            return list, (), None, ([number] for number in self.numbers)

    assert private([Halves([1, 2]), Halves([3])]) == [[[1], [2]], [[3]]]
