"""What a connector needs of a database, whichever it is: connections, transactions, and three kinds of failure.

Drivers' exceptions are translated here and nowhere else (`sqlite`, `postgresql`; the tests have a simulated database):

- `ConnectionLost`: nobody knows what became of the last statement, a COMMIT included. Try again on another connection.
- `Conflict`: deadlock, serialization, a lock that was not to be had. The transaction is undone; try it again.
- `StatementFailed`: the statement or its values are wrong. Trying again is pointless.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from firesteel.common.errors import short_repr
from firesteel.connectors.jdbc.statement import Statement

__all__ = [
    "Conflict",
    "Connection",
    "ConnectionLost",
    "Database",
    "DatabaseFailure",
    "Parameters",
    "Session",
    "StatementFailed",
]

#: The values of one row.
Parameters = tuple[Any, ...]
T = TypeVar("T")

#: The pause before the first retry, in seconds; each further one is twice as long, up to the second.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

_LOG = logging.getLogger(__name__)


class DatabaseFailure(RuntimeError):
    """A database did not do what it was asked for; becomes the reason of a job's error, which names the operator."""


class ConnectionLost(DatabaseFailure):
    """There is no connection, or there is none any more."""


class Conflict(DatabaseFailure):
    """The transaction was undone because of others."""


class StatementFailed(DatabaseFailure):
    """The database understood, and refuses."""


class Connection(ABC):
    """One connection; a transaction begins with the first statement and ends with `commit` or `rollback`."""

    @abstractmethod
    def execute(self, statement: Statement, parameters: Parameters = ()) -> list[Parameters]:
        """Execute; the rows of the result, all of them."""

    @abstractmethod
    def execute_many(self, statement: Statement, rows: Sequence[Parameters]) -> None:
        """Execute once for every row, with as few round trips as the driver can."""

    @abstractmethod
    def stream(self, statement: Statement, parameters: Parameters, size: int) -> Iterator[list[Parameters]]:
        """The rows of a result, some at a time; the connection does nothing else meanwhile."""

    def query(self, statement: Statement, parameters: Parameters) -> list[Parameters]:
        """All rows of a query, in a transaction of its own."""
        rows = [row for rows in self.stream(statement, parameters, 10_000) for row in rows]
        self.rollback()
        return rows

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the last result."""

    @abstractmethod
    def check(self, statement: Statement) -> None:
        """Raise `StatementFailed` if the statement cannot be executed: a missing table, a misspelt column."""

    @abstractmethod
    def lock(self, statement: Statement, parameters: Parameters) -> list[Parameters]:
        """SELECT rows that nobody else changes, or gets by this method, until the transaction is over."""

    @abstractmethod
    def create_table(self, sql: str, name: str) -> None:
        """CREATE TABLE IF NOT EXISTS, also when others do the same at the same time; commits."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction; all of it counts, unless this raises."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction; nothing of it counts."""

    @abstractmethod
    def close(self) -> None:
        """Close; a transaction that is open does not count. Never raises."""


class Database(ABC):
    """Description of a database; travels to the tasks by pickle."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How messages call it; without passwords."""

    @abstractmethod
    def connect(self) -> Connection:
        """A new connection; raises `ConnectionLost`, or `StatementFailed` when trying again is pointless."""

    def pause(self, seconds: float) -> None:
        """Wait before another try."""
        time.sleep(seconds)


class Session:
    """A connection that is made when it is needed, and made again when it is lost."""

    def __init__(self, database: Database, max_retries: int) -> None:
        self._database = database
        self._max_retries = max_retries
        self._connection: Connection | None = None

    def run(self, what: str, transaction: Callable[[Connection], T]) -> T:
        """Call ``transaction``, which commits by itself, until it works or tries run out. ``what`` is for messages."""
        tries = 0
        while True:
            try:
                return self._once(transaction)
            except (ConnectionLost, Conflict) as error:
                tries += 1
                if tries > self._max_retries:
                    raise type(error)(
                        f"{what} did not work in {tries} tries with {self._database.name}: {error}"
                    ) from error
                _LOG.warning(
                    "%s did not work with %s, and is tried again: %s", what, self._database.name, error
                )
            except StatementFailed as error:
                raise StatementFailed(f"{what} was refused by {self._database.name}: {error}") from error
            self._database.pause(min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE))

    def begin(self, what: str, transaction: Callable[[Connection], T]) -> T:
        """Like `run`, for the first transaction of all: whoever begins with a failure is never closed."""
        try:
            return self.run(what, transaction)
        except BaseException:
            self.close()
            raise

    def _once(self, transaction: Callable[[Connection], T]) -> T:
        if self._connection is None:
            self._connection = self._database.connect()
        try:
            return transaction(self._connection)
        except ConnectionLost:
            self.close()
            raise
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        assert self._connection is not None
        try:
            self._connection.rollback()
        except DatabaseFailure:
            self.close()  # that undoes it, too

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def write_rows(connection: Connection, statement: Statement, rows: Sequence[Parameters]) -> None:
    """Execute for all rows; an error names the row that cannot be written."""
    try:
        connection.execute_many(statement, rows)
    except StatementFailed as error:
        connection.rollback()
        raise _with_row(connection, statement, rows, error) from error


def _with_row(
    connection: Connection, statement: Statement, rows: Sequence[Parameters], error: StatementFailed
) -> StatementFailed:
    """Try the rows one by one, in a transaction that is undone, to learn which one it is."""
    for row in rows:
        try:
            connection.execute(statement, row)
        except StatementFailed as failure:
            return StatementFailed(f"the row {short_repr(row)} cannot be written: {failure}")
    return error
