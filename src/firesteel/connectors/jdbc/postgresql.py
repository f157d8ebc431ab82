"""PostgreSQL, by psycopg 3: parameters are bound by the server, many rows go through a pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import SetupError
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

try:
    import psycopg
    from psycopg.types.json import JsonbDumper
except ImportError as error:
    raise SetupError(
        "PostgreSQL needs the package psycopg: install firesteel[postgres], or psycopg[binary] by itself"
    ) from error

__all__ = ["PostgresDatabase", "failure", "translated"]

#: Serialization failure, deadlock, lock not available, and statements that others cancelled to help themselves.
_CONFLICTS = {"40001", "40P01", "55P03"}
#: Connection exceptions, shutdown and crash of the server, too many connections.
_LOST = ("08", "57P", "53300")
#: What a server says to whom it will never let in.
_REFUSED = ("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry")


@dataclass(frozen=True)
class PostgresDatabase(Database):
    """``parameters`` are libpq's: host, port, dbname, user, password, sslmode ..."""

    parameters: Mapping[str, str] = field(repr=False)

    @property
    @override
    def name(self) -> str:
        known = self.parameters
        place = f"{known.get('host', 'localhost')}:{known.get('port', '5432')}/{known.get('dbname', '')}"
        return f"PostgreSQL {known['user']}@{place}" if "user" in known else f"PostgreSQL {place}"

    def open(self, **more: Any) -> psycopg.Connection[Any]:
        """A connection of psycopg; ``more`` goes to it and wins over ``parameters``."""
        try:
            return psycopg.connect("", **{**self.parameters, **more})
        except psycopg.OperationalError as error:
            raise self.refused(error) from error

    def refused(self, error: psycopg.Error) -> DatabaseFailure:
        """Why there is no connection; whether it can help to try again."""
        text = f"no connection to {self.name}: {str(error).strip()}"
        if any(sign in str(error) for sign in _REFUSED):
            return StatementFailed(f"{text}; check user, password, database and the server's pg_hba.conf")
        return ConnectionLost(text)

    @override
    def connect(self) -> Connection:
        return PostgresConnection(self.open())


class PostgresConnection(Connection):
    """One connection of psycopg, which begins transactions by itself."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._connection.adapters.register_dumper(dict, JsonbDumper)
        self._columns: tuple[str, ...] = ()

    @override
    def execute(self, statement: Statement, parameters: Parameters = ()) -> list[Parameters]:
        with translated():
            cursor = self._connection.execute(statement.for_psycopg(), parameters)
            self._note(cursor)
            return cursor.fetchall() if cursor.description else []

    @override
    def execute_many(self, statement: Statement, rows: Sequence[Parameters]) -> None:
        with translated(), self._connection.cursor() as cursor:
            cursor.executemany(statement.for_psycopg(), rows)

    @override
    def stream(self, statement: Statement, parameters: Parameters, size: int) -> Iterator[list[Parameters]]:
        """By a cursor of the server, so that a large result never is in memory as a whole."""
        with translated(), self._connection.cursor("firesteel") as cursor:
            cursor.execute(statement.for_psycopg(), parameters)
            self._note(cursor)
            while rows := cursor.fetchmany(size):
                yield rows

    @override
    def query(self, statement: Statement, parameters: Parameters) -> list[Parameters]:
        """In one round trip, and no transaction stays open behind it."""
        rows = self.execute(statement, parameters)
        self.rollback()
        return rows

    def _note(self, cursor: psycopg.Cursor[Any] | psycopg.ServerCursor[Any]) -> None:
        self._columns = tuple(column.name for column in cursor.description or ())

    @override
    def columns(self) -> tuple[str, ...]:
        return self._columns

    @override
    def check(self, statement: Statement) -> None:
        """Have the server parse it."""
        prepared = self._connection.pgconn.prepare(b"", statement.numbered().encode())
        if prepared.status not in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK):
            with translated():
                raise psycopg.errors.error_from_result(prepared)
        with translated():
            self._connection.rollback()

    @override
    def lock(self, statement: Statement, parameters: Parameters) -> list[Parameters]:
        *before, last = statement.pieces
        return self.execute(Statement((*before, last + " FOR UPDATE"), None), parameters)

    @override
    def create_table(self, sql: str, name: str) -> None:
        """Two that create the same table at the same time disturb each other: one at a time."""
        with translated():
            self._connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (name,))
            self._connection.execute(sql.replace("%", "%%"))
            self._connection.commit()

    @override
    def commit(self) -> None:
        with translated():
            self._connection.commit()

    @override
    def rollback(self) -> None:
        with translated():
            self._connection.rollback()

    @override
    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of psycopg as those that connectors know."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(error) from error


def failure(error: psycopg.Error) -> DatabaseFailure:
    """What kind of failure it is."""
    state = error.sqlstate or ""
    text = " ".join(str(error).split())
    if state in _CONFLICTS:
        return Conflict(text)
    is_lost = state.startswith(_LOST) or (not state and isinstance(error, psycopg.OperationalError))
    return ConnectionLost(text) if is_lost else StatementFailed(f"{text} [{state}]" if state else text)
