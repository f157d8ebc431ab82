"""SQLite, by Python's own module. One file, which all tasks must reach; writers wait for each other."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common.types import Row
from firesteel.connectors.jdbc.database import (
    Conflict,
    Connection,
    ConnectionLost,
    Database,
    DatabaseFailure,
    Parameters,
    StatementFailed,
)
from firesteel.connectors.jdbc.statement import Statement

__all__ = ["SqliteDatabase", "sqlite_value"]

#: How long a statement waits for whoever is writing; longer waits are conflicts, which are tried again.
BUSY_SECONDS = 30.0

_PLAIN = {int, str, float, bytes, bool, type(None)}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@dataclass(frozen=True)
class SqliteDatabase(Database):
    """A file. ``uri`` is how SQLite's own URIs are marked."""

    path: str
    busy_seconds: float = BUSY_SECONDS

    @property
    @override
    def name(self) -> str:
        return f"SQLite {self.path}"

    @override
    def connect(self) -> Connection:
        try:
            connection = sqlite3.connect(
                self.path, timeout=self.busy_seconds, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise StatementFailed(f"{self.name} cannot be opened: {error}") from error
        return SqliteConnection(connection)


class SqliteConnection(Connection):
    """Transactions begin by hand: one that writes takes the only lock for it at once, so that it cannot deadlock."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._columns: tuple[str, ...] = ()

    @override
    def execute(self, statement: Statement, parameters: Parameters = ()) -> list[Parameters]:
        with _translated():
            self._begin()
            cursor = self._connection.execute(statement.with_marks("?"), _values(parameters))
            self._note(cursor)
            return cursor.fetchall()

    @override
    def execute_many(self, statement: Statement, rows: Sequence[Parameters]) -> None:
        with _translated():
            self._begin()
            self._connection.executemany(statement.with_marks("?"), map(_values, rows))

    @override
    def stream(self, statement: Statement, parameters: Parameters, size: int) -> Iterator[list[Parameters]]:
        with _translated():
            cursor = self._connection.execute(statement.with_marks("?"), _values(parameters))
            self._note(cursor)
            while rows := cursor.fetchmany(size):
                yield rows

    @override
    def columns(self) -> tuple[str, ...]:
        return self._columns

    def _note(self, cursor: sqlite3.Cursor) -> None:
        self._columns = tuple(column[0] for column in cursor.description or ())

    @override
    def check(self, statement: Statement) -> None:
        """EXPLAIN compiles a statement and executes nothing."""
        with _translated():
            self._connection.execute("EXPLAIN " + statement.with_marks("?"), (None,) * statement.count)

    @override
    def lock(self, statement: Statement, parameters: Parameters) -> list[Parameters]:
        """The transaction has the only lock there is."""
        return self.execute(statement, parameters)

    @override
    def create_table(self, sql: str, name: str) -> None:
        self.execute(Statement((sql,), None))
        self.commit()

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")

    @override
    def commit(self) -> None:
        with _translated():
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    @override
    def rollback(self) -> None:
        with _translated():
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    @override
    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


def sqlite_value(value: Any) -> Any:
    """A value that SQLite has: times as ISO 8601, decimals and UUIDs as text, lists and dicts as JSON.

    >>> sqlite_value(datetime.date(2024, 2, 29)), sqlite_value(decimal.Decimal("1.50")), sqlite_value([1, 2])
    ('2024-02-29', '1.50', '[1, 2]')
    """
    if type(value) in _PLAIN:
        return value
    match value:
        case enum.Enum():
            return sqlite_value(value.value)
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return value.total_seconds()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case Row() | dict() | list() | tuple():
            return json.dumps(value.as_dict(True) if isinstance(value, Row) else value, default=str)
        case bytearray() | memoryview():
            return bytes(value)
    item = getattr(value, "item", None)  # numpy's scalars
    return item() if callable(item) else value


def _values(row: Parameters) -> Parameters:
    for value in row:
        if type(value) not in _PLAIN:
            return tuple(map(sqlite_value, row))
    return row


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _failure(error) from error
    except OverflowError as error:
        raise StatementFailed(f"SQLite's whole numbers have 64 bits: {error}") from error


def _failure(error: sqlite3.Error) -> DatabaseFailure:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    text = f"{getattr(error, 'sqlite_errorname', type(error).__name__)}: {error}"
    if code in _BUSY:
        return Conflict(text)
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL):
        return ConnectionLost(text)
    return StatementFailed(text)
