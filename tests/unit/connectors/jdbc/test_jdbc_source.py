"""Reading SQLite: parts of a query, rows with higher numbers, positions that survive, look-ups."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Row, Time, Types, WatermarkStrategy
from firesteel.common.errors import ProgramError
from firesteel.connectors.jdbc.lookup import LookupCache
from firesteel.datastream import AsyncDataStream
from firesteel.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcGenericParameterValuesProvider,
    JdbcLookupFunction,
    JdbcNumericBetweenParametersProvider,
    JdbcSource,
)
from firesteel.testing import CheckpointHarness, simulated_environment

PATIENCE = 120.0
Drive = Callable[..., CheckpointHarness]


class Numbers:
    """A database file with a table of numbers."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.options = JdbcConnectionOptions(f"jdbc:sqlite:{path}")
        self.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, name TEXT)")
        self.add(*range(1, count + 1))

    def execute(self, sql: str, *rows: Any) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            connection.executemany(sql, rows) if rows else connection.execute(sql)
        connection.close()

    def add(self, *ids: int) -> None:
        self.execute("INSERT INTO numbers VALUES (?, ?)", *[(id_, f"n{id_}") for id_ in ids])


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    return Numbers(tmp_path / "numbers.db", 10)


@pytest.fixture
def drive() -> Iterator[Drive]:
    driven: list[CheckpointHarness] = []

    def make(source: JdbcSource, parallelism: int = 1, **more: Any) -> CheckpointHarness:
        driven.append(CheckpointHarness(source, parallelism, **more))
        return driven[-1]

    yield make
    for harness in driven:
        harness.close()


def in_parts(numbers: Numbers, size: int = 4) -> JdbcSource:
    return (
        JdbcSource.builder()
        .set_connection_options(numbers.options)
        .set_sql("SELECT * FROM numbers WHERE id BETWEEN ? AND ? ORDER BY id")
        .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 10).of_batch_size(size))
        .set_result_set_fetch_size(3)
        .build()
    )


def growing(numbers: Numbers, lag: int | None = None) -> JdbcSource:
    return (
        JdbcSource.builder()
        .set_connection_options(numbers.options)
        .set_sql("SELECT * FROM numbers")
        .set_incremental("id", 0, poll_interval_seconds=0.01, safety_lag=lag)
        .set_result_extractor(lambda row: row.id)
        .set_result_set_fetch_size(3)
        .build()
    )


def read(harness: CheckpointHarness, count: int, limit: int = 2) -> list[Any]:
    """So many records, from the first subtask."""
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += harness[0].poll(min(limit, count - len(found)))
    return found


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_parts_are_read_side_by_side(numbers: Numbers, parallelism: int) -> None:
    env = simulated_environment(parallelism=parallelism)
    rows = env.from_source(
        in_parts(numbers), WatermarkStrategy.no_watermarks(), "numbers"
    ).execute_and_collect()
    assert sorted(rows, key=lambda row: row.id) == [Row(id=id_, name=f"n{id_}") for id_ in range(1, 11)]


@pytest.mark.parametrize("cut", range(11))
def test_reading_goes_on_where_it_was(numbers: Numbers, drive: Drive, cut: int) -> None:
    before = drive(in_parts(numbers))
    first = read(before, cut)
    saved = before.checkpoint(1)
    after = drive(in_parts(numbers), 2, restore=saved)
    rest = [row for subtask in after for row in subtask.drain(2)]
    assert sorted(row.id for row in first + rest) == list(range(1, 11))


def test_a_type_gives_other_names_and_lists_are_parameters_too(numbers: Numbers) -> None:
    source = (
        JdbcSource.builder()
        .set_connection_options(numbers.options)
        .set_sql("SELECT * FROM numbers WHERE id = ?")
        .set_jdbc_parameter_values_provider(JdbcGenericParameterValuesProvider([[3], [5]]))
        .set_type_information(Types.ROW_NAMED(["number", "text"], [Types.INT(), Types.STRING()]))
        .build()
    )
    env = simulated_environment(parallelism=1)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").execute_and_collect()
    assert list(rows) == [Row(number=3, text="n3"), Row(number=5, text="n5")]


