"""What is written to disk comes back as it was, with the same types all the way down."""

from __future__ import annotations

import array
import collections
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from firesteel.state.cached.records import (
    has_several,
    merge_record,
    read_record,
    read_rows,
    record_keys_of,
    write_records,
)


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    pass


class Pair(NamedTuple):
    a: int
    b: Any


@dataclass
class Account:
    owner: str
    amounts: list[int]


DEEP: Any = 7
for _ in range(20):
    DEEP = [DEEP]

VALUES = [
    None,
    True,
    -(2**100),
    0.1,
    float("inf"),
    "tea \ud800 \N{HOT BEVERAGE}",
    b"bytes",
    bytearray(b"no bytes"),
    [1, bytearray(b"no bytes")],
    {"a": bytearray(b"no bytes")},
    [{"a": [bytearray(b"no bytes")]}],
    array.array("i", [1, 2]),
    (1, "a", None),
    [1, [2, (3, {"a": [4]})]],
    {"a": 1, (1, 2): [3]},
    {1, 2},
    frozenset((1, 2)),  # of numbers, because the order of strings differs from process to process
    collections.OrderedDict(b=1, a=2),
    collections.Counter("tea"),
    collections.deque([1], maxlen=2),
    Colour.RED,
    [Colour.RED],
    {"colour": Colour.RED},
    {Colour.RED: 1},
    Name("Ada"),
    (1, Name("Ada")),
    Pair(1, [bytearray(b"x")]),
    [Pair(1, 2)],
    Account("Ada", [1, 2]),
    DEEP,
    range(3),
    1 + 2j,
]


def shape(value: Any) -> Any:
    """The types of a value and of all that is in it."""
    if isinstance(value, dict):
        return type(value), [(shape(k), shape(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return type(value), [shape(each) for each in value]
    return type(value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_of_any_type_come_back_as_they_were(value: Any) -> None:
    row = ("key", 0, value)
    for rows in ([row], [row, ("other", 0, 1), ("third", 1, "x", 2, [1.5])]):
        again = read_rows(write_records(rows))
        assert again == rows
        assert [shape(each) for each in again] == [shape(each) for each in rows]


@pytest.mark.parametrize("others", [0, 5])
@pytest.mark.parametrize("value", [lambda part: [part, part], lambda part: {"a": part, "b": [1, (part,)]}])
def test_what_is_in_a_value_twice_is_still_one_object(value: Callable[[Any], Any], others: int) -> None:
    rows = [(n, 0, value([n])) for n in range(others + 1)]
    for _, _, again in read_rows(write_records(rows)):
        first, second = again if isinstance(again, list) else (again["a"], again["b"][1][0])
        assert first is second


def test_a_list_that_contains_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    ((_, _, again),) = read_rows(write_records([("key", 0, loop)]))
    assert again[1] is again


def test_an_array_of_numpy_is_not_taken_for_bytes() -> None:
    numpy = pytest.importorskip("numpy")
    for value in (numpy.arange(3), numpy.int64(3), numpy.float64(0.5)):
        ((_, _, again),) = read_rows(write_records([("key", 0, value)]))
        assert type(again) is type(value)
        assert (again == value).all()


def test_equal_keys_have_the_same_record_key() -> None:
    assert record_keys_of([1, 1.0, True]) == record_keys_of([1]) * 3
    assert len(set(record_keys_of([1, 2, "a", ("a", 1), -1]))) == 5


def test_keys_that_share_a_record() -> None:
    one = merge_record(None, (-1, 0, "one"))
    assert one is not None
    assert not has_several(one)
    both = merge_record(one, (-2, 0, "two"))
    assert both is not None
    assert has_several(both)
    assert read_rows([both]) == [()]
    changed = merge_record(both, (-1, 0, "uno", 1, 3))
    assert changed is not None
    assert sorted(read_record(changed)) == [(-2, 0, "two"), (-1, 0, "uno", 1, 3)]
    left = merge_record(changed, (-2,))
    assert left is not None
    assert read_record(left) == [(-1, 0, "uno", 1, 3)]
    assert merge_record(left, (-1,)) is None
