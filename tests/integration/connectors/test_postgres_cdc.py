"""Change data capture from a real PostgreSQL: nothing is missed, nothing comes twice, whatever is cut where."""

from __future__ import annotations

import contextlib
import datetime
import random
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from firesteel.common import Row, RowKind, WatermarkStrategy
from firesteel.common.errors import ProgramError
from firesteel.datastream.connectors.postgres_cdc import (
    ChangeDeserializer,
    PostgresCdcSource,
    PostgresChange,
    Unavailable,
)
from firesteel.testing import CheckpointHarness, OperatorCheckpoint, simulated_environment
from firesteel_support.servers.postgres import TestDatabase

PATIENCE = 120.0
Open = Callable[..., "Capture"]


class Capture:
    """A source that is driven by hand."""

    def __init__(self, source: PostgresCdcSource, restore: OperatorCheckpoint | None = None) -> None:
        self.harness = CheckpointHarness(source, restore=restore)
        self.records: list[Any] = []
        self.is_open = True

    def read(self, count: int, limit: int = 1000) -> list[Any]:
        """So many records more, and not one too many."""
        deadline = time.monotonic() + PATIENCE
        found: list[Any] = []
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came: {found}"
            found += self.harness[0].poll(min(limit, count - len(found)))
        self.records += found
        return found

    def read_tables(self, count: int) -> list[Any]:
        """All rows that are there at first; behind them, only changes come."""
        found = self.read(count)
        reader: Any = self.harness[0].source._reader
        wait_until(lambda: self.harness[0].poll() == [] and reader._position.snapshot_done)
        return found

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.harness.close()


@pytest.fixture
def capture(database: TestDatabase) -> Iterator[Open]:
    """Sources of the table ``t`` that are closed in the end."""
    opened: list[Capture] = []

    def make(
        restore: OperatorCheckpoint | None = None, tables: tuple[str, ...] = ("t",), **more: Any
    ) -> Capture:
        for old in opened:
            if not more.get("beside"):
                old.close()
        more.pop("beside", None)
        opened.append(Capture(source(database, *tables, **more), restore))
        return opened[-1]

    yield make
    for each in opened:
        with contextlib.suppress(Exception):
            each.close()


def source(database: TestDatabase, *tables: str, mode: str = "initial", **more: Any) -> PostgresCdcSource:
    builder = (
        PostgresCdcSource.builder()
        .set_connection_options(database.options())
        .set_tables(*tables)
        .set_slot_name(f"slot_{database.name}")
        .set_snapshot_mode(mode)
        .set_patience_seconds(more.pop("patience", 60))
    )
    if "deserializer" in more:
        builder.set_deserializer(more.pop("deserializer"))
    if more.pop("ignore_truncate", False):
        builder.ignore_truncate()
    return builder.build()


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    names = {
        RowKind.INSERT: "+I",
        RowKind.UPDATE_BEFORE: "-U",
        RowKind.UPDATE_AFTER: "+U",
        RowKind.DELETE: "-D",
    }
    return [(names[row.get_row_kind()], *row) for row in rows]


def create(database: TestDatabase, rows: int = 0, full: bool = True) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    if full:
        database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t SELECT n, 'old ' || n FROM generate_series(1, %s) n", (rows,))


def test_a_job_reads_the_rows_and_then_every_change(database: TestDatabase) -> None:
    create(database, 2)
    env = simulated_environment(parallelism=1)
    stream = env.from_source(source(database, "t"), WatermarkStrategy.no_watermarks(), "cdc")
    seen = []
    with stream.execute_and_collect() as results:
        seen.append(next(results))
        seen.append(next(results))
        database.execute("UPDATE t SET name = 'new' WHERE id = 1")
        database.execute("DELETE FROM t WHERE id = 2")
        database.execute("INSERT INTO t VALUES (3, NULL)")
        seen += [next(results) for _ in range(4)]
    assert shown(seen) == [
        ("+I", 1, "old 1"), ("+I", 2, "old 2"), ("-U", 1, "old 1"), ("+U", 1, "new"), ("-D", 2, "old 2"), ("+I", 3, None),
    ]  # fmt: skip
    assert seen[0].name == "old 1"


def test_without_full_identity_there_are_keys_instead_of_rows_before(
    database: TestDatabase, capture: Open
) -> None:
    create(database, 3, full=False)
    reading = capture()
    reading.read(3)
    database.execute("UPDATE t SET name = 'new' WHERE id = 1")
    database.execute("UPDATE t SET id = 20 WHERE id = 2")
    database.execute("DELETE FROM t WHERE id = 3")
    assert shown(reading.read(4)) == [("+U", 1, "new"), ("-D", 2, None), ("+I", 20, "old 2"), ("-D", 3, None)]


