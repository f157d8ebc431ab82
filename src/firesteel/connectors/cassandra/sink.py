"""Rows to Cassandra: as they come, at least once; or written ahead, with the time and the mark of their batch.

A statement that sets columns can be repeated, so at least once is as good as once, but for one thing: after a failure old
values come again for a while. Written ahead, the records of a checkpoint are kept in it and written when it is complete:

1. A row of the table of marks, made by a lightweight transaction, says when the batch was begun. Whoever comes with the same
   batch again finds it, and takes that time.
2. The rows are written with that time as their timestamp: a repetition, however late, never replaces something newer.
3. The mark says that the batch is written. Whoever comes then does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from firesteel.common._override import override
from firesteel.common.errors import (
    InvalidArgumentError,
    UnsupportedOperationError,
    WrongArgumentError,
    short_repr,
)
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.batching_sink import BatchClient, BatchingSink
from firesteel.connectors.cassandra.connection import LEFT_OUT, Session, place_of
from firesteel.connectors.staging_sink import StagedBatch, StagedClient, StagingSink
from firesteel.contracts.sink import Committer, Sink, SinkContext, SinkWriter

#: The table of marks.
MARKS = "firesteel_batches"
#: How long a mark is kept: so long a job may be down and still recognise what it has written.
MARK_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class _Target:
    """Where rows go, and how records become rows."""

    hosts: list[str]
    query: str
    values_of: Callable[[Any], Sequence[Any]] | None
    port: int
    user: str | None
    password: str = field(repr=False)
    marks: str | None
    ignore_null_fields: bool
    at_once: int
    options: dict[str, Any]

    def describe(self) -> str:
        return f"writing to Cassandra at {place_of(self.hosts, self.port)}"

    def row(self, record: Any) -> Sequence[Any]:
        values = record if self.values_of is None else self.values_of(record)
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise WrongArgumentError(
                f"a row for Cassandra is a tuple, list or Row, got {short_repr(values)} for the record {short_repr(record)}; "
                "CassandraSink(..., values_of=...) makes one of a record"
            )
        if self.ignore_null_fields:
            return [LEFT_OUT if value is None else value for value in values]
        return list(values)


class CassandraSink(Sink[Any]):
    """Writes rows by a statement such as ``INSERT INTO shop.totals (customer, cents) VALUES (?, ?)``.

    ``values_of`` gives the values for the question marks, in their order; a record that is a tuple, list or Row is its own. With
    ``write_ahead=keyspace`` the records of a checkpoint are written when it is complete, with a mark in the table
    ``firesteel_batches`` of that keyspace, which is made if it is missing. ``ignore_null_fields``: None leaves what a column
    has as it is. ``at_once`` statements are on their way at a time. ``cluster_options`` go to ``cassandra.cluster.Cluster``.
    Statements that add to what is there (counters, lists) cannot be repeated, and count twice after a failure.
    """

    def __init__(
        self,
        hosts: str | Sequence[str],
        query: str,
        *,
        values_of: Callable[[Any], Sequence[Any]] | None = None,
        port: int = 9042,
        user: str | None = None,
        password: str = "",
        write_ahead: str | None = None,
        ignore_null_fields: bool = False,
        at_once: int = 100,
        batch_size: int = 500,
        linger: float = 1.0,
        cluster_options: Mapping[str, Any] | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        if write_ahead is not None and not write_ahead.isidentifier():
            raise InvalidArgumentError(f"write_ahead is the name of a keyspace, got {write_ahead!r}")
        target = _Target(
            [hosts] if isinstance(hosts, str) else list(hosts),
            query, values_of, port, user, password, write_ahead, ignore_null_fields, at_once, dict(cluster_options or {}),
        )  # fmt: skip
        self._sink: Sink[Any] = (
            _AtLeastOnce(target, batch_size, linger, backoff or Backoff())
            if write_ahead is None
            else _WrittenAhead(target, backoff or Backoff())
        )

    @staticmethod
    def add_sink(input: object) -> NoReturn:
        """PyFlink's way to make the sink, which is refused: its builder is one for objects of Java."""
        raise UnsupportedOperationError(
            "CassandraSink.add_sink() with its builder is not supported; use stream.sink_to(CassandraSink(hosts, query)), with "
            "write_ahead=keyspace for the write-ahead log"
        )

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return self._sink.create_writer(context)

    @override
    def create_committer(self, context: SinkContext) -> Committer | None:
        return self._sink.create_committer(context)


class _Rows(BatchClient[Any]):
    """A session with the statement prepared."""

    def __init__(self, target: _Target) -> None:
        self._target = target
        self._session = Session(target.hosts, target.port, target.user, target.password, target.options)
        try:
            with self._session.told(f"preparing {target.query!r}"):
                self._query = self._session.driver.prepare(target.query)
                self._query.is_idempotent = True
        except BaseException:
            self.close()
            raise

    @override
    def write_batch(self, batch: list[Any]) -> None:
        """The driver gives every statement a later timestamp, so the last row of a key is the one that stays."""
        rows = [self._target.row(record) for record in batch]
        with self._session.told(self._target.describe()):
            self._session.execute_all(self._query, rows, self._target.at_once)

    @override
    def close(self) -> None:
        self._session.close()


class _AtLeastOnce(BatchingSink[Any]):
    def __init__(self, target: _Target, batch_size: int, linger: float, backoff: Backoff) -> None:
        self.target = target
        self.batch_size = batch_size
        self.linger = linger
        self.backoff = backoff

    @override
    def describe(self) -> str:
        return self.target.describe()

    @override
    def connect(self, context: SinkContext) -> BatchClient[Any]:
        return _Rows(self.target)


class _WrittenAhead(StagingSink[Any]):
    def __init__(self, target: _Target, backoff: Backoff) -> None:
        self.target = target
        self.backoff = backoff

    @override
    def describe(self) -> str:
        return self.target.describe()

    @override
    def connect(self, context: SinkContext) -> StagedClient[Any]:
        return _MarkedRows(self.target)


class _MarkedRows(StagedClient[Any]):
    def __init__(self, target: _Target) -> None:
        self._target = target
        self._rows = _Rows(target)
        self._session = self._rows._session
        table = f"{target.marks}.{MARKS}"
        try:
            with self._session.told(f"making the table {table}"):
                self._session.execute(
                    f"CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, begun bigint, written boolean) "
                    f"WITH default_time_to_live = {MARK_SECONDS}"
                )
                prepare = self._session.driver.prepare
                self._begin = prepare(
                    f"INSERT INTO {table} (id, begun, written) VALUES (?, ?, false) IF NOT EXISTS"
                )
                self._end = prepare(f"UPDATE {table} SET written = true WHERE id = ? IF EXISTS")
        except BaseException:
            self.close()
            raise

    @override
    def write_once(self, batch: StagedBatch) -> None:
        """The steps at the head of this file."""
        with self._session.told(self._target.describe()):
            begun = self._mark(batch.id)
        if begun is None:
            return
        self._session.write_as_of(begun)
        self._rows.write_batch(batch.records)
        with self._session.told(self._target.describe()):
            self._session.execute(self._end, [batch.id])

    def _mark(self, batch_id: str) -> int | None:
        """When the batch was begun, in microseconds; None if it is written."""
        now = time.time_ns() // 1000
        row = self._session.execute(self._begin, [batch_id, now]).one()
        if row.applied:
            return now
        return None if row.written else int(row.begun)

    @override
    def close(self) -> None:
        self._rows.close()
