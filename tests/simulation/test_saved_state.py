"""A job's savepoint can be read, changed, and gone on from: the state processor and jobs understand each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Configuration, Types, WatermarkStrategy
from firesteel.common.errors import StateError
from firesteel.common.time import Time
from firesteel.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.state import ListStateDescriptor, ValueStateDescriptor
from firesteel.datastream.window import ProcessingTimeSessionWindows, TumblingProcessingTimeWindows
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.state_processor import SavepointReader, SavepointWriter
from firesteel.testing import simulated_environment

DOORS = ("north", "east", "south", "west")
COUNT = ValueStateDescriptor("count", Types.LONG())
FOREVER = 2**60  # in milliseconds; no timer of these programs fires


class CountVisitors(KeyedProcessFunction):
    """Counts per key, and sets a timer that never fires."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(FOREVER)


def environment(seed: int, parallelism: int, savepoint: str | None = None) -> StreamExecutionEnvironment:
    configuration = Configuration()
    if savepoint is not None:
        configuration.set_string("execution.state-recovery.path", savepoint)
    env = simulated_environment(seed, parallelism, configuration)
    env.enable_checkpointing(100)
    return env


def visitors_of(env: StreamExecutionEnvironment) -> Any:
    source = DataGeneratorSource(
        lambda number: (number, DOORS[number % 4]), rate_limiter_strategy=RateLimiterStrategy.per_second(1000)
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "Visitors").uid("visitors")


def counting(visitors: Any) -> Any:
    return visitors.process(CountVisitors())


def stopped(
    directory: Path,
    seed: int,
    parallelism: int,
    savepoint: str | None = None,
    build: Callable[[Any], Any] = counting,
) -> SavepointReader:
    """Run the counting job for a while and stop it with a savepoint."""
    env = environment(seed, parallelism, savepoint)
    build(visitors_of(env).key_by(lambda visitor: visitor[1])).uid("doors").print()
    client = env.execute_async("visitors")
    assert isinstance(client, MasterJobClient)
    try:
        while client.statistics().checkpoints.completed < 2 and not client.is_over():
            time.sleep(0.01)  # nothing tells when a checkpoint is complete
        if client.is_over():
            client.wait()
        return SavepointReader(client.stop_with_savepoint(False, str(directory)).result(60))
    finally:
        client.cancel().result(60)


def counts(reader: SavepointReader) -> dict[str, int]:
    return {entry.key: entry.value for entry in reader.read("doors", "count")}


def emitted(reader: SavepointReader) -> dict[str, int]:
    """How many visitors of each door the source has sent, as its positions tell."""
    left = [entry.value for entry in reader.read("visitors", "splits")]
    sent = [number for split in left for number in range(split.start % split.step, split.start, split.step)]
    found = {door: sum(DOORS[number % 4] == door for number in sent) for door in DOORS}
    return {door: count for door, count in found.items() if count}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_is_what_the_job_had(seed: int, tmp_path: Path) -> None:
    reader = stopped(tmp_path, seed, parallelism=2)
    assert [(operator.uid, operator.parallelism) for operator in reader.operators] == [
        ("visitors", 2),
        ("doors", 2),
    ]
    assert counts(reader) == emitted(reader)
    assert sorted(timer.key for timer in reader.timers("doors")) == sorted(counts(reader))
    assert {(timer.time, timer.queue) for timer in reader.timers("doors")} <= {(FOREVER, "event-time")}


@pytest.mark.parametrize("seed", range(3))
def test_a_job_goes_on_from_a_changed_savepoint(seed: int, tmp_path: Path) -> None:
    first = stopped(tmp_path, seed, parallelism=2)
    writer = SavepointWriter.from_existing_savepoint(first.path)
    writer.put("doors", "count", {"north": 1000}).remove_keys("doors", ["east"])
    second = stopped(tmp_path, seed, 3, writer.write(str(tmp_path / "changed")))
    before, after, found = emitted(first), emitted(second), counts(second)
    assert found["north"] == 1000 + after["north"] - before.get("north", 0)
    assert found.get("east", 0) == after.get("east", 0) - before.get("east", 0)
    assert found["south"] == after["south"]
    assert len(list(second.timers("doors"))) == len(found)


def test_a_job_begins_with_state_from_elsewhere(tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint().with_operator("doors", parallelism=3)
    writer.with_keyed_state("doors", COUNT, {"north": 1000, "back": 7})
    reader = stopped(tmp_path, 1, 2, writer.write(str(tmp_path / "begin")))
    assert counts(reader) == {**emitted(reader), "north": 1000 + emitted(reader)["north"], "back": 7}


def test_a_state_of_another_type_is_refused(tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint()
    writer.with_keyed_state("doors", ListStateDescriptor("count", Types.LONG()), {"north": [1]})
    with pytest.raises(StateError, match=r"state 'count' of operator 'Keyed Process' does not fit"):
        stopped(tmp_path, 1, 2, writer.write(str(tmp_path / "begin")))


class Count(AggregateFunction):
    """How many."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def test_contents_of_windows_are_read(tmp_path: Path) -> None:
    def build(visitors: Any) -> Any:
        return visitors.window(TumblingProcessingTimeWindows.of(Time.days(10_000))).aggregate(Count())

    reader = stopped(tmp_path, 1, 2, build=build)
    assert [state.name for state in reader.states("doors") if state.kind == "internal"] == ["panes"]
    assert {entry.key: entry.value for entry in reader.read("doors", "panes")} == emitted(reader)


def test_sessions_are_read(tmp_path: Path) -> None:
    def build(visitors: Any) -> Any:
        return visitors.window(ProcessingTimeSessionWindows.with_gap(Time.days(10_000))).aggregate(Count())

    reader = stopped(tmp_path, 1, 2, build=build)
    found = {
        entry.key: sum(session[2] for session in entry.value) for entry in reader.read("doors", "sessions")
    }
    assert found == emitted(reader)
