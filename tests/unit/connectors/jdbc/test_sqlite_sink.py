"""Rows in SQLite: batches, upserts, exactly once; errors name the row."""

from __future__ import annotations

import datetime
import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Row, Types
from firesteel.common.errors import ProgramError
from firesteel.connectors.jdbc.database import Conflict, Connection, Session, write_rows
from firesteel.connectors.jdbc.exactly_once import LedgerCommitter, StagedRows
from firesteel.connectors.jdbc.sqlite import SqliteDatabase
from firesteel.connectors.jdbc.statement import Statement
from firesteel.contracts.sink import CommitRequest
from firesteel.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from firesteel.testing import CheckpointHarness

ITEM = Types.ROW_NAMED(["name", "price"], [Types.STRING(), Types.INT()])
INSERT = "INSERT INTO items (name, price) VALUES (?, ?)"


class Shop:
    """A database file with one table."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.options = JdbcConnectionOptions(f"jdbc:sqlite:{path}")
        self.execute("CREATE TABLE items (name TEXT PRIMARY KEY, price INT)")

    def execute(self, sql: str) -> list[Any]:
        connection = sqlite3.connect(self.path)
        with connection:
            rows = connection.execute(sql).fetchall()
        connection.close()
        return rows

    @property
    def items(self) -> list[Any]:
        return self.execute("SELECT * FROM items ORDER BY name")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop.db")


def at_least_once(shop: Shop, sql: str = INSERT, **execution: Any) -> JdbcSink:
    return JdbcSink.sink(sql, ITEM, shop.options, JdbcExecutionOptions(**execution))


def exactly_once(shop: Shop, sql: str = INSERT) -> JdbcSink:
    return JdbcSink.exactly_once_sink(sql, ITEM, shop.options)


def test_rows_are_written_when_a_batch_is_full_and_at_checkpoints(shop: Shop) -> None:
    harness = CheckpointHarness(at_least_once(shop, batch_size=2))
    harness[0].process([Row("a", 1)])
    assert shop.items == []
    harness[0].process([("b", 2), Row(name="c", price=3)])
    assert shop.items == [("a", 1), ("b", 2)]
    harness.checkpoint(1)
    assert shop.items == [("a", 1), ("b", 2), ("c", 3)]


def test_rows_are_written_when_their_time_has_come(shop: Shop) -> None:
    harness = CheckpointHarness(at_least_once(shop, batch_interval_ms=500))
    harness[0].process([("a", 1)])
    harness[0].advance(0.4)
    assert shop.items == []
    harness[0].advance(0.2)
    assert shop.items == [("a", 1)]


def test_an_upsert_replaces(shop: Shop) -> None:
    sql = JdbcSink.upsert_sql("items", ["name", "price"], ["name"])
    harness = CheckpointHarness(at_least_once(shop, sql))
    harness[0].process([("a", 1), ("b", 1), ("a", 2)])
    harness.finish()
    assert shop.items == [("a", 2), ("b", 1)]


@dataclass
class Item:
    name: str
    price: int


@pytest.mark.parametrize(
    "record",
    [Row(name="a", price=1), Row("a", 1), ("a", 1), ["a", 1], {"price": 1, "name": "a"}, Item("a", 1)],
    ids=repr,
)
@pytest.mark.parametrize("sql", [INSERT, "INSERT INTO items (price, name) VALUES (:price, :name)"])
def test_records_of_any_shape_are_taken_apart(shop: Shop, sql: str, record: Any) -> None:
    harness = CheckpointHarness(at_least_once(shop, sql))
    harness[0].process([record])
    harness.finish()
    assert shop.items == [("a", 1)]


def test_values_that_sqlite_does_not_have_are_written_as_text(shop: Shop) -> None:
    shop.execute("CREATE TABLE v (a, b, c, d, e, f)")
    at = datetime.datetime(2024, 2, 29, 12, 30)
    values = (Decimal("1.50"), at, at.date(), uuid.UUID(int=1), [1, {"x": None}], True)
    harness = CheckpointHarness(JdbcSink.sink("INSERT INTO v VALUES (?, ?, ?, ?, ?, ?)", None, shop.options))
    harness[0].process([values])
    harness.finish()
    assert shop.execute("SELECT * FROM v") == [
        ("1.50", "2024-02-29 12:30:00", "2024-02-29", str(uuid.UUID(int=1)), '[1, {"x": null}]', 1)
    ]


def test_exactly_once_rows_are_seen_when_their_checkpoint_is_complete(shop: Shop) -> None:
    harness = CheckpointHarness(exactly_once(shop))
    harness[0].process([("a", 1)])
    harness.checkpoint(1)
    harness[0].process([("b", 2)])
    assert shop.items == []
    harness.complete(1)
    assert shop.items == [("a", 1)]


def test_rows_of_a_checkpoint_are_written_once_however_often_it_is_continued_from(shop: Shop) -> None:
    """No key would keep them from being there twice."""
    shop.execute("DROP TABLE items")
    shop.execute("CREATE TABLE items (name TEXT, price INT)")
    harness = CheckpointHarness(exactly_once(shop), parallelism=2)
    harness[0].process([("a", 1)])
    harness[1].process([("b", 2)])
    first = harness.checkpoint(1)
    harness[0].process([("c", 3)])
    second = harness.checkpoint(2)
    harness.complete(1)
    for restored in (first, second, second, first):
        CheckpointHarness(exactly_once(shop), parallelism=3, restore=restored).close()
    harness.complete(2)  # a zombie, which does not know what happened since
    assert shop.items == [("a", 1), ("b", 2), ("c", 3)]


def test_the_commit_table_has_one_row_for_each_life_of_a_writer(shop: Shop) -> None:
    harness = CheckpointHarness(exactly_once(shop))
    for number in range(1, 21):
        harness[0].process([(f"a{number}", number)])
        harness.checkpoint(number)
        harness.complete(number)
    assert shop.execute("SELECT numbers FROM firesteel_commits") == [("1-20",)]


def test_the_commit_table_can_have_another_name(shop: Shop) -> None:
    once = JdbcExactlyOnceOptions.builder().with_commit_table("proofs").build()
    harness = CheckpointHarness(
        JdbcSink.exactly_once_sink(INSERT, ITEM, shop.options, None, once), checkpointing=False
    )
    harness[0].process([("a", 1)])
    harness.finish()
    assert shop.items == [("a", 1)]
    assert shop.execute("SELECT numbers FROM proofs") == [("1",)]


def test_rows_that_wait_are_written_by_the_statement_they_were_made_for(shop: Shop) -> None:
    harness = CheckpointHarness(exactly_once(shop))
    harness[0].process([("a", 1)])
    saved = harness.checkpoint(1)
    shop.execute("CREATE TABLE names (name TEXT)")
    changed = JdbcSink.exactly_once_sink("INSERT INTO names VALUES (?)", None, shop.options)
    after = CheckpointHarness(changed, restore=saved)
    after[0].process(["b"])
    after.checkpoint(2)
    after.complete(2)
    assert shop.items == [("a", 1)]
    assert shop.execute("SELECT * FROM names") == [("b",)]


def test_rows_of_one_origin_may_be_written_in_any_order(shop: Shop) -> None:
    """With another parallelism they are dealt out to several subtasks: a highest number would not do."""
    statement = Statement.parse(INSERT)
    committer = LedgerCommitter(
        Session(SqliteDatabase(str(shop.path)), 0), statement, "firesteel_commits", "job"
    )
    for number in (2, 3, 1, 2):
        committer.commit([CommitRequest(StagedRows("origin", number, statement, ((f"a{number}", number),)))])
    assert shop.items == [("a1", 1), ("a2", 2), ("a3", 3)]


@pytest.mark.parametrize("make", [at_least_once, exactly_once])
def test_a_constraint_that_is_violated_names_the_row(shop: Shop, make: Callable[[Shop], JdbcSink]) -> None:
    harness = CheckpointHarness(make(shop))
    harness[0].process([("a", 1), ("b", 1), ("a", 2)])
    with pytest.raises(Exception, match=r"the row \('a', 2\) cannot be written: .*UNIQUE constraint failed"):
        write_checkpoint(harness)
    assert shop.items == []


@pytest.mark.parametrize("make", [at_least_once, exactly_once])
def test_a_missing_table_is_noticed_before_the_first_record(
    shop: Shop, make: Callable[..., JdbcSink]
) -> None:
    with pytest.raises(Exception, match="no such table: nowhere"):
        CheckpointHarness(make(shop, "INSERT INTO nowhere VALUES (?, ?)"))


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    options = JdbcConnectionOptions(f"sqlite://{tmp_path}/no/such/folder.db")
    sink = JdbcSink.sink(INSERT, ITEM, options, JdbcExecutionOptions(max_retries=0))
    with pytest.raises(Exception, match=r"SQLite .*/no/such/folder.db cannot be opened"):
        CheckpointHarness(sink)


def test_records_that_do_not_fit_are_named(shop: Shop) -> None:
    with pytest.raises(ProgramError, match="3 parameters, but the records have 2 fields"):
        JdbcSink.sink("INSERT INTO items VALUES (?, ?, ?)", ITEM, shop.options)
    with pytest.raises(ProgramError, match=r"parameters \['cost'\], but the records have fields"):
        JdbcSink.sink("INSERT INTO items VALUES (:name, :cost)", ITEM, shop.options)
    harness = CheckpointHarness(at_least_once(shop))
    with pytest.raises(Exception, match=r"2 parameters, the record \('a', 1, 2\) has 3 fields"):
        harness[0].process([("a", 1, 2)])


def test_a_number_of_more_than_64_bits_is_named(shop: Shop) -> None:
    harness = CheckpointHarness(JdbcSink.sink(INSERT, None, shop.options))
    harness[0].process([("a", 2**64)])
    with pytest.raises(Exception, match=r"the row \('a', 18446744073709551616\) cannot be written.*64 bits"):
        harness.checkpoint(1)


def write_checkpoint(harness: CheckpointHarness) -> None:
    harness.checkpoint(1)
    harness.complete(1)


class Waits(SqliteDatabase):
    """Does not wait for a lock by itself; the pause before another try is where others give it back."""

    def __init__(self, path: Path, on_pause: Callable[[], None]) -> None:
        super().__init__(str(path), busy_seconds=0)
        object.__setattr__(self, "on_pause", on_pause)

    def pause(self, seconds: float) -> None:
        self.on_pause()  # type: ignore[attr-defined]


def test_a_database_that_others_write_to_is_waited_for(shop: Shop) -> None:
    other = sqlite3.connect(shop.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    session = Session(Waits(shop.path, other.close), max_retries=1)

    def write(connection: Connection) -> None:
        write_rows(connection, Statement.parse(INSERT), [("a", 1)])
        connection.commit()

    session.run("writing", write)
    assert shop.items == [("a", 1)]


def test_when_tries_run_out_the_error_says_what_and_where(shop: Shop) -> None:
    other = sqlite3.connect(shop.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    session = Session(Waits(shop.path, lambda: None), max_retries=1)
    with pytest.raises(Conflict, match=r"writing did not work in 2 tries with SQLite .*shop.db: .*locked"):
        session.run("writing", lambda connection: connection.execute(Statement.parse("DELETE FROM items")))
    other.close()
