"""The worked examples about checkpoints: what fails on purpose goes on as if it had not."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from pyarrow import parquet

from firesteel.common import Configuration
from firesteel.common.errors import JobExecutionError
from firesteel.plan.operator_specs import FlatMapSpec, SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing import (
    CollectSink,
    Emit,
    Pause,
    ScriptedSource,
    WaitForCheckpoint,
    simulated_environment,
)
from firesteel.testing.checkpoint_harness import CheckpointHarness


@pytest.fixture(params=range(5))
def env(request, tmp_path):
    """Checkpoints every 20 ms; a failed job is started again."""
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    return simulated_environment(request.param, 2, Configuration.from_dict(options))


# J23 --------------------------------------------------------------------------------------------------


def hot(function, parallelism, **more):
    return CheckpointHarness(FlatMapSpec(Shipped.of(function, "flat_map")), parallelism, **more)


@pytest.mark.parametrize(("kind", "counts"), [("HotReadings", [0, 3, 4]), ("HotReadingsInParts", [1, 3, 3])])
def test_counts_are_dealt_out_to_more_tasks(example, kind, counts):
    readings = example("sensor_readings").readings_of(("sensor_1", 0, 90.0), ("sensor_1", 1, 10.0))
    function = getattr(example("hot_readings"), kind)(80.0)
    before = hot(function, 2)
    for subtask, times in zip(before, (3, 4), strict=True):
        subtask.process(readings * times)
    assert before[1].output.values == [(1, 1), (1, 2), (1, 3), (1, 4)]
    after = hot(function, 3, restore=before.checkpoint(1))
    for subtask in after:
        subtask.process(readings)
    assert sorted(count - 1 for subtask in after for _, count in subtask.output.values) == counts


def test_counts_per_sensor_and_per_task(example, env, collected):
    module = example("hot_readings")
    readings = example("sensor_readings").fahrenheit_readings(200)
    hot_ones = [reading.id for reading in readings if reading.temperature > module.THRESHOLD]
    found = collected(module.build_per_sensor(env, readings))
    assert Counter(name for name, _, _ in found) == Counter(hot_ones)
    assert {
        name: max(count for sensor, count, _ in found if sensor == name) for name in set(hot_ones)
    } == Counter(hot_ones)
    assert len(collected(module.build(env, readings))) == len(hot_ones)


# J28 --------------------------------------------------------------------------------------------------


def counting(source, **more):
    return CheckpointHarness(SourceSpec(Shipped.of(source, "add_source"), True, 1), **more)


def restarted_after(source, count):
    """What a source emits before a checkpoint, of at least so many numbers, and after a restart from it."""
    before = counting(source)
    while len(before[0].output.values) < count:
        before[0].source.poll(10)
    checkpoint = before.checkpoint(1)
    before.close()
    after = counting(source, restore=checkpoint)
    after[0].drain()
    after.close()
    return before[0].output.values, after[0].output.values


def test_a_resettable_source_goes_on_behind_the_checkpoint(example):
    module = example("resettable_numbers")
    before, after = restarted_after(module.ResettableCountSource(1000), 40)
    assert before + after == list(range(1000))


def test_another_source_begins_anew(example):
    module = example("resettable_numbers")
    before, after = restarted_after(module.CountSource(1000), 40)
    assert before == list(range(len(before)))
    assert after == list(range(1000))


def test_no_number_is_left_out_when_the_job_fails(example, env):
    module = example("resettable_numbers")
    sink = CollectSink()
    module.build(env, module.ResettableCountSource(60, 0.001), records_until_failure=40).add_sink(sink)
    env.execute()
    assert set(sink.values) == set(range(60))


# J33 --------------------------------------------------------------------------------------------------

FIRST, MORE = Emit([1, 2, 3, 4, 5]), Emit([6, 7, 8])


def sums(example, env, *script):
    sources = ScriptedSource(script), ScriptedSource(script)
    sink = CollectSink()
    example("even_and_odd_sums").build(env, *sources, records_until_failure=10).add_sink(sink)
    env.execute()
    return sink.values


def test_sums_go_on_from_the_checkpoint_as_if_nothing_had_failed(example, env):
    found = sums(example, env, FIRST, WaitForCheckpoint(), MORE)
    assert Counter(found)["even", 2] == Counter(found)["odd", 1] == 1  # nothing begins anew
    assert dict(found) == {"even": 2 * (2 + 4 + 6 + 8), "odd": 2 * (1 + 3 + 5 + 7)}


def test_without_checkpoints_the_sums_start_again(example):
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "10"}
    env = simulated_environment(parallelism=2, configuration=Configuration.from_dict(options))
    found = sums(example, env, FIRST, Pause(1.0), MORE)
    assert Counter(found)["odd", 1] == 2


# J30 --------------------------------------------------------------------------------------------------


def with_checkpoints(readings):
    """All readings, with a checkpoint after every twenty."""
    pieces = [readings[start : start + 20] for start in range(0, len(readings), 20)]
    return ScriptedSource([step for piece in pieces for step in (Emit(piece), WaitForCheckpoint())])


def lines_of(folder: Path):
    return [line for path in folder.iterdir() for line in path.read_text().splitlines()]


def test_three_ways_to_write_the_same_readings(example, env, tmp_path, capfd):
    module = example("transactional_output")
    readings = example("sensor_readings").fahrenheit_readings(100)
    source = with_checkpoints(readings)
    shown = CollectSink()
    module.build(env, source, 2, str(tmp_path)).add_sink(shown)
    env.execute()
    expected = Counter(f"{reading.id},{reading.temperature}" for reading in readings)
    printed = Counter(f"{reading.id},{reading.temperature}" for reading in shown.values)
    assert printed.keys() == expected.keys()  # some maybe more than once
    assert Counter(lines_of(tmp_path / "readings")) == expected
    ahead = re.findall(r"written ahead: (\S+) (\S+)", capfd.readouterr().out)
    assert Counter(f"{name},{temperature}" for name, temperature in ahead) == expected


def test_readings_are_in_the_database_once(example, env, tmp_path):
    module = example("sqlite_transactions")
    readings = example("sensor_readings").fahrenheit_readings(100)
    source = with_checkpoints(readings)
    path = str(tmp_path / "readings.db")
    module.build(env, source, 2, path)
    env.execute()
    assert module.count(path) == 100
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT * FROM readings").fetchall()
    assert sorted(rows) == sorted(map(tuple, readings))


def test_totals_of_orders_are_in_the_database(example, env, tmp_path):
    module = example("orders_to_totals")
    path = str(tmp_path / "shop.db")
    module.prepare(path, 100)
    env.enable_checkpointing(10)
    module.build(env, f"jdbc:sqlite:{path}", 100)
    env.execute()
    with closing(sqlite3.connect(path)) as database:
        totals = database.execute("SELECT * FROM totals ORDER BY item").fetchall()
    items = {"tea": 0, "milk": 1, "bread": 2}
    assert totals == sorted((item, sum(range(rest or 3, 101, 3))) for item, rest in items.items())


# J29 --------------------------------------------------------------------------------------------------


def test_table_has_the_newest_reading_of_every_sensor_and_the_socket_all_of_them(example, env, tmp_path):
    module = example("socket_and_table")
    readings = example("sensor_readings").fahrenheit_readings(100)
    path = str(tmp_path / "temperatures.db")
    with module.Listener() as listener:
        module.build(env, with_checkpoints(readings), 2, listener.port, path)
        env.execute()
    newest = {reading.id: tuple(reading) for reading in readings}
    assert module.rows(path) == sorted(newest.values())
    # At least once: what had left before a failure and is behind the last checkpoint comes again.
    assert set(listener.lines) == {f"{name} {timestamp} {value}" for name, timestamp, value in readings}


def test_job_fails_when_nobody_listens(example, tmp_path):
    module = example("socket_and_table")
    with module.Listener() as listener:
        free = listener.port
    env = simulated_environment(parallelism=2)
    source = with_checkpoints(example("sensor_readings").fahrenheit_readings(10))
    module.build(env, source, 0, free, str(tmp_path / "temperatures.db"))
    with pytest.raises(JobExecutionError, match="ConnectionRefusedError"):
        env.execute()


# J27 --------------------------------------------------------------------------------------------------


def test_readings_are_in_parquet_files_once(example, env, tmp_path):
    module = example("readings_to_parquet")
    readings = example("sensor_readings").fahrenheit_readings(100)
    module.build(env, with_checkpoints(readings), 2, str(tmp_path / "out"))
    env.execute()
    found = []
    for path in (tmp_path / "out").glob("id=*/readings-*.parquet"):
        rows = [tuple(row.values()) for row in parquet.ParquetFile(path).read().to_pylist()]
        assert {f"id={name}" for name, _, _ in rows} == {path.parent.name}
        found += rows
    assert sorted(found) == sorted(map(tuple, readings))


def test_sales_are_copied_to_parquet_and_totals_written_as_json(example, tmp_path):
    module = example("csv_to_parquet")
    (tmp_path / "sales.csv").write_text(module.SALES)
    env = simulated_environment(parallelism=1)
    module.build(env, str(tmp_path / "sales.csv"), str(tmp_path))
    env.execute()
    sales = parquet.read_table(tmp_path / "sales").to_pylist()
    assert [(sale["shop"], str(sale["day"]), sale["note"]) for sale in sales] == [
        ("north", "2026-03-01", None),
        ("south", "2026-03-01", "small, but nice"),
        ("north", "2026-03-02", "gift"),
    ]
    (totals,) = (tmp_path / "totals").glob("totals-*.jsonl")
    assert totals.read_text().splitlines() == [
        '{"shop":"north","total":12.5}',
        '{"shop":"south","total":3.99}',
        '{"shop":"north","total":112.5}',
    ]


# J31 --------------------------------------------------------------------------------------------------


def test_every_reading_gets_its_room(example, env, collected, tmp_path):
    module = example("rooms_of_sensors")
    readings = example("sensor_readings").fahrenheit_readings(40)
    path = str(tmp_path / "rooms.db")
    module.create_rooms(path, [("sensor_1", "kitchen"), ("sensor_2", "cellar")])
    rooms = {"sensor_1": "kitchen", "sensor_2": "cellar"}
    found = collected(module.build(env, readings, path))
    assert sorted(found) == sorted(
        (reading.id, rooms.get(reading.id, "UNKNOWN ROOM")) for reading in readings
    )
