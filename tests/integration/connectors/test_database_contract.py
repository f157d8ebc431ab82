"""What the exactly-once sink relies on, the same on every database: simulated, SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from firesteel.connectors.jdbc.database import Connection, Database
from firesteel.connectors.jdbc.exactly_once import Ledger
from firesteel.connectors.jdbc.options import JdbcExactlyOnceOptions, JdbcExecutionOptions
from firesteel.connectors.jdbc.sink import JdbcSink
from firesteel.connectors.jdbc.sqlite import SqliteDatabase
from firesteel.connectors.jdbc.statement import Statement
from firesteel.connectors.jdbc.urls import database_of
from firesteel.testing import CheckpointHarness
from firesteel_support.servers.postgres import TestDatabase
from firesteel_support.simulated_database import SimulatedDatabase, World

INSERT = Statement.parse("INSERT INTO output VALUES (?)")


@dataclass
class Target:
    """A database with a table ``output`` of one column, which anybody can read."""

    database: Database
    read: Callable[[], list[Any]]

    def sink(self) -> JdbcSink:
        return JdbcSink._of(INSERT, None, self.database, JdbcExecutionOptions(), JdbcExactlyOnceOptions())


@pytest.fixture(params=["simulated", "sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    match request.param:
        case "simulated":
            world = World(0, trouble=0.0)
            simulated = SimulatedDatabase.of(world)
            yield Target(simulated, lambda: sorted(number for (number,) in world.rows))
            simulated.forget()
        case "sqlite":
            path = tmp_path / "output.db"
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("CREATE TABLE output (n INT)")
                query = "SELECT n FROM output ORDER BY n"
                yield Target(
                    SqliteDatabase(str(path)), lambda: [n for (n,) in connection.execute(query).fetchall()]
                )
        case _:
            server: TestDatabase = request.getfixturevalue("database")
            server.execute("CREATE TABLE output (n int)")
            query = "SELECT n FROM output ORDER BY n"
            yield Target(database_of(server.options()), lambda: [n for (n,) in server.execute(query)])


def test_crash_restore_rescale_duplicate_and_late_commits(target: Target) -> None:
    first = CheckpointHarness(target.sink(), 2)
    first[0].process([(1,)])
    first[1].process([(2,)])
    one = first.checkpoint(1)
    assert target.read() == []
    first[0].process([(3,)])
    two = first.checkpoint(2)
    second = CheckpointHarness(target.sink(), 3, restore=one)  # the first attempt is believed to be dead
    assert target.read() == [1, 2]
    second[2].process([(4,)])
    three = second.checkpoint(3)
    first.complete(1)  # and was not
    second.complete(3)
    second.complete(3)
    third = CheckpointHarness(target.sink(), 1, restore=three)
    assert target.read() == [1, 2, 4]
    fork = CheckpointHarness(
        target.sink(), 1, restore=two
    )  # somebody starts from another savepoint on purpose
    assert target.read() == [1, 2, 3, 4]
    for harness in (first, second, third, fork):
        harness.close()


def test_what_is_not_committed_does_not_count(target: Target) -> None:
    connection = target.database.connect()
    connection.execute_many(INSERT, [(1,), (2,)])
    connection.rollback()
    connection.execute_many(INSERT, [(3,)])
    connection.close()
    assert target.read() == []


def test_who_locks_second_sees_what_the_first_has_noted(target: Target) -> None:
    """Also when the first one has not committed yet, as a zombie in the middle of its transaction."""
    ledger = Ledger("firesteel_commits", "job")
    first, second = target.database.connect(), target.database.connect()
    ledger.create(first)
    noted = ledger.lock(first, ["origin"])
    noted["origin"].add(1)
    ledger.note(first, noted)
    seen: list[bool] = []
    begun = threading.Event()

    def look(connection: Connection) -> None:
        begun.set()
        seen.append(1 in ledger.lock(connection, ["origin"])["origin"])
        connection.commit()

    if isinstance(target.database, SimulatedDatabase):
        actors = target.database.world.actors
        actors.spawn(lambda: look(second))
        actors.step()
        first.commit()
        actors.finish()
    else:
        other = threading.Thread(target=look, args=(second,))
        other.start()
        begun.wait()
        assert seen == []
        first.commit()
        other.join()
    assert seen == [True]
    first.close()
    second.close()