def test_transactions_come_in_the_order_of_their_commits(database: TestDatabase, capture: Open) -> None:
    create(database, 1)
    reading = capture(deserializer=ChangeDeserializer.changes())
    database_connection = database.server.connect(database.name)
    reading.read(1)  # so what comes from now on is a change, not a row of the table as it was found
    with database_connection, database.server.connect(database.name) as other:
        database_connection.execute("BEGIN")
        database_connection.execute("INSERT INTO t VALUES (11, 'begun first'), (12, 'begun first')")
        other.execute("INSERT INTO t VALUES (13, 'committed first')")
        database_connection.execute("COMMIT")
    changes = reading.read(3)
    assert [(change.after.id, change.sequence) for change in changes][-2:] == [(11, 1), (12, 2)]
    assert changes[0].after.id == 13
    assert changes[0].commit_lsn < changes[1].commit_lsn == changes[2].commit_lsn


def wait_for_slot(database: TestDatabase) -> None:
    """Until somebody reads from it, and it is known which transactions are in the snapshot."""
    wait_until(
        lambda: bool(
            database.execute(
                f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 'slot_{database.name}' AND active "
                "AND confirmed_flush_lsn IS NOT NULL"
            )
        )
    )


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("seed", range(6))
def test_cuts_anywhere_lose_and_repeat_nothing(database: TestDatabase, capture: Open, seed: int) -> None:
    """Rows are changed all the time, also those of tables that are read for the first time; every stop goes on elsewhere."""
    generator = random.Random(seed)
    create(database, 40)
    reading = capture()
    saved: OperatorCheckpoint | None = None
    kept: list[Row] = []
    for number in range(12):
        change(database, generator)
        for _ in range(generator.randint(1, 4)):
            kept += reading.harness[0].poll(generator.randint(1, 7))
            time.sleep(generator.random() * 0.02)  # so that something has come, or not
        saved = reading.harness.checkpoint(number + 1)
        if generator.random() < 0.5:
            reading.harness.complete(number + 1)
        if generator.random() < 0.7:
            reading.harness[0].poll(3)  # never part of a checkpoint: it comes again
            change(database, generator)
            reading = capture(saved)
    read_until(reading, kept, lambda: replayed(kept) == table_of(database))
    database.execute("INSERT INTO t VALUES (999, 'the end')")  # nothing comes before it any more
    read_until(reading, kept, lambda: kept[-1].id == 999)
    assert replayed(kept) == table_of(database)


