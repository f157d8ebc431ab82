"""What a key has in all tables of a space, as bytes: the unit in which state moves between memory and disk.

Records are found by the hash of their key, which is Python's own: equal keys have equal hashes, and the records live
no longer than the process. Keys that are not equal may share a hash; then they share a record, too.

Plain data is written by marshal, which takes half of pickle's time. It would give other things back as something else
(an array as bytes, a list that occurs twice as two lists), so it is used only where the types of everything in a record
are known to it and nothing occurs twice. That is looked at for many records at once.
"""

from __future__ import annotations

import marshal
import pickle
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from firesteel.checkpoint import state_pickle

__all__ = [
    "Row",
    "has_several",
    "merge_record",
    "read_record",
    "read_rows",
    "record_keys_of",
    "write_records",
]

#: A key and what it has: ``(key, number of a table, value, number of another table, value, ...)``.
Row = tuple[Any, ...]

# How a record begins. Each way of writing a row begins with a byte of its own.
_MARSHALLED, _PICKLED, _SPECIAL, _SEVERAL = b"("[0], b"\x80"[0], b"s"[0], b"n"[0]
_MARSHAL_VERSION = 2  # the newest that does not spend time on objects that occur twice

_SIMPLE = frozenset((int, str, float, bool, bytes, type(None)))
_LISTS = frozenset((tuple, list))
_PLAIN = _SIMPLE | _LISTS | {dict}
_CHANGING = frozenset((list, dict))
_DEPTH = 5  # of containers in containers; what is deeper is pickled

_pack: Callable[[int], bytes] = struct.Struct(">q").pack


def record_keys_of(keys: Iterable[Any]) -> list[bytes]:
    """The keys of records: hashes in eight bytes."""
    return list(map(_pack, map(hash, keys)))


def write_records(rows: Sequence[Row]) -> list[bytes]:
    """A record for each row."""
    if len(set(map(len, rows))) == 1:
        are_plain = all(map(_are_plain, zip(*rows, strict=True)))  # there is mostly one type in a column
    else:
        are_plain = _are_plain(rows)
    if are_plain:
        try:
            return [marshal.dumps(row, _MARSHAL_VERSION) for row in rows]
        except ValueError:  # longer than marshal can say
            pass
    return [_pickled(row) for row in rows]


def merge_record(old: bytes | None, row: Row) -> bytes | None:
    """The record with another row for one of its keys, None when nothing is left in it."""
    key = row[0]
    rows = [] if old is None else [other for other in read_record(old) if other[0] != key]
    if len(row) > 1:
        rows.append(row)
    if len(rows) > 1:
        return bytes((_SEVERAL,)) + _pickled(rows)
    return write_records(rows)[0] if rows else None


def has_several(record: bytes) -> bool:
    """Whether several keys share the record."""
    return record[0] == _SEVERAL


def read_record(record: bytes) -> list[Row]:
    """All rows of a record."""
    if record[0] == _SEVERAL:
        rows: list[Row] = _unpickled(record[1:])
        return rows
    return read_rows([record])


def read_rows(records: list[bytes]) -> list[Row]:
    """The row of each record; of a record that has several, an empty one."""
    return [marshal.loads(record) if record[0] == _MARSHALLED else _read_row(record) for record in records]


def _read_row(record: bytes) -> Row:
    return () if record[0] == _SEVERAL else _unpickled(record)


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # noqa: BLE001 - classes of the main program, and a good message for what cannot be written
        return bytes((_SPECIAL,)) + state_pickle.dumps(value)


def _unpickled(data: bytes) -> Any:
    return pickle.loads(data) if data[0] == _PICKLED else state_pickle.loads(data[1:])


def _are_plain(values: Sequence[Any]) -> bool:
    """Whether marshal gives all of these back as they are, which it does not when a list or dict is there twice."""
    seen: set[int] = set()
    for _ in range(_DEPTH):
        kinds = set(map(type, values))
        if kinds <= _SIMPLE:
            return True
        if not kinds <= _PLAIN:
            return False
        if not kinds.isdisjoint(_CHANGING):
            changing = [id(value) for value in values if type(value) in _CHANGING]
            expected = len(seen) + len(changing)
            seen.update(changing)
            if len(seen) < expected:
                return False
        if kinds <= _LISTS:
            values = list(chain.from_iterable(values))
        else:
            inner = [value for value in values if type(value) in _LISTS]
            maps = [value for value in values if type(value) is dict]
            values = list(chain(*inner, *maps, *[mapping.values() for mapping in maps]))
    return False
