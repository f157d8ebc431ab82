"""The page on databases, where it needs a PostgreSQL; and reading and look-ups on a real one."""

from __future__ import annotations

import re
from pathlib import Path

from firesteel.common import Row, Time, WatermarkStrategy
from firesteel.datastream import AsyncDataStream
from firesteel.datastream.connectors.jdbc import (
    JdbcLookupFunction,
    JdbcNumericBetweenParametersProvider,
    JdbcSource,
)
from firesteel.testing import simulated_environment, use_simulator
from firesteel_support.servers.postgres import PASSWORD, USER, TestDatabase

PAGE = Path(__file__).parents[3] / "docs" / "databases.md"


def test_the_program_with_changes_runs(database: TestDatabase) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    database.execute("INSERT INTO orders VALUES (1, 'tea')")
    [program] = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for shown, here in (
        ("jdbc:postgresql://localhost:5432/shop", database.url),
        ('"replicator"', repr(USER)),
        ('"..."', repr(PASSWORD)),
        (".print()\n", ".execute_and_collect()\n"),
        ("orders.map(", "results = orders.map("),
        ('env.execute("changes of orders")\n', ""),
    ):
        assert shown in program
        program = program.replace(shown, here)
    names: dict = {}
    with use_simulator():
        exec(compile(program, "databases.md", "exec"), names)
        with names["results"] as results:
            assert next(results) == ("INSERT", 1)
            database.execute("UPDATE orders SET item = 'milk'")
            assert next(results) == ("UPDATE_AFTER", 1)


def test_rows_are_read_in_parts_and_looked_up(database: TestDatabase) -> None:
    database.execute("CREATE TABLE numbers (id int PRIMARY KEY, name text)")
    database.execute("INSERT INTO numbers SELECT n, 'n' || n FROM generate_series(1, 2500) n")
    source = (
        JdbcSource.builder()
        .set_connection_options(database.options())
        .set_sql("SELECT id FROM numbers WHERE id BETWEEN ? AND ? ORDER BY id")
        .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 2500).of_batch_num(3))
        .build()
    )
    env = simulated_environment(parallelism=2)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(
        lambda row: row.id % 100
    )
    names = JdbcLookupFunction("SELECT name FROM numbers WHERE id = ?", database.options(), max_connections=4)
    found = AsyncDataStream.unordered_wait(numbers, names, Time.seconds(60), 50).execute_and_collect()
    expected = [(n % 100, Row(name=f"n{n % 100}") if n % 100 else None) for n in range(1, 2501)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_rows_that_are_added_are_found(database: TestDatabase) -> None:
    database.execute("CREATE TABLE log (id bigserial PRIMARY KEY, line text)")
    database.execute("INSERT INTO log (line) VALUES ('a'), ('b')")
    source = (
        JdbcSource.builder()
        .set_connection_options(database.options())
        .set_sql("SELECT id, line FROM log")
        .set_incremental("id", 0, poll_interval_seconds=0.05)
        .build()
    )
    env = simulated_environment(parallelism=1)
    with env.from_source(source, WatermarkStrategy.no_watermarks(), "log").execute_and_collect() as lines:
        assert [next(lines).line, next(lines).line] == ["a", "b"]
        database.execute("INSERT INTO log (line) VALUES ('c')")
        assert next(lines).line == "c"