def read_until(reading: Capture, kept: list[Row], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        kept += reading.harness[0].poll(7)


def table_of(database: TestDatabase) -> dict[int, Any]:
    return dict(database.execute("SELECT id, name FROM t"))


def change(database: TestDatabase, generator: random.Random) -> None:
    for _ in range(generator.randint(0, 4)):
        id_, other = generator.randint(1, 60), generator.randint(1, 60)
        match generator.randrange(4):
            case 0:
                database.execute("INSERT INTO t VALUES (%s, 'new') ON CONFLICT DO NOTHING", (id_,))
            case 1:
                database.execute("DELETE FROM t WHERE id = %s", (id_,))
            case 2:
                database.execute("UPDATE t SET name = name || '+' WHERE id BETWEEN %s AND %s", (id_, id_ + 3))
            case _:
                database.execute(
                    "UPDATE t SET id = %s WHERE id = %s AND NOT EXISTS (SELECT 1 FROM t WHERE id = %s)",
                    (other, id_, other),
                )


def replayed(rows: list[Row]) -> dict[int, Any]:
    """The table that the changes make; each must fit what is there, so that nothing can be missing or come twice."""
    table: dict[int, Any] = {}
    for row in rows:
        match row.get_row_kind():
            case RowKind.INSERT | RowKind.UPDATE_AFTER:
                assert row.id not in table, f"{row} comes twice"
                table[row.id] = row.name
            case _:
                assert table.pop(row.id) == row.name, f"{row} was not there"
    return table


def test_a_change_is_confirmed_only_when_a_checkpoint_is_complete(
    database: TestDatabase, capture: Open
) -> None:
    create(database)
    reading = capture()
    wait_for_slot(database)

    def confirmed() -> Any:
        own = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"
        return database.execute(own)[0][0]

    before = confirmed()
    database.execute("INSERT INTO t VALUES (1, 'a')")
    reading.read(1)
    wait_until(
        lambda: reading.harness[0].source._reader._position.count == 0 or not reading.harness[0].poll()
    )
    reading.harness.checkpoint(1)
    assert confirmed() == before
    reading.harness.complete(1)
    wait_until(lambda: confirmed() != before)


def test_an_idle_table_does_not_keep_the_servers_log(database: TestDatabase, capture: Open) -> None:
    create(database)
    database.execute("CREATE TABLE other (id int)")
    reading = capture()
    wait_for_slot(database)
    database.execute("INSERT INTO other SELECT generate_series(1, 1000)")
    [(written,)] = database.execute("SELECT pg_current_wal_lsn()::text")
    number = 0

    def caught_up() -> bool:
        nonlocal number
        number += 1
        assert reading.harness[0].poll() == []
        reading.harness.checkpoint(number)
        reading.harness.complete(number)
        [(done,)] = database.execute(
            "SELECT bool_and(confirmed_flush_lsn >= %s::pg_lsn) FROM pg_replication_slots "
            "WHERE database = current_database()",
            (written,),
        )
        return bool(done)

    wait_until(caught_up)


def test_values_are_the_same_in_the_snapshot_and_in_changes(database: TestDatabase, capture: Open) -> None:
    database.execute("CREATE DOMAIN cents AS int; CREATE TYPE mood AS ENUM ('good', 'bad')")
    database.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, a smallint, b real, c double precision, d numeric, e boolean, f timestamp, "
        "g timestamptz, h date, i uuid, j jsonb, k bytea, l int[], m text[], n cents, o mood, p interval, q time, r varchar(5), "
        "s char(3), u int GENERATED ALWAYS AS (1) STORED)"
    )
    database.execute("SET timezone = 'Asia/Tokyo'")
    values = (
        "VALUES (%s, 1, 1.5, 0.1, 12.340, true, '2024-02-29 12:30:00.123456', '2024-02-29 12:30:00+02', '2024-02-29', "
        "'00000000-0000-0000-0000-000000000001', '{\"a\": [1, null]}', '\\x00ff', '{1,NULL,3}', '{\"a,b\",NULL}', 7, 'good', "
        "'1 day 2 hours', '12:30', 'abc', 'x')"
    )
    database.execute(f"INSERT INTO t {values}", (1,))
    reading = capture()
    [first] = reading.read(1)
    wait_for_slot(database)
    database.execute(f"INSERT INTO t {values}", (2,))
    [second] = reading.read(1)
    assert [*first][1:] == [*second][1:]
    assert [*map(type, first)] == [*map(type, second)]
    assert first.as_dict() == {
        "id": 1, "a": 1, "b": 1.5, "c": 0.1, "d": Decimal("12.340"), "e": True,
        "f": datetime.datetime(2024, 2, 29, 12, 30, 0, 123456),
        "g": datetime.datetime(2024, 2, 29, 10, 30, tzinfo=datetime.UTC),
        "h": datetime.date(2024, 2, 29), "i": uuid.UUID(int=1), "j": {"a": [1, None]}, "k": b"\0\xff",
        "l": [1, None, 3], "m": ["a,b", None], "n": 7, "o": "good", "p": datetime.timedelta(days=1, hours=2),
        "q": datetime.time(12, 30), "r": "abc", "s": "x  ",
    }  # fmt: skip


def test_a_column_that_is_added_appears(database: TestDatabase, capture: Open) -> None:
    create(database, 1)
    reading = capture()
    reading.read(1)
    wait_for_slot(database)
    database.execute("ALTER TABLE t ADD COLUMN price int")
    database.execute("INSERT INTO t VALUES (2, 'b', 5)")
    assert reading.read(1) == [Row(id=2, name="b", price=5)]


def test_a_large_value_that_has_not_changed_is_unavailable(database: TestDatabase, capture: Open) -> None:
    create(database, full=False)
    database.execute("ALTER TABLE t ALTER COLUMN name SET STORAGE EXTERNAL; ALTER TABLE t ADD COLUMN n int")
    database.execute("INSERT INTO t VALUES (1, repeat('x', 10000), 1)")
    reading = capture()
    reading.read(1)
    wait_for_slot(database)
    database.execute("UPDATE t SET n = 2")
    [row] = reading.read(1)
    assert (row.id, row.name, row.n) == (1, Unavailable.VALUE, 2)
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("UPDATE t SET n = 3")
    assert [len(row.name) for row in reading.read(2)] == [10000, 10000]


def test_truncate_is_an_error_a_record_or_nothing(database: TestDatabase, capture: Open) -> None:
    create(database, 1)
    reading = capture()
    reading.read_tables(1)
    saved = reading.harness.checkpoint(1)
    database.execute("TRUNCATE t")
    database.execute("INSERT INTO t VALUES (5, 'after')")
    with pytest.raises(Exception, match=r"public.t was truncated.*ignore_truncate\(\)"):
        reading.read(1)
    assert shown(capture(saved, ignore_truncate=True).read(1)) == [("+I", 5, "after")]
    [first, second] = capture(saved, deserializer=ChangeDeserializer.changes()).read(2)
    assert (first.operation, second.operation) == ("truncate", "insert")


