"""Key -> key group -> subtask, by a hash that is the same in every process and every run.

Python's own ``hash`` of text is salted per process, so it can never assign keys. Numbers are the
exception: their hash is fixed by the language and equal for equal numbers of different types
(``1 == 1.0 == True``), which a stable hash must respect because state finds keys by equality.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from collections.abc import Callable
from numbers import Number
from typing import Any
from zlib import crc32

from firesteel.common.errors import InvalidKeyError, short_repr
from firesteel.common.types import Row
from firesteel.plan.value_key import ValueKey

DEFAULT_LOWER_BOUND = 128
UPPER_BOUND = 32768
_MASK = 0xFFFFFFFFFFFFFFFF

_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE

_REMEDY = (
    "use text, bytes, numbers, booleans, dates, UUIDs, enum members, or tuples, lists, dicts, sets, Rows and "
    "dataclasses of those; for anything else let the key selector return such a value"
)


def default_max_parallelism(parallelism: int) -> int:
    """The number of key groups when the user names none: room to grow by half, at least 128."""
    with_room = parallelism + (parallelism + 1) // 2
    power = 1 << max(0, with_room - 1).bit_length()
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


class KeyAssignment(dict[Any, int]):
    """Key -> subtask for one keyed edge, hashing each distinct key once.

    ``form`` makes the key that state will know of what is looked up. The cache is dropped when it has grown to
    ``limit`` keys, so an unbounded key domain costs time (a hash per key), not memory.
    """

    def __init__(
        self,
        max_parallelism: int,
        parallelism: int,
        form: Callable[[Any], Any] | None = None,
        limit: int = 1_000_000,
    ) -> None:
        super().__init__()
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism
        self._form = form
        self.limit = limit

    def of_formed(self) -> KeyAssignment:
        """The same for keys as state knows them."""
        return KeyAssignment(self._max_parallelism, self._parallelism, limit=self.limit)

    def assign(self, key: Any) -> int:
        """The subtask that owns ``key``, computed without the cache."""
        formed = key if self._form is None else self._form(key)
        return subtask_of_group(
            key_group_of(formed, self._max_parallelism), self._max_parallelism, self._parallelism
        )

    def __missing__(self, key: Any) -> int:
        if len(self) >= self.limit:
            self.clear()
        subtask = self[key] = self.assign(key)
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
        # An enum member that is also a str equals its text, so it must be assigned like its text.
        return _of_bytes(str.__str__(key).encode("utf-8", "surrogatepass"), 1)
    if isinstance(key, (bytes, memoryview)):
        return _of_bytes(bytes(key), 2)
    if isinstance(key, Number):
        return _of_number(key)
    if isinstance(key, Row):
        return _of_items([*key], 4)
    if isinstance(key, tuple):
        return _of_items(key, 3)
    return _of_other(key)


def _of_number(key: Number | bool) -> int:
    if key != key:
        raise _refused(key, "NaN is not equal to itself, so its records would never meet")
    if type(key).__name__ == "timedelta64":  # a number for numpy, and equal to a timedelta
        return _of_numpy_length(key)
    return hash(key) & _MASK


def _of_numpy_length(key: Any) -> int:
    """As the timedelta that it equals; finer ones and months have a hash of numpy's that is the same everywhere."""
    if key.dtype.str.rpartition("[")[2] not in ("Y]", "M]", "<m8", ">m8"):
        in_micros = key.astype("timedelta64[us]")
        if in_micros == key and isinstance(in_micros.item(), datetime.timedelta):
            return _of_other(in_micros.item())
    return hash(key) & _MASK


def _of_bytes(data: bytes, salt: int) -> int:
    return crc32(data, salt) << 32 | crc32(data, 0x9E3779B9)


def _of_items(items: Any, salt: int) -> int:
    total = salt
    for item in items:
        total = (_mix(total) * 31 + _digest(item)) & _MASK
    return total


def _of_other(key: Any) -> int:
    if key is None:
        return 0x5A17
    if isinstance(key, ValueKey):
        return _of_items(key.image, 11)
    if isinstance(key, enum.Enum):
        return _of_bytes(f"{type(key).__qualname__}.{key.name}".encode(), 5)
    if isinstance(key, (datetime.date, datetime.time)):
        return _of_time(key)
    if isinstance(key, datetime.timedelta):
        return _of_items((key.days, key.seconds, key.microseconds), 7)
    if isinstance(key, uuid.UUID):
        return _of_bytes(key.bytes, 8)
    if isinstance(key, frozenset):
        return sum(map(_digest, key)) & _MASK
    if dataclasses.is_dataclass(key) and _has_value(key):
        return _of_items([getattr(key, field.name) for field in dataclasses.fields(key) if field.compare], 9)
    if type(key).__module__ == "numpy" and type(key).__name__ in ("bool", "bool_"):  # which is no Number
        return _of_number(bool(key))
    if _is_frozen_struct(type(key)):
        return _of_items([getattr(key, name) for name in type(key).__struct_fields__], 12)
    why = f"{type(key).__name__} objects have no hash that is the same in every process"
    raise _refused(key, why, _as_frozen(type(key)))


def _of_time(key: datetime.date | datetime.time) -> int:
    """Moments and times of day in different time zones may be equal."""
    if isinstance(key, datetime.datetime) and key.utcoffset() is not None:
        # The two hours that a clock shows alike are equal for Python, and its hash is that of the first.
        key = key.replace(fold=0).astimezone(datetime.UTC)
    elif isinstance(key, datetime.time) and (offset := key.utcoffset()) is not None:
        minutes = key.hour * 60 + key.minute - offset // datetime.timedelta(minutes=1)
        return _of_items((minutes, key.second, key.microsecond), 10)
    return _of_bytes(key.isoformat().encode(), 6)


def _has_value(key: Any) -> bool:
    """Whether equality and hash are about the fields, not about which object it is."""
    kind: Any = type(key)
    return kind.__hash__ is not None and kind.__eq__ is not object.__eq__


def _is_frozen_struct(kind: Any) -> bool:
    """Whether it is a class of msgspec whose objects are equal when their fields are."""
    config = getattr(kind, "__struct_config__", None)
    return config is not None and bool(config.frozen and config.eq)


def _as_frozen(kind: type) -> str:
    """What to write above a class of the program; nothing for classes written in C."""
    if kind.__flags__ & _IMMUTABLE:
        return ""
    without = ", without eq=False," if dataclasses.is_dataclass(kind) else ""
    return f"write @dataclass(frozen=True){without} above class {kind.__name__}: equal fields make equal keys; or "


def _refused(key: Any, why: str, first_remedy: str = "") -> InvalidKeyError:
    return InvalidKeyError(f"{short_repr(key)} cannot be a key: {why}; {first_remedy}{_REMEDY}")
