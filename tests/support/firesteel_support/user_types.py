"""Types that users have, and strategies for their values: for property tests of keys, state, wire and formats."""

from __future__ import annotations

import datetime
import enum
import uuid
import zoneinfo
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import numpy as np
from hypothesis import strategies as st

__all__ = [
    "Address",
    "Color",
    "Everything",
    "Flat",
    "Level",
    "Point",
    "Reading",
    "Size",
    "everything",
    "keys_of_users",
    "readings",
]

_ZONES = [zoneinfo.ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(enum.StrEnum):
    SMALL = "small"
    LARGE = "large"


class Point(NamedTuple):
    x: int
    y: float = 0.0


@dataclass(frozen=True)
class Address:
    street: str
    number: int | None = None


@dataclass(frozen=True)
class Everything:
    """A record with a field of every type; frozen, and so a key, too."""

    number: int
    ratio: float
    flag: bool
    text: str
    data: bytes
    price: Decimal
    at: datetime.datetime
    day: datetime.date
    clock: datetime.time
    length: datetime.timedelta
    id: uuid.UUID
    color: Color
    level: Level
    size: Size
    address: Address
    count: np.int64
    share: np.float64
    maybe: int | None = None
    home: Address | None = None


@dataclass
class Flat:
    """The types that fit one field of CSV."""

    number: int
    ratio: float
    flag: bool
    text: str
    data: bytes
    price: Decimal
    at: datetime.datetime
    day: datetime.date
    clock: datetime.time
    length: datetime.timedelta
    id: uuid.UUID
    color: Color
    level: Level
    size: Size
    maybe: int | None


class Reading(msgspec.Struct, frozen=True):
    """A struct with containers of other types."""

    sensor: str
    values: tuple[float, ...]
    places: dict[str, Address] = {}
    tags: list[str] = []


def _zoned() -> st.SearchStrategy[datetime.datetime]:
    # Years in which all zones know their offsets in whole minutes, so that every format can write them.
    return st.builds(
        lambda moment, zone: moment.replace(tzinfo=datetime.UTC).astimezone(zone),
        st.datetimes(datetime.datetime(1980, 1, 2), datetime.datetime(2037, 1, 1)),
        st.sampled_from(_ZONES),
    )


def _prices() -> st.SearchStrategy[Decimal]:
    return st.decimals(-(10**15), 10**15, places=6, allow_nan=False, allow_infinity=False)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_ADDRESSES = st.builds(Address, _TEXT, st.none() | _LONGS)


def everything() -> st.SearchStrategy[Everything]:
    """Values of the record with all types."""
    return st.builds(
        Everything,
        number=_LONGS,
        ratio=st.floats(allow_nan=False, allow_infinity=False),
        flag=st.booleans(),
        text=_TEXT,
        data=st.binary(max_size=8),
        price=_prices(),
        at=_zoned(),
        day=st.dates(),
        clock=st.times(),
        length=st.timedeltas(datetime.timedelta(days=-10_000), datetime.timedelta(days=10_000)),
        id=st.uuids(),
        color=st.sampled_from(Color),
        level=st.sampled_from(Level),
        size=st.sampled_from(Size),
        address=_ADDRESSES,
        count=_LONGS.map(np.int64),
        share=st.floats(allow_nan=False, allow_infinity=False).map(np.float64),
        maybe=st.none() | _LONGS,
        home=st.none() | _ADDRESSES,
    )


def readings() -> st.SearchStrategy[Reading]:
    """Values of the struct."""
    floats = st.floats(allow_nan=False, allow_infinity=False)
    return st.builds(
        Reading,
        sensor=_TEXT,
        values=st.lists(floats, max_size=3).map(tuple),
        places=st.dictionaries(_TEXT, _ADDRESSES, max_size=2),
        tags=st.lists(_TEXT, max_size=2),
    )


def keys_of_users() -> st.SearchStrategy[Any]:
    """Values of such types that may be keys."""
    floats = st.floats(allow_nan=False)
    leaves = st.one_of(
        everything(),
        _ADDRESSES,
        st.builds(Point, st.integers(-3, 3), floats),
        st.sampled_from([*Color, *Level, *Size]),
        _zoned(),
        _prices(),
        st.integers(-3, 3).map(np.int64),
        st.integers(0, 3).map(np.uint8),
        st.integers(-3, 3).map(np.float32),
        st.booleans().map(np.bool_),
        _TEXT.map(np.str_),
        st.binary(max_size=3).map(np.bytes_),
        st.integers(-3, 3),
        floats,
        st.timedeltas(datetime.timedelta(-3), datetime.timedelta(3)),
        st.builds(np.timedelta64, st.integers(-3, 3), st.sampled_from(["D", "h", "s", "ms", "us", "ns"])),
        st.builds(Reading, _TEXT, st.lists(floats, max_size=2).map(tuple), st.just(None), st.just(None)),
    )
    return leaves | st.tuples(leaves, leaves)
