"""From messages to batches of records: transactions in the order of their commits, each change once."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from psycopg.abc import Transformer
from psycopg.pq import Format

from firesteel.common.errors import StateError
from firesteel.common.types import Row
from firesteel.connectors.postgres.batches import Batch
from firesteel.connectors.postgres.catalog import Table
from firesteel.connectors.postgres.changes import ChangeDeserializer, PostgresChange, Unavailable, records_of
from firesteel.connectors.postgres.pgoutput import (
    NULL,
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
    decode,
)
from firesteel.connectors.postgres.position import CdcPosition

__all__ = ["ChangeReader"]


class _Relation:
    """A table as the stream has described it, with the loaders of its columns."""

    def __init__(self, message: Relation, table: Table | None, loads: list[Callable[[bytes], Any]]) -> None:
        self.message = message
        self.names = tuple(column.name for column in message.columns)
        self.wanted = table is not None
        self.full_name = f"{message.schema}.{message.table}"
        self._loads = loads
        key = () if table is None else table.key
        self._key = [self.names.index(column) for column in key if column in self.names]

    def row(self, fields: list[Any], before: Row | None = None) -> Row:
        values: list[Any] = []
        for index, (load, text) in enumerate(zip(self._loads, fields, strict=True)):
            if text is NULL:
                values.append(None)
            elif text is UNCHANGED:
                values.append(Unavailable.VALUE if before is None else before._values[index])
            else:
                values.append(load(text))
        return Row._make(tuple(values), self.names)

    def key_of(self, row: Row) -> tuple[Any, ...] | None:
        return tuple(row._values[index] for index in self._key) if self._key else None


class ChangeReader:
    """Takes messages, gives batches. What the position says to be done already is left out."""

    def __init__(
        self,
        position: CdcPosition,
        tables: list[Table],
        deserializer: ChangeDeserializer,
        ignores_truncate: bool,
        base_type: Callable[[int], int],
        transformer: Transformer,
    ) -> None:
        self.position = self._start = position
        self._tables = {(table.schema, table.name): table for table in tables}
        self._deserializer = deserializer
        self._ignores_truncate = ignores_truncate
        self._base_type = base_type
        self._transformer = transformer
        self._relations: dict[int, _Relation] = {}
        self._begin: Begin | None = None
        self._sequence = 0
        self._count = 0
        self._values: list[Any] = []
        self._stamps: list[int | None] = []
        self._marks: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._values)

    def take(self, data: bytes) -> bool:
        """One message of the replication protocol; whether the server wants an answer."""
        if data[:1] == b"k":
            end, _, wants_answer = struct.unpack("!QqB", data[1:18])
            if self._begin is None and end > self.position.end_lsn:
                self.position = self.position.done_until(end)
            return bool(wants_answer)
        self._message(decode(data[25:]))
        return False

    def batch(self) -> Batch:
        """What has come since the last batch."""
        values, stamps, marks, start = self._values, self._stamps, self._marks, self._start
        self._values, self._stamps, self._marks, self._start = [], [], [], self.position

        # Inside of a batch only the place in its transaction is told: those before it are known by their order.
        def within(count: int) -> tuple[int, CdcPosition]:
            lsn, done = marks[count - 1]
            return count, replace(start, commit_lsn=lsn, count=done)

        return Batch(values, stamps, self.position, within)

    def _message(self, message: Any) -> None:
        match message:
            case Begin():
                self._begin, self._sequence, self._count = message, 0, 0
            case Commit():
                self._begin = None
                self._committed(message)
            case Relation():
                self._relations[message.oid] = self._described(message)
            case Insert() | Update() | Delete():
                self._sequence += 1
                relation = self._relations[message.relation]
                if relation.wanted:
                    for change in self._changes(relation, message):
                        self._add(change)
            case Truncate():
                self._sequence += 1
                for relation in map(self._relations.__getitem__, message.relations):
                    if relation.wanted and not self._ignores_truncate:
                        self._truncated(relation)

    def _committed(self, message: Commit) -> None:
        """A transaction is done. One before that in which the position stands says nothing about the latter."""
        if message.commit_lsn >= self.position.commit_lsn:
            self.position = replace(self.position, commit_lsn=0, count=0).done_until(message.end_lsn)

    def _described(self, message: Relation) -> _Relation:
        loads = [self._load(column.type_oid) for column in message.columns]
        return _Relation(message, self._tables.get((message.schema, message.table)), loads)

    def _load(self, oid: int) -> Callable[[bytes], Any]:
        if self._transformer.adapters.get_loader(oid, Format.TEXT) is None:
            oid = self._base_type(oid)
        load: Callable[[bytes], Any] = self._transformer.get_loader(oid, Format.TEXT).load
        return load

    def _changes(self, relation: _Relation, message: Insert | Update | Delete) -> Iterator[PostgresChange]:
        """The change, or what is left of it when a first look has had one side of it already."""
        before = after = None
        key_only = False
        if not isinstance(message, Insert) and message.old is not None:
            before, key_only = relation.row(message.old), message.old_kind == "K"
        if not isinstance(message, Delete):
            after = relation.row(message.new, None if key_only else before)
        operation = type(message).__name__.lower()
        old_counts = self._counts(relation, after if before is None else before)
        new_counts = self._counts(relation, before if after is None else after)
        if operation == "update" and old_counts != new_counts:
            operation = "delete" if old_counts else "insert"
            before, after = (before, None) if old_counts else (None, after)
        elif not new_counts:
            return
        yield self._change(operation, relation, before, after, key_only)

    def _counts(self, relation: _Relation, row: Row | None) -> bool:
        assert self._begin is not None
        if not self.position.tables:
            return True
        assert row is not None
        read_at = self.position.progress(relation.full_name).lsn_of(relation.key_of(row))
        return self._begin.commit_lsn >= read_at

    def _truncated(self, relation: _Relation) -> None:
        assert self._begin is not None
        segments = self.position.progress(relation.full_name).segments
        count = {self._begin.commit_lsn >= segment.lsn for segment in segments}
        if count == {True, False}:
            raise StateError(
                f"the table {relation.full_name} was truncated while the job had stopped in the middle of reading it for the first "
                "time: start without the checkpoint"
            )
        if False not in count:
            self._add(self._change("truncate", relation, None, None, False))

    def _change(
        self, operation: str, relation: _Relation, before: Row | None, after: Row | None, key_only: bool
    ) -> PostgresChange:
        begin = self._begin
        assert begin is not None
        return PostgresChange(
            operation,
            relation.message.schema,
            relation.message.table,
            before,
            after,
            begin.commit_lsn,
            self._sequence,
            begin.timestamp_ms,
            begin.transaction_id,
            key_only,
        )

    def _add(self, change: PostgresChange) -> None:
        """The records of a change, but for those that were handed out before."""
        position = self.position
        for record in records_of(self._deserializer, change):
            self._count += 1
            is_old = change.commit_lsn < position.end_lsn
            if not is_old and (change.commit_lsn, self._count) > (position.commit_lsn, position.count):
                self._values.append(record)
                self._stamps.append(change.timestamp_ms)
                self._marks.append((change.commit_lsn, self._count))
                self.position = position = replace(position, commit_lsn=change.commit_lsn, count=self._count)
