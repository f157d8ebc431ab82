"""Databases on Spark itself: changes of PostgreSQL in, rows exactly once out, with a failure on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from firesteel.common import Types, WatermarkStrategy
from firesteel.datastream import MapFunction, StreamExecutionEnvironment
from firesteel.datastream.connectors.jdbc import JdbcSink
from firesteel.datastream.connectors.postgres_cdc import PostgresCdcSource
from firesteel_support.servers.postgres import TestDatabase

COPY = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


class FailsOnce(MapFunction):
    """Raises at row 700 of the first attempt."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def map(self, value: tuple[int, str]) -> tuple[int, str]:
        if value[0] == 700 and not self.marker.exists():
            self.marker.touch()
            raise ConnectionError("for once")
        return (value[0], value[1])


def test_rows_of_a_snapshot_are_copied_once(
    database: TestDatabase,
    environment: Callable[..., StreamExecutionEnvironment],
    tmp_path: Path,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    database.execute("CREATE TABLE copies (id int, name text)")
    database.execute("INSERT INTO t SELECT n, 'n' || n FROM generate_series(1, 1000) n")
    env = environment(2)
    env.enable_checkpointing(100)
    source = (
        PostgresCdcSource.builder()
        .set_connection_options(database.options())
        .set_tables("t")
        .set_snapshot_mode("only")
        .build()
    )
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "t").rebalance()
    copies = rows.map(FailsOnce(tmp_path / "failed"), COPY)
    copies.sink_to(JdbcSink.exactly_once_sink("INSERT INTO copies VALUES (?, ?)", COPY, database.options()))
    env.execute("copy")
    assert (tmp_path / "failed").exists()
    assert database.execute("SELECT * FROM copies ORDER BY id") == database.execute(
        "SELECT * FROM t ORDER BY id"
    )
