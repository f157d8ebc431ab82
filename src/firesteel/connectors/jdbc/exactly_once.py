"""Rows that are seen once whatever fails: they wait in checkpoints, and one transaction writes them with a proof.

1. The writer keeps rows. At a checkpoint it hands them over as a `StagedRows`, named by who made it (the *origin*: one life of
   one writer) and a number that counts up from 1. No transaction is open.
2. When the checkpoint is complete the committer begins a transaction. It locks the origin's row of the commit table, which
   tells the numbers that have been written.
3. A number that is there has been written: by an earlier try whose answer to COMMIT was lost, or by a task that
   everybody believed dead. Otherwise the rows are written and the number is added, in the same transaction.

Because of the lock two committers of the same rows, of which one may be a zombie, come one after the other, and the second
one finds the number. Numbers of an origin have no gaps in the end, so its row is a range, and never grows: rows need not
be deleted, and a savepoint of any age can be continued from. Tries that fail block the task or fail the job: if
others continued meanwhile, older rows could replace newer ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import StateError
from firesteel.connectors.jdbc.database import Connection, Parameters, Session, write_rows
from firesteel.connectors.jdbc.ranges import NumberRanges
from firesteel.connectors.jdbc.statement import Statement, quoted
from firesteel.contracts.sink import CommitRequest, Committer, SinkContext, SinkFunction, SinkWriter

__all__ = ["ExactlyOnceWriter", "LedgerCommitter", "StagedRows"]


@dataclass(frozen=True)
class StagedRows:
    """The rows of a subtask for a checkpoint, with the statement they were made for: the program may change."""

    origin: str
    number: int
    statement: Statement
    rows: tuple[Parameters, ...]

    @override
    def __repr__(self) -> str:
        return f"StagedRows({self.origin} {self.number}: {len(self.rows)} rows)"


class ExactlyOnceWriter(SinkWriter[Any]):
    """Keeps rows until a checkpoint takes them. Every writer is an origin of its own, so that numbers never come twice."""

    def __init__(self, statement: Statement, take: Callable[[Any], Parameters], context: SinkContext) -> None:
        self._statement = statement
        self._take = take
        self._origin = f"{uuid.uuid4().hex}-{context.subtask}"
        self._number = 0
        self._rows: list[Parameters] = []

    @override
    def write(self, value: Any, context: SinkFunction.Context) -> None:
        self._rows.append(self._take(value))

    @override
    def prepare_commit(self) -> list[Any]:
        if not self._rows:
            return []
        self._number += 1
        rows, self._rows = tuple(self._rows), []
        return [StagedRows(self._origin, self._number, self._statement, rows)]


class LedgerCommitter(Committer):
    """Writes staged rows; all that are due in one transaction."""

    def __init__(self, session: Session, statement: Statement, table: str, job_id: str) -> None:
        self._session = session
        self._statement = statement
        self._ledger = Ledger(table, job_id)
        session.begin("looking at the statement", self._prepare)

    def _prepare(self, connection: Connection) -> None:
        self._ledger.create(connection)
        connection.check(self._statement)

    @override
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        staged = [request.get_committable() for request in requests]
        strange = [each for each in staged if not isinstance(each, StagedRows)]
        if strange:
            raise StateError(
                f"the checkpoint has {strange[0]!r} for a database, which is of another kind of sink: give the sinks "
                "different uids"
            )
        rows = sum(len(each.rows) for each in staged)
        done = self._session.run(
            f"committing {rows} rows", lambda connection: self._write(connection, staged)
        )
        for request, already in zip(requests, done, strict=True):
            if already:
                request.signal_already_committed()

    def _write(self, connection: Connection, staged: Sequence[StagedRows]) -> list[bool]:
        """One transaction; whether each was written before."""
        committed = self._ledger.lock(connection, sorted({each.origin for each in staged}))
        done = []
        new: list[StagedRows] = []
        for each in staged:
            done.append(each.number in committed[each.origin])
            if not done[-1]:
                new.append(each)
                committed[each.origin].add(each.number)
        for statement, group in groupby(new, key=lambda each: each.statement):
            write_rows(connection, statement, [row for each in group for row in each.rows])
        if new:
            self._ledger.note(connection, committed)
        connection.commit()
        return done

    @override
    def close(self) -> None:
        self._session.close()


class Ledger:
    """The commit table: a row per origin with the numbers that were written."""

    def __init__(self, table: str, job_id: str) -> None:
        name = quoted(table)
        self._table = table
        self._job_id = job_id
        self._create = (
            f"CREATE TABLE IF NOT EXISTS {name} (origin VARCHAR(80) PRIMARY KEY, job VARCHAR(80) NOT NULL, "
            "numbers TEXT NOT NULL, changed_at TIMESTAMP NOT NULL)"
        )
        self._exists = Statement.parse(f"SELECT count(*) FROM {name} WHERE origin = ''")
        self._insert = Statement.parse(
            f"INSERT INTO {name} (origin, job, numbers, changed_at) VALUES (?, ?, '', CURRENT_TIMESTAMP) "
            "ON CONFLICT (origin) DO NOTHING"
        )
        self._select = Statement.parse(f"SELECT numbers FROM {name} WHERE origin = ?")
        self._update = Statement.parse(
            f"UPDATE {name} SET numbers = ?, changed_at = CURRENT_TIMESTAMP WHERE origin = ?"
        )

    def create(self, connection: Connection) -> None:
        """Make the table, unless it exists."""
        connection.create_table(self._create, self._table)

    def lock(self, connection: Connection, origins: Sequence[str]) -> dict[str, NumberRanges]:
        """The numbers of origins, which nobody else changes until the transaction is over. Sorted: no deadlocks."""
        by_origin = {}
        for origin in origins:
            connection.execute(self._insert, (origin, self._job_id))
            [(numbers,)] = connection.lock(self._select, (origin,))
            by_origin[origin] = NumberRanges.parse(numbers)
        return by_origin

    def note(self, connection: Connection, committed: dict[str, NumberRanges]) -> None:
        """Replace the numbers of origins; `lock` has made their rows before."""
        connection.execute_many(
            self._update, [(str(numbers), origin) for origin, numbers in committed.items()]
        )