def test_new_rows_are_found_for_ever(numbers: Numbers, drive: Drive) -> None:
    before = drive(growing(numbers))
    assert read(before, 7) == [1, 2, 3, 4, 5, 6, 7]
    saved = before.checkpoint(1)
    numbers.add(11, 12)
    after = drive(growing(numbers), restore=saved)
    assert read(after, 5) == [8, 9, 10, 11, 12]
    numbers.add(20)
    assert read(after, 1) == [20]


def test_a_safety_lag_lets_rows_wait_for_those_that_come_late(numbers: Numbers, drive: Drive) -> None:
    harness = drive(growing(numbers, lag=3))
    assert read(harness, 7) == [1, 2, 3, 4, 5, 6, 7]
    numbers.add(12, 14)
    assert read(harness, 3) == [8, 9, 10]
    numbers.add(11, 15)  # 11 comes after 14
    assert read(harness, 2) == [11, 12]


def test_mistakes_are_said_at_once(numbers: Numbers, drive: Drive) -> None:
    builder = JdbcSource.builder().set_connection_options(numbers.options)
    with pytest.raises(ProgramError, match="needs set_sql"):
        builder.build()
    with pytest.raises(ProgramError, match="2 parameters, but there are 0 values"):
        builder.set_sql("SELECT ? + ?").build()
    with pytest.raises(Exception, match="no such table: nowhere"):
        read(drive(builder.set_sql("SELECT * FROM nowhere").build()), 1)
    with pytest.raises(ProgramError, match="smallest to its largest"):
        JdbcNumericBetweenParametersProvider(2, 1)


def looked_up(numbers: Numbers, function: JdbcLookupFunction, values: list[Any]) -> list[Any]:
    env = simulated_environment(parallelism=1)
    stream = AsyncDataStream.ordered_wait(env.from_collection(values), function, Time.seconds(60), 10)
    return list(stream.execute_and_collect())


def test_rows_are_looked_up_for_every_record(numbers: Numbers) -> None:
    function = JdbcLookupFunction("SELECT name FROM numbers WHERE id = ?", numbers.options)
    found = looked_up(numbers, function, [3, 99, 3])
    assert found == [(3, Row(name="n3")), (99, None), (3, Row(name="n3"))]


def test_records_and_rows_are_joined_by_functions(numbers: Numbers) -> None:
    function = JdbcLookupFunction(
        "SELECT id FROM numbers WHERE id BETWEEN :low AND :high ORDER BY id",
        numbers.options,
        parameters=lambda value: (value, value + 1),
        join=lambda value, rows: [(value, row.id) for row in rows],
        cache_size=0,
    )
    assert looked_up(numbers, function, [1, 9, 50]) == [(1, 1), (1, 2), (9, 9), (9, 10)]


def test_a_cache_is_bounded_and_forgets(numbers: Numbers) -> None:
    cache = LookupCache(2, None, keeps_missing=False)
    cache.put((1,), [Row(1)], 0.0)
    cache.put((2,), [Row(2)], 0.0)
    cache.get((1,), 0.0)
    cache.put((3,), [Row(3)], 0.0)
    cache.put((4,), [], 0.0)
    assert [cache.get((key,), 1e9) is not None for key in (1, 2, 3, 4)] == [True, False, True, False]


def test_a_look_up_without_a_parameter_or_table_is_refused(numbers: Numbers) -> None:
    with pytest.raises(ProgramError, match="needs a query with parameters"):
        JdbcLookupFunction("SELECT 1", numbers.options)
    function = JdbcLookupFunction("SELECT 1 FROM nowhere WHERE a = ?", numbers.options)
    with pytest.raises(Exception, match="no such table: nowhere"):
        looked_up(numbers, function, [1])