def test_several_tables_are_told_apart(database: TestDatabase, capture: Open) -> None:
    create(database, 1)
    database.execute("CREATE TABLE u (a text PRIMARY KEY)")
    database.execute("INSERT INTO u VALUES ('b'), ('a')")
    with pytest.raises(ProgramError, match="cannot be told apart"):
        source(database, "t", "u")
    reading = capture(tables=("t", "public.u"), deserializer=ChangeDeserializer.changes())
    found: list[PostgresChange] = reading.read(3)
    assert [(change.table, change.after[0]) for change in found] == [("t", 1), ("u", "a"), ("u", "b")]


def test_the_server_may_be_killed_in_the_middle(database: TestDatabase, capture: Open) -> None:
    create(database, 1)
    reading = capture()
    reading.read(1)
    wait_for_slot(database)
    database.execute("INSERT INTO t VALUES (2, 'a')")
    reading.read(1)
    database.server.server.kill()
    database.server.server.start()
    database.execute("INSERT INTO t VALUES (3, 'b')")
    assert shown(reading.read(1)) == [("+I", 3, "b")]


def test_a_snapshot_alone_has_an_end(database: TestDatabase) -> None:
    create(database, 5)
    env = simulated_environment(parallelism=1)
    stream = env.from_source(source(database, "t", mode="only"), WatermarkStrategy.no_watermarks(), "cdc")
    assert [row.id for row in stream.execute_and_collect()] == [1, 2, 3, 4, 5]
    # The slot is temporary: the server drops it when it notices that the connection is closed.
    left = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    deadline = time.monotonic() + 60
    while database.execute(left) != [(0,)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_a_snapshot_there_are_only_changes(database: TestDatabase, capture: Open) -> None:
    create(database, 5)
    reading = capture(mode="never")
    wait_for_slot(database)
    database.execute("INSERT INTO t VALUES (6, 'a')")
    assert shown(reading.read(1)) == [("+I", 6, "a")]


def test_a_slot_that_is_gone_or_stands_elsewhere_is_said(database: TestDatabase, capture: Open) -> None:
    create(database, 1)
    reading = capture()
    reading.read(1)
    wait_for_slot(database)
    saved = reading.harness.checkpoint(1)
    reading.close()
    slot = f"slot_{database.name}"
    database.execute("INSERT INTO t VALUES (2, 'lost')")
    database.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", (slot,))
    with pytest.raises(Exception, match="the changes between are gone"):
        capture(saved).read(1)
    database.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
    with pytest.raises(Exception, match="is gone, and with it the changes since"):
        capture(saved).read(1)


def test_a_slot_that_somebody_else_reads_from_is_said(database: TestDatabase, capture: Open) -> None:
    create(database)
    first = capture(mode="never")
    wait_for_slot(database)
    database.execute("INSERT INTO t VALUES (6, 'a')")
    first.read(1)  # it does not only hold the slot that it has just made, but reads from it
    with pytest.raises(Exception, match="somebody else reads from the replication slot"):
        capture(beside=True, mode="never", patience=0).read(1)


def test_mistakes_are_said_before_anything_is_read(database: TestDatabase, capture: Open) -> None:
    create(database)
    with pytest.raises(Exception, match=r"there is no table public.nothing"):
        capture(tables=("nothing",)).read(1)
    database.execute("CREATE TABLE u (id int); CREATE PUBLICATION p FOR TABLE u")
    database.execute(f"ALTER PUBLICATION p RENAME TO slot_{database.name}")
    with pytest.raises(Exception, match=r'ALTER PUBLICATION "slot_\w+" ADD TABLE "public"."t"'):
        capture().read(1)
    with pytest.raises(ProgramError, match="needs set_connection_options"):
        PostgresCdcSource.builder().build()
    with pytest.raises(ProgramError, match="is 'initial', 'never' or 'only'"):
        PostgresCdcSource.builder().set_snapshot_mode("always")
    with pytest.raises(ProgramError, match="lower case letters"):
        PostgresCdcSource.builder().set_slot_name("Slot 1")


def test_changes_of_partitions_are_those_of_the_table(database: TestDatabase, capture: Open) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.execute("INSERT INTO t VALUES (1, 'a'), (11, 'b')")
    reading = capture()
    reading.read_tables(2)
    database.execute("INSERT INTO t VALUES (2, 'c'), (12, 'd')")
    assert sorted(shown(reading.read(2))) == [("+I", 2, "c"), ("+I", 12, "d")]


@pytest.mark.parametrize(
    "leaving_out", ["TABLE t WITH (publish = 'insert')", "TABLE t (id)", "TABLE t WHERE (id > 1)"]
)
def test_a_publication_that_leaves_something_out_is_refused(
    database: TestDatabase, capture: Open, leaving_out: str
) -> None:
    create(database)
    database.execute(f"CREATE PUBLICATION slot_{database.name} FOR {leaving_out}")
    with pytest.raises(Exception, match="which would be missed in silence"):
        capture().read(1)
