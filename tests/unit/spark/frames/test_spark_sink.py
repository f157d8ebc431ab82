"""The protocol of `SparkSink`: tasks stage and release, a driver writes what was released; here without Spark."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from firesteel.common import Types
from firesteel.common.errors import CorruptStateError, ProgramError, SparkSettingsError, UserCodeError
from firesteel.datastream.connectors.spark import SparkSink
from firesteel.spark.frames.staging import Failure, Home, StagedRecords, Staging
from firesteel.testing import CheckpointHarness, simulated_environment

ROWS = Types.ROW_NAMED(["n"], [Types.LONG()])


def no_write(frame: Any, checkpoint_id: int) -> None:
    raise AssertionError("tasks never call it")


def sink(directory: Path) -> SparkSink:
    return SparkSink(no_write, str(directory), ROWS)


class Driver:
    """Writes what was released, as the real one does, into a list."""

    def __init__(self, directory: Path) -> None:
        self.staging = Staging(directory)
        self.written: list[tuple[int, list[int]]] = []

    def write(self) -> None:
        for released in self.staging.released():
            numbers = [n for part in released.parts for n in parquet.read_table(part)["n"].to_pylist()]
            self.written.append((released.checkpoint_id, sorted(numbers)))
            Home(released.home).mark_written(released)


def test_records_of_a_checkpoint_come_together_when_all_subtasks_have_released_them(tmp_path: Path) -> None:
    tasks, driver = CheckpointHarness(sink(tmp_path), 2), Driver(tmp_path)
    tasks[0].process([(1,), (2,)])
    tasks[1].process([(3,)])
    tasks.checkpoint(1)
    tasks[0].process([(4,)])
    driver.write()
    assert driver.written == []
    tasks[0].link.notify_complete(1)
    driver.write()
    assert driver.written == []
    tasks[1].link.notify_complete(1)
    driver.write()
    assert driver.written == [(1, [1, 2, 3])]
    tasks.checkpoint(2)
    tasks.complete(2)
    driver.write()
    assert driver.written == [(1, [1, 2, 3]), (2, [4])]
    assert list(tmp_path.glob("*/parts/*")) == []


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("released_before", [0, 1, 2])
@pytest.mark.parametrize("written_before", [False, True])
def test_a_crash_between_checkpoint_and_release_repeats_nothing(
    tmp_path: Path, parallelism: int, released_before: int, written_before: bool
) -> None:
    tasks, driver = CheckpointHarness(sink(tmp_path), 2), Driver(tmp_path)
    tasks[0].process([(1,)])
    tasks[1].process([(2,)])
    snapshot = tasks.checkpoint(1)
    for subtask in list(tasks)[:released_before]:
        subtask.link.notify_complete(1)
    if written_before:
        driver.write()
    again = CheckpointHarness(sink(tmp_path), parallelism, restore=snapshot)
    driver.write()
    again[0].process([(3,)])
    again.checkpoint(2)
    again.complete(2)
    driver.write()
    assert driver.written == [(1, [1, 2]), (2, [3])]


def test_a_checkpoint_that_was_aborted_goes_with_the_next_one(tmp_path: Path) -> None:
    tasks, driver = CheckpointHarness(sink(tmp_path), 1), Driver(tmp_path)
    tasks[0].process([(1,)])
    tasks.checkpoint(1)
    tasks.abort(1)
    tasks[0].process([(2,)])
    tasks.checkpoint(2)
    tasks.complete(2)
    driver.write()
    assert sorted(n for _, numbers in driver.written for n in numbers) == [1, 2]


def test_the_end_waits_until_the_driver_has_written(tmp_path: Path) -> None:
    tasks, driver = CheckpointHarness(sink(tmp_path), 1), Driver(tmp_path)
    tasks[0].process([(1,)])
    tasks.finish()
    tasks.checkpoint(1)
    ending = threading.Thread(target=tasks.complete, args=(1,), daemon=True)
    ending.start()
    while not driver.written:
        assert ending.is_alive()
        driver.write()
    ending.join(60)
    assert not ending.is_alive()
    assert driver.written == [(1, [1])]


def test_what_the_driver_cannot_write_fails_the_job_and_the_next_attempt_has_it_tried_again(
    tmp_path: Path,
) -> None:
    tasks, driver = CheckpointHarness(sink(tmp_path), 1), Driver(tmp_path)
    driver.staging.report_failure(Failure("writing through Spark failed: OSError: no", "write", "Traceback"))
    tasks[0].process([(1,)])
    snapshot = tasks.checkpoint(1)
    with pytest.raises(UserCodeError, match="writing through Spark failed: OSError: no"):
        tasks.complete(1)
    CheckpointHarness(sink(tmp_path), 1, restore=snapshot)
    assert driver.staging.failure() is None
    driver.write()
    assert driver.written == [(1, [1])]


def test_checkpoints_of_one_number_and_other_records_are_refused(tmp_path: Path) -> None:
    home = Staging(tmp_path).home("job")
    home.release(1, StagedRecords(str(home.path), 0, 1, ("a",), 1))
    home.release(1, StagedRecords(str(home.path), 0, 1, ("a",), 1))
    with pytest.raises(CorruptStateError, match="two jobs must not share a staging directory"):
        home.release(1, StagedRecords(str(home.path), 0, 1, ("b",), 1))


def test_what_a_job_left_behind_is_found_by_the_next_one(tmp_path: Path) -> None:
    home = Staging(tmp_path).home("job-before")
    home.release(7, StagedRecords(str(home.path), 0, 1, (), 0))
    assert [released.checkpoint_id for released in Staging(tmp_path).released()] == [7]


def test_files_of_no_checkpoint_go_when_the_task_ends(tmp_path: Path) -> None:
    tasks = CheckpointHarness(sink(tmp_path), 1)
    tasks[0].process([(1,)])
    assert len(list(tmp_path.glob("*/parts/*"))) == 1
    tasks.close()
    assert list(tmp_path.glob("*/parts/*")) == []


@dataclass
class Reading:
    sensor: str
    celsius: float | None


@pytest.mark.parametrize(
    ("schema", "record", "stored"),
    [
        (Reading, Reading("n", None), {"sensor": "n", "celsius": None}),
        (Types.LONG(), 5, {"value": 5}),
        (pa.schema([("a", pa.int8())]), (1,), {"a": 1}),
    ],
)
def test_schemas_are_classes_types_and_schemas(
    tmp_path: Path, schema: Any, record: Any, stored: dict[str, Any]
) -> None:
    travelled = pickle.loads(pickle.dumps(SparkSink(no_write, str(tmp_path), schema)))
    tasks = CheckpointHarness(travelled, 1)
    tasks[0].process([record])
    tasks.checkpoint(1)
    (part,) = tmp_path.glob("*/parts/*")
    assert parquet.read_table(part).to_pylist() == [stored]


def test_a_function_that_holds_what_cannot_travel_stays_in_the_driver(tmp_path: Path) -> None:
    lock = threading.Lock()
    given = SparkSink(lambda frame, checkpoint_id: lock, str(tmp_path), ROWS)
    assert pickle.loads(pickle.dumps(given)).staging_directory == str(tmp_path)


def test_records_without_known_columns_are_refused_where_the_program_says_so(tmp_path: Path) -> None:
    env = simulated_environment()
    with pytest.raises(ProgramError, match="the stream has no declared type: declare it"):
        env.from_collection([1]).sink_to(SparkSink(no_write, str(tmp_path)))


def test_the_simulator_says_that_it_has_no_spark(tmp_path: Path) -> None:
    env = simulated_environment()
    env.from_collection([(1,)]).sink_to(sink(tmp_path))
    with pytest.raises(SparkSettingsError, match="needs a SparkSession, and the simulator starts none"):
        env.execute()
    with pytest.raises(SparkSettingsError, match="the simulator starts none"):
        env.from_collection([1]).to_spark()


def test_a_stream_without_end_cannot_become_a_dataframe() -> None:
    env = simulated_environment()
    with pytest.raises(ProgramError, match="'Data Generator' has no end; write what comes with"):
        env.from_data_gen(lambda n: n).map(lambda n: n).to_spark()
