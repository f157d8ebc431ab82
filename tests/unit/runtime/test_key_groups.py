"""Keys are placed by value: the same in every process and release, equal for equal keys of any type."""

from __future__ import annotations

import datetime
import enum
import os
import subprocess
import sys
import uuid
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from firesteel.common.errors import InvalidKeyError
from firesteel.common.types import Row
from firesteel.plan.key_groups import (
    KeyAssignment,
    default_max_parallelism,
    groups_of_subtask,
    key_group_of,
    stable_hash,
    subtask_of_group,
)

UTC = datetime.UTC
PLUS_TWO = datetime.timezone(datetime.timedelta(hours=2))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Word(enum.StrEnum):
    HELLO = "hello"


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Point:
    x: int
    y: str


@dataclass
class Mutable:
    x: int


@dataclass(eq=False)
class Identity:
    x: int


Pair = namedtuple("Pair", "first second")

# Changing any of these numbers makes the state of existing jobs unreadable: keys would move to other groups.
GOLDEN: list[tuple[Any, int]] = [
    (0, 0),
    (1, 885181228),
    (-1, 1817550891),
    (2**64 + 1, 4160025045),
    (1.5, 1598627023),
    ("", 1818611187),
    ("hello", 572851017),
    ("Zürich", 3545466724),
    (b"bytes", 1874343814),
    (None, 2032109167),
    (True, 885181228),
    (("user", 42), 4032991986),
    ((("a", 1), None), 2806921494),
    (Row(name="Alice", age=11), 463195924),
    (Colour.RED, 36852863),
    (Point(1, "a"), 1618963829),
    (datetime.date(2024, 2, 29), 2867808711),
    (datetime.datetime(2024, 2, 29, 12, 30, 1, 5), 3015875086),
    (datetime.datetime(2024, 2, 29, 12, tzinfo=PLUS_TWO), 975130294),
    (datetime.timedelta(days=1, seconds=2), 1350591472),
    (uuid.UUID(int=7), 287056544),
    (frozenset({"a", "b"}), 3755576904),
]


@pytest.mark.parametrize(
    ("key", "expected"),
    GOLDEN,
    ids=[f"{number} {type(key).__name__}" for number, (key, _) in enumerate(GOLDEN)],
)
def test_hash_never_changes(key: Any, expected: int) -> None:
    assert stable_hash(key) == expected


EQUAL = [
    (1, 1.0, True, Decimal(1), Fraction(1), complex(1), Level.LOW),
    (0, -0.0, False, Decimal("-0")),
    (2**70, float(2**70), Decimal(2**70)),
    (0.5, Decimal("0.5"), Fraction(1, 2)),
    ("hello", Word.HELLO),
    (b"ab", memoryview(b"ab")),
    ((1, "a"), (1.0, "a"), Pair(1, "a"), (True, Word("hello").replace("hello", "a"))),
    (
        datetime.datetime(2024, 1, 1, 12, tzinfo=UTC),
        datetime.datetime(2024, 1, 1, 14, tzinfo=PLUS_TWO),
    ),
    (datetime.time(12, tzinfo=UTC), datetime.time(14, tzinfo=PLUS_TWO)),
    (datetime.timedelta(hours=24), datetime.timedelta(days=1)),
    (frozenset({1, 2}), frozenset({2.0, 1})),
    (Row(a=1), Row(a=1.0)),
]


@pytest.mark.parametrize("keys", EQUAL, ids=lambda keys: repr(keys[0]))
def test_equal_keys_have_equal_hashes(keys: tuple[Any, ...]) -> None:
    assert all(key == keys[0] for key in keys)
    assert {stable_hash(key) for key in keys} == {stable_hash(keys[0])}


def test_numpy_scalars_hash_as_the_numbers_they_equal() -> None:
    numpy = pytest.importorskip("numpy")
    for scalar, plain in [
        (numpy.int64(5), 5),
        (numpy.int8(-1), -1),
        (numpy.uint64(2**63), 2**63),
        (numpy.float64(0.5), 0.5),
        (numpy.float32(0.5), 0.5),
        (numpy.bool_(True), True),
        (numpy.str_("abc"), "abc"),
        (numpy.bytes_(b"abc"), b"abc"),
    ]:
        assert scalar == plain
        assert stable_hash(scalar) == stable_hash(plain), scalar


def test_different_keys_mostly_have_different_hashes() -> None:
    keys: list[Any] = [*range(2000), *map(str, range(2000)), *[(i, i + 1) for i in range(2000)]]
    assert len({stable_hash(key) for key in keys}) > 0.999 * len(keys)


def test_order_and_type_of_parts_count() -> None:
    assert stable_hash(("a", "b")) != stable_hash(("b", "a"))
    assert stable_hash(("ab",)) != stable_hash(("a", "b"))
    assert stable_hash("1") != stable_hash(1)
    assert stable_hash("a") != stable_hash(b"a")
    assert stable_hash(()) != stable_hash(((),))


def test_hashes_do_not_depend_on_the_process() -> None:
    program = (
        "from firesteel.plan.key_groups import stable_hash\n"
        "print([stable_hash(k) for k in ('abc', ('a', 1, None), frozenset({'x', 'y', 'z'}), b'q', 2.5)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("0", "1", "4242")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    "key", [float("nan"), Decimal("nan"), object(), [1], {"a": 1}, Mutable(1), Identity(1), (1, [2])]
)
def test_a_key_without_a_stable_hash_is_refused_with_a_remedy(key: Any) -> None:
    with pytest.raises(InvalidKeyError, match=r"cannot be a key.*key selector"):
        stable_hash(key)


# Groups and subtasks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism"), [(1, 1), (1, 128), (3, 128), (7, 7), (5, 6), (128, 128), (100, 32768)]
)
def test_ranges_partition_the_groups(parallelism: int, max_parallelism: int) -> None:
    ranges = [groups_of_subtask(subtask, max_parallelism, parallelism) for subtask in range(parallelism)]
    assert [group for groups in ranges for group in groups] == list(range(max_parallelism))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1
    for subtask, groups in enumerate(ranges):
        assert {subtask_of_group(group, max_parallelism, parallelism) for group in groups} <= {subtask}


def test_default_max_parallelism_is_a_power_of_two_with_room_to_grow() -> None:
    assert default_max_parallelism(1) == 128
    assert default_max_parallelism(85) == 128
    assert default_max_parallelism(86) == 256
    assert default_max_parallelism(30000) == 32768


def test_keys_spread_evenly_over_subtasks() -> None:
    counts = [0] * 4
    placement = KeyAssignment(128, 4)
    for number in range(4000):
        counts[placement[number]] += 1
    assert min(counts) > 800


def test_placement_agrees_with_the_hash_and_forgets_old_keys() -> None:
    placement = KeyAssignment(128, 3, limit=10)
    for key in map(str, range(100)):
        assert placement[key] == subtask_of_group(key_group_of(key, 128), 128, 3)
        assert len(placement) <= 10
