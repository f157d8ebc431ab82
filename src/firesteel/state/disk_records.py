"""What a key has in all tables of a space, as bytes: the unit in which state moves between memory and disk.

Records are found by the hash of their key, which is Python's own: equal keys have equal hashes, and the records live
no longer than the process. Keys that are not equal may share a hash; then they share a record, too.
"""

from __future__ import annotations

import pickle
from typing import Any

from firesteel.checkpoint import state_pickle

__all__ = ["Values", "has_several", "merge_record", "read_record", "record_key", "values_in_record"]

#: What a key has: numbers of tables and values.
Values = list[tuple[int, Any]]

_ONE, _MANY = b"1", b"n"
_PLAIN, _SPECIAL = b"p", b"s"


def record_key(key: Any) -> bytes:
    """The key of the record: a hash in eight bytes."""
    return (hash(key) + 2**63).to_bytes(8, "big")


def merge_record(old: bytes | None, key: Any, values: Values) -> bytes | None:
    """The record with new values for one of its keys, None when nothing is left in it."""
    name = _dumps(key)
    head = _ONE + len(name).to_bytes(4, "big") + name
    if old is None or old.startswith(head):
        return head + _dumps(values) if values else None
    others = [pair for pair in read_record(old) if pair[0] != key]
    if not others:
        return head + _dumps(values) if values else None
    return _MANY + _dumps([*others, (key, values)] if values else others)


def has_several(record: bytes) -> bool:
    """Whether several keys share the record."""
    return record[:1] == _MANY


def values_in_record(record: bytes, key: Any) -> Values:
    """What a key has."""
    for found, values in read_record(record):
        if found == key:
            return values
    return []


def read_record(record: bytes) -> list[tuple[Any, Values]]:
    """All keys of a record and what they have."""
    if record[:1] == _MANY:
        pairs: list[tuple[Any, Values]] = _loads(record[1:])
        return pairs
    end = 5 + int.from_bytes(record[1:5], "big")
    return [(_loads(record[5:end]), _loads(record[end:]))]


def _dumps(value: Any) -> bytes:
    try:
        return _PLAIN + pickle.dumps(value, protocol=5)
    except Exception:  # noqa: BLE001 - classes of the main program, and a good message for what cannot be written
        return _SPECIAL + state_pickle.dumps(value)


def _loads(data: bytes) -> Any:
    return pickle.loads(data[1:]) if data[:1] == _PLAIN else state_pickle.loads(data[1:])
