"""JdbcSink on a real PostgreSQL: what it writes, what it says, and that it survives the server."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from firesteel.common import Row, Types
from firesteel.connectors.jdbc.database import Connection, Session, write_rows
from firesteel.connectors.jdbc.statement import Statement
from firesteel.connectors.jdbc.urls import database_of
from firesteel.datastream.connectors.jdbc import JdbcExecutionOptions, JdbcSink
from firesteel.testing import CheckpointHarness, simulated_environment
from firesteel_support.servers.postgres import TestDatabase

Drive = Callable[..., CheckpointHarness]

ITEM = Types.ROW_NAMED(["name", "price"], [Types.STRING(), Types.INT()])
INSERT = "INSERT INTO items (name, price) VALUES (?, ?)"


@pytest.fixture
def shop(database: TestDatabase) -> TestDatabase:
    database.execute("CREATE TABLE items (name text PRIMARY KEY, price int CHECK (price > 0))")
    return database


@pytest.fixture
def drive() -> Iterator[Drive]:
    """Harnesses that are closed in the end."""
    driven: list[CheckpointHarness] = []

    def make(sink: JdbcSink, parallelism: int = 1, **more: Any) -> CheckpointHarness:
        driven.append(CheckpointHarness(sink, parallelism, **more))
        return driven[-1]

    yield make
    for harness in driven:
        harness.close()


def items(shop: TestDatabase) -> list[tuple[Any, ...]]:
    return shop.execute("SELECT name, price FROM items ORDER BY name")


def test_a_job_upserts(shop: TestDatabase) -> None:
    env = simulated_environment(parallelism=2)
    rows = [Row(f"item {number % 10}", number + 1) for number in range(100)]
    sink = JdbcSink.sink(
        JdbcSink.upsert_sql("items", ["name", "price"], ["name"]),
        ITEM,
        shop.options(),
        JdbcExecutionOptions(batch_size=7),
    )
    env.from_collection(rows, ITEM).key_by(lambda row: row[0]).map(lambda row: row, ITEM).add_sink(sink)
    env.execute()
    assert items(shop) == sorted((f"item {number}", 91 + number) for number in range(10))


def test_rows_are_there_once_after_kills_of_the_server(shop: TestDatabase, drive: Drive) -> None:
    shop.execute("ALTER TABLE items DROP CONSTRAINT items_pkey")
    sink = JdbcSink.exactly_once_sink(INSERT, ITEM, shop.options())
    harness = drive(sink, parallelism=2)
    harness[0].process([("a", 1)])
    harness[1].process([("b", 2)])
    saved = harness.checkpoint(1)
    shop.server.server.kill()
    shop.server.server.start()
    harness.complete(1)  # on a new connection
    harness[0].process([("c", 3)])
    harness.checkpoint(2)
    for parallelism in (1, 3):
        drive(sink, parallelism, restore=saved)
    harness.complete(2)
    assert items(shop) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_connection_that_is_lost_in_commit_is_asked_again(shop: TestDatabase, drive: Drive) -> None:
    """The transaction has been committed, and nobody heard the answer."""
    shop.execute("ALTER TABLE items DROP CONSTRAINT items_pkey")
    harness = drive(JdbcSink.exactly_once_sink(INSERT, ITEM, shop.options()))
    harness[0].process([("a", 1)])
    harness.checkpoint(1)
    committer: Any = harness[0].operator._committer
    committer._session.run("waking up", lambda connection: connection.check(Statement.parse("SELECT 1")))
    connection = committer._session._connection
    commit = connection.commit

    def commit_and_lose() -> None:
        commit()
        connection._connection.close()
        commit()

    connection.commit = commit_and_lose
    harness.complete(1)
    assert items(shop) == [("a", 1)]


def test_many_that_begin_together_make_one_commit_table(shop: TestDatabase, drive: Drive) -> None:
    from concurrent.futures import ThreadPoolExecutor

    sink = JdbcSink.exactly_once_sink(INSERT, ITEM, shop.options())
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: drive(sink), range(6)))
    assert shop.execute("SELECT count(*) FROM firesteel_commits") == [(0,)]


def test_values_arrive_as_they_are(database: TestDatabase, drive: Drive) -> None:
    database.execute(
        "CREATE TABLE v (a numeric, b timestamptz, c date, d uuid, e int[], f jsonb, g bytea, h boolean, i text)"
    )
    at = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
    values = (
        Decimal("1.50"), at, at.date(), uuid.UUID(int=1), [1, 2], {"x": [None]}, b"\0\xff", True, "50% ?",
    )  # fmt: skip
    harness = drive(
        JdbcSink.sink("INSERT INTO v VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", None, database.options())
    )
    harness[0].process([values, (None,) * 9])
    harness.finish()
    assert database.execute("SELECT * FROM v") == [values, (None,) * 9]


def test_a_wrong_password_is_said_at_once_and_not_shown(shop: TestDatabase, drive: Drive) -> None:
    sink = JdbcSink.sink(INSERT, ITEM, shop.options(password="wrong-one"))
    with pytest.raises(Exception, match=r"password authentication failed.*check user, password") as caught:
        drive(sink)
    assert "wrong-one" not in str(caught.value)


def test_a_server_that_is_down_is_named(shop: TestDatabase, drive: Drive) -> None:
    options = shop.options(url=f"jdbc:postgresql://127.0.0.1:1/{shop.name}")
    sink = JdbcSink.sink(INSERT, ITEM, options, JdbcExecutionOptions(max_retries=1))
    with pytest.raises(Exception, match=r"did not work in 2 tries with PostgreSQL tester@127.0.0.1:1/"):
        drive(sink)


def test_a_missing_table_is_noticed_before_the_first_record(shop: TestDatabase, drive: Drive) -> None:
    with pytest.raises(Exception, match='relation "nowhere" does not exist'):
        drive(JdbcSink.sink("INSERT INTO nowhere VALUES (?)", None, shop.options()))


def test_a_constraint_that_is_violated_names_the_row(shop: TestDatabase, drive: Drive) -> None:
    harness = drive(JdbcSink.sink(INSERT, ITEM, shop.options()))
    harness[0].process([("a", 1), ("b", -5), ("c", 1)])
    with pytest.raises(Exception, match=r"the row \('b', -5\) cannot be written: .*items_price_check"):
        harness.checkpoint(1)
    assert items(shop) == []


def test_a_deadlock_is_tried_again(shop: TestDatabase) -> None:
    """Two transactions take the same rows in opposite orders; the server ends one of them."""
    import threading

    shop.execute("INSERT INTO items VALUES ('a', 1), ('b', 1)")
    update = Statement.parse("UPDATE items SET price = price + 1 WHERE name = ?")
    both = threading.Barrier(2)
    conflicts = []

    def writer(first: str, second: str) -> None:
        session = Session(database_of(shop.options()), 5)
        tries = iter(range(10))

        def transaction(connection: Connection) -> None:
            attempt = next(tries)
            write_rows(connection, update, [(first,)])
            if attempt == 0:
                both.wait(60)
            else:
                conflicts.append(first)
            write_rows(connection, update, [(second,)])
            connection.commit()

        session.run("updating", transaction)
        session.close()

    threads = [threading.Thread(target=writer, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert conflicts
    assert items(shop) == [("a", 3), ("b", 3)]
