"""Key -> key group -> subtask, by a hash that is the same in every process and every run.

Python's own ``hash`` of text is salted per process, so it can never place keys. Numbers are the
exception: their hash is fixed by the language and equal for equal numbers of different types
(``1 == 1.0 == True``), which a stable hash must respect because state finds keys by equality.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from numbers import Number
from typing import Any
from zlib import crc32

from firesteel.common.errors import InvalidKeyError, short_repr
from firesteel.common.types import Row

DEFAULT_LOWER_BOUND = 128
UPPER_BOUND = 32768
_MASK = 0xFFFFFFFFFFFFFFFF

_REMEDY = (
    "use text, bytes, numbers, booleans, dates, UUIDs, enum members, or tuples, Rows and frozen "
    "dataclasses of those; for anything else let the key selector return such a value"
)


def default_max_parallelism(parallelism: int) -> int:
    """The number of key groups when the user names none: room to grow by half, at least 128."""
    wanted = parallelism + (parallelism + 1) // 2
    power = 1 << max(0, wanted - 1).bit_length()
    return min(max(power, DEFAULT_LOWER_BOUND), UPPER_BOUND)


def key_group_of(key: Any, max_parallelism: int) -> int:
    """The group that ``key`` belongs to for the life of the job's state."""
    return stable_hash(key) % max_parallelism


def subtask_of_group(group: int, max_parallelism: int, parallelism: int) -> int:
    """The subtask that owns ``group``: groups are dealt out in contiguous ranges."""
    return group * parallelism // max_parallelism


def groups_of_subtask(subtask: int, max_parallelism: int, parallelism: int) -> range:
    """The contiguous range of groups that ``subtask`` owns; the inverse of `subtask_of_group`."""
    first = -(-subtask * max_parallelism // parallelism)
    end = -(-(subtask + 1) * max_parallelism // parallelism)
    return range(first, end)


class KeyPlacement(dict[Any, int]):
    """Key -> subtask for one keyed edge, hashing each distinct key once.

    The cache is dropped when it has grown to ``limit`` keys, so an unbounded key domain costs
    time (a hash per key), not memory.
    """

    def __init__(self, max_parallelism: int, parallelism: int, limit: int = 1_000_000) -> None:
        super().__init__()
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism
        self.limit = limit

    def place(self, key: Any) -> int:
        """The subtask that owns ``key``, computed anew."""
        return subtask_of_group(
            key_group_of(key, self._max_parallelism), self._max_parallelism, self._parallelism
        )

    def __missing__(self, key: Any) -> int:
        if len(self) >= self.limit:
            self.clear()
        subtask = self[key] = self.place(key)
        return subtask


def stable_hash(key: Any) -> int:
    """A 32-bit hash that depends on the key's value only; equal keys have equal hashes."""
    return _mix(_digest(key)) & 0xFFFFFFFF


def _mix(value: int) -> int:
    """Spread the bits, so that consecutive numbers do not fall into consecutive groups."""
    value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ (value >> 33)


def _digest(key: Any) -> int:
    if isinstance(key, str):
        # An enum member that is also a str equals its text, so it must be placed like its text.
        return _of_bytes(str.__str__(key).encode("utf-8", "surrogatepass"), 1)
    if isinstance(key, (bytes, memoryview)):
        return _of_bytes(bytes(key), 2)
    if isinstance(key, Number):
        return _of_number(key)
    if isinstance(key, Row):
        return _of_parts([*key], 4)
    if isinstance(key, tuple):
        return _of_parts(key, 3)
    return _of_other(key)


def _of_number(key: Number | bool) -> int:
    if key != key:
        raise _refused(key, "NaN is not equal to itself, so its records would never meet")
    return hash(key) & _MASK


def _of_bytes(data: bytes, salt: int) -> int:
    return crc32(data, salt) << 32 | crc32(data, 0x9E3779B9)


def _of_parts(parts: Any, salt: int) -> int:
    total = salt
    for part in parts:
        total = (_mix(total) * 31 + _digest(part)) & _MASK
    return total


def _of_other(key: Any) -> int:
    if key is None:
        return 0x5A17
    if isinstance(key, enum.Enum):
        return _of_bytes(f"{type(key).__qualname__}.{key.name}".encode(), 5)
    if isinstance(key, (datetime.date, datetime.time)):
        return _of_time(key)
    if isinstance(key, datetime.timedelta):
        return _of_parts((key.days, key.seconds, key.microseconds), 7)
    if isinstance(key, uuid.UUID):
        return _of_bytes(key.bytes, 8)
    if isinstance(key, frozenset):
        return sum(map(_digest, key)) & _MASK
    if dataclasses.is_dataclass(key) and _has_value(key):
        return _of_parts([getattr(key, field.name) for field in dataclasses.fields(key) if field.compare], 9)
    if type(key).__module__ == "numpy" and type(key).__name__ in ("bool", "bool_"):  # which is no Number
        return _of_number(bool(key))
    raise _refused(key, f"{type(key).__name__} objects have no hash that is the same in every process")


def _of_time(key: datetime.date | datetime.time) -> int:
    """Moments and times of day in different time zones may be equal."""
    if isinstance(key, datetime.datetime) and key.utcoffset() is not None:
        key = key.astimezone(datetime.UTC)
    elif isinstance(key, datetime.time) and (offset := key.utcoffset()) is not None:
        minutes = key.hour * 60 + key.minute - offset // datetime.timedelta(minutes=1)
        return _of_parts((minutes, key.second, key.microsecond), 10)
    return _of_bytes(key.isoformat().encode(), 6)


def _has_value(key: Any) -> bool:
    """Whether equality and hash are about the fields, not about which object it is."""
    kind: Any = type(key)
    return kind.__hash__ is not None and kind.__eq__ is not object.__eq__


def _refused(key: Any, why: str) -> InvalidKeyError:
    return InvalidKeyError(f"{short_repr(key)} cannot be a key: {why}; {_REMEDY}")
