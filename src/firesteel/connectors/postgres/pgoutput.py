"""The messages of PostgreSQL's output plug-in ``pgoutput``, protocol version 1, and of the replication protocol around it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError

__all__ = [
    "NULL",
    "UNCHANGED",
    "Begin",
    "Column",
    "Commit",
    "Delete",
    "Insert",
    "Message",
    "Relation",
    "Truncate",
    "Update",
    "decode",
    "lsn_of",
    "lsn_text",
]

#: Microseconds from 1970 to 2000, when PostgreSQL's time begins.
EPOCH_2000 = 946_684_800_000_000


class _Mark:
    """A column without a text."""

    def __init__(self, name: str) -> None:
        self._name = name

    @override
    def __repr__(self) -> str:
        return self._name


NULL, UNCHANGED = _Mark("NULL"), _Mark("UNCHANGED")
#: Per column the text of its value, NULL, or UNCHANGED: too large to be sent for nothing.
Fields = list[Any]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins; ``commit_lsn`` is where it was committed, which orders transactions."""

    commit_lsn: int
    timestamp_ms: int
    transaction_id: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends; ``end_lsn`` is behind it."""

    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``is_key``: part of the replica identity."""

    name: str
    type_oid: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """What a table looks like from now on."""

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """A row is new."""

    relation: int
    new: Fields


@dataclass(frozen=True, slots=True)
class Update:
    """A row has changed; ``old`` is all of it (``old_kind`` "O"), its key ("K"), or None."""

    relation: int
    old_kind: str | None
    old: Fields | None
    new: Fields


@dataclass(frozen=True, slots=True)
class Delete:
    """A row is gone."""

    relation: int
    old_kind: str
    old: Fields


@dataclass(frozen=True, slots=True)
class Truncate:
    """All rows of some tables are gone."""

    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate


class _Bytes:
    """Reads a message from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._position)
        self._position += struct.calcsize(layout)
        return values

    def letter(self) -> str:
        return chr(self.take("!B")[0])

    def text(self) -> str:
        end = self._data.index(b"\0", self._position)
        text = self._data[self._position : end].decode()
        self._position = end + 1
        return text

    def fields(self) -> Fields:
        values: Fields = []
        for _ in range(self.take("!H")[0]):
            match self.letter():
                case "n":
                    values.append(NULL)
                case "u":
                    values.append(UNCHANGED)
                case _:
                    (length,) = self.take("!I")
                    values.append(self._data[self._position : self._position + length])
                    self._position += length
        return values


def decode(data: bytes) -> Message | None:
    """The message; None for kinds that say nothing about rows (types, origins)."""
    reader = _Bytes(data)
    match reader.letter():
        case "B":
            lsn, micros, transaction = reader.take("!QqI")
            return Begin(lsn, (micros + EPOCH_2000) // 1000, transaction)
        case "C":
            _, lsn, end, _ = reader.take("!BQQq")
            return Commit(lsn, end)
        case "R":
            return _relation(reader)
        case "I":
            (oid,) = reader.take("!I")
            reader.letter()
            return Insert(oid, reader.fields())
        case "U":
            return _update(reader)
        case "D":
            (oid,) = reader.take("!I")
            return Delete(oid, reader.letter(), reader.fields())
        case "T":
            count, _ = reader.take("!IB")
            return Truncate(reader.take(f"!{count}I"))
        case "Y" | "O" | "M":
            return None
        case kind:
            raise JobExecutionError(f"PostgreSQL has sent a message of the unknown kind {kind!r} by pgoutput")


def _relation(reader: _Bytes) -> Relation:
    (oid,) = reader.take("!I")
    schema, table = reader.text() or "pg_catalog", reader.text()
    identity, (count,) = reader.letter(), reader.take("!H")
    columns = []
    for _ in range(count):
        (flags,) = reader.take("!B")
        name = reader.text()
        type_oid, _ = reader.take("!Ii")
        columns.append(Column(name, type_oid, bool(flags & 1)))
    return Relation(oid, schema, table, identity, tuple(columns))


def _update(reader: _Bytes) -> Update:
    (oid,) = reader.take("!I")
    kind = reader.letter()
    if kind == "N":
        return Update(oid, None, None, reader.fields())
    old = reader.fields()
    reader.letter()
    return Update(oid, kind, old, reader.fields())


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it.

    >>> lsn_text(0x16_B374D848), lsn_of("16/B374D848") == 0x16_B374D848
    ('16/B374D848', True)
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """The other way round from `lsn_text`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
