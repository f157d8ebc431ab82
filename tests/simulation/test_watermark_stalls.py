"""An endless job whose event time stands still says which operator waits, and who holds it back; once, and never else."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.time import Duration, Time
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.source import Boundedness
from firesteel.datastream import (
    DataStream,
    DiscardingSink,
    KeyedProcessFunction,
    ProcessJoinFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from firesteel.datastream.window import (
    EventTimeTrigger,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.testing import (
    AddSplits,
    Emit,
    GoIdle,
    Pause,
    ScriptedSource,
    WaitForever,
    simulated_environment,
)
from firesteel.testing.scripted_source import Step

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
NONE = WatermarkStrategy.no_watermarks()
TIMEOUT = 300.0  # for what will never happen: machines may be slow
OPTION = "firesteel.watermark.stall-warning"

Program = Callable[[DataStream], Any]


def records(count: int = 30, pause: float = 5.0, first: int = 0, split: str | None = None) -> list[Step]:
    """A record every few seconds, each a second later in event time."""
    return [
        step
        for number in range(first, first + count)
        for step in (Emit([number], [number * 1000], split), Pause(pause))
    ]


def key(value: int) -> int:
    return value % 4


def windows(stream: DataStream) -> DataStream:
    """What waits for event time."""
    ten_seconds = TumblingEventTimeWindows.of(Time.seconds(10))
    return stream.key_by(key).window(ten_seconds).reduce(lambda a, b: a + b).name("Sums")


class WithTimers(KeyedProcessFunction):
    """Waits for a timer of each record."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


class WithoutTimers(KeyedProcessFunction):
    """Waits for nothing."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left, right


class Told(logging.Handler):
    """What the master says about event time, as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("event time stands still"):
            self.texts.put(record.getMessage())

    def drain(self) -> list[str]:
        return [self.texts.get() for _ in range(self.texts.qsize())]


@pytest.fixture
def told() -> Iterator[Told]:
    logger, handler = logging.getLogger("firesteel.jobmaster.job_master"), Told()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def environment(
    program: Program, strategy: WatermarkStrategy, source: ScriptedSource, seed: int, **options: str
) -> StreamExecutionEnvironment:
    env = simulated_environment(seed, 2, Configuration.from_dict(options))
    stream = env.from_source(source, strategy, "orders").set_parallelism(len(source._scripts))
    program(stream).add_sink(DiscardingSink())
    return env


def first_warnings(
    told: Told,
    count: int,
    program: Program,
    strategy: WatermarkStrategy,
    *scripts: list[Step],
    seed: int = 0,
    **options: str,
) -> list[str]:
    """What an endless job says about event time, until it has said so much."""
    endless = [[*script, WaitForever()] for script in scripts]
    source = ScriptedSource(*endless, boundedness=Boundedness.CONTINUOUS_UNBOUNDED)
    job = environment(program, strategy, source, seed, **options).execute_async("stalling")
    found = [told.texts.get(timeout=TIMEOUT) for _ in range(count)]
    job.cancel().result()
    return found + told.drain()


def all_warnings(
    told: Told,
    program: Program,
    strategy: WatermarkStrategy,
    *scripts: list[Step],
    seed: int = 0,
    mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING,
    **options: str,
) -> list[str]:
    """What a job says about event time until it has finished."""
    env = environment(program, strategy, ScriptedSource(*scripts), seed, **options)
    env.set_runtime_mode(mode)
    env.execute("stalling")
    return told.drain()


# Who is to blame --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_source_without_watermarks(seed: int, told: Told) -> None:
    (text,) = first_warnings(told, 1, windows, NONE, records(), seed=seed)
    assert "job 'stalling': 'Sums' (" in text
    assert "its watermark has not begun" in text
    assert "'Source: orders' (1/1) makes no watermarks" in text
    assert "assign_timestamps_and_watermarks()" in text


@pytest.mark.parametrize("seed", range(5))
def test_a_subtask_of_the_source_without_records(seed: int, told: Told) -> None:
    (text,) = first_warnings(told, 1, windows, MONOTONOUS, records(), [Pause(500)], seed=seed)
    assert "'Source: orders' (2/2) has had no record (it has no split to read, or an empty one)" in text
    assert "with_idleness" in text


@pytest.mark.parametrize("seed", range(5))
def test_a_silent_split_among_others(seed: int, told: Told) -> None:
    script: list[Step] = [AddSplits(("a", "b")), Emit([1], [1500], "b"), *records(split="a")]
    (text,) = first_warnings(told, 1, windows, MONOTONOUS, script, seed=seed)
    assert "its watermark stands at 1499" in text
    assert "split 'b' of 'Source: orders' (1/1) has had no later record than 1500" in text


def test_a_split_that_never_had_a_record(told: Told) -> None:
    script: list[Step] = [AddSplits(("a", "b")), *records(split="a")]
    (text,) = first_warnings(told, 1, windows, MONOTONOUS, script)
    assert "split 'b' of 'Source: orders' (1/1) has had no record and holds all others back" in text


def test_times_of_these_days_are_shown_as_dates(told: Told) -> None:
    same = [step for _ in range(30) for step in (Emit([1], [1_704_067_200_000]), Pause(5))]
    (text,) = first_warnings(told, 1, windows, MONOTONOUS, same)
    assert "has had no later record than 2024-01-01 00:00:00 UTC (1704067200000)" in text


@pytest.mark.parametrize("seed", range(5))
def test_operators_in_between_pass_the_question_on(seed: int, told: Told) -> None:
    def three_stages(stream: DataStream) -> DataStream:
        spread = stream.rebalance().map(lambda value: value).set_parallelism(3)
        return windows(spread.rebalance().map(lambda value: value).set_parallelism(2))

    (text,) = first_warnings(told, 1, three_stages, MONOTONOUS, records(), [Pause(500)], seed=seed)
    assert "'Sums' (" in text
    assert "'Source: orders' (2/2)" in text


def test_an_assigner_is_where_event_time_begins(told: Told) -> None:
    def assigned(stream: DataStream) -> DataStream:
        return windows(stream.assign_timestamps_and_watermarks(MONOTONOUS).name("Times"))

    (text,) = first_warnings(told, 1, assigned, NONE, records(), [Pause(500)])
    assert "'Times' (2/2) has had no record and holds all others back" in text


# Who waits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        lambda stream: stream.key_by(key).process(WithTimers()),
        lambda stream: stream.key_by(key).interval_join(stream.key_by(key)).between(-1, 1).process(Pairs()),
        lambda stream: (
            stream.key_by(key)
            .window(TumblingEventTimeWindows.of(Time.seconds(10)))
            .trigger(EventTimeTrigger())
            .reduce(lambda a, b: a + b)
        ),
    ],
)
def test_timers_joins_and_triggers_wait_too(program: Program, told: Told) -> None:
    (text,) = first_warnings(told, 1, program, NONE, records())
    assert "makes no watermarks" in text


@pytest.mark.parametrize(
    "program",
    [
        lambda stream: stream.map(lambda value: value),
        lambda stream: stream.key_by(key).process(WithoutTimers()),
        lambda stream: stream.key_by(key).count_window(2).reduce(lambda a, b: a + b),
        lambda stream: stream.key_by(key).window(GlobalWindows.create()).reduce(lambda a, b: a + b),
        lambda stream: (
            stream.key_by(key)
            .window(TumblingProcessingTimeWindows.of(Time.seconds(1)))
            .reduce(lambda a, b: a + b)
        ),
    ],
)
def test_a_job_that_does_not_need_event_time_hears_nothing(program: Program, told: Told) -> None:
    assert all_warnings(told, program, NONE, records()) == []


# How often --------------------------------------------------------------------------------------------


def test_every_stall_is_told_once(told: Told) -> None:
    """Both subtasks of the windows wait for 300 s; then time moves on to the silent one's record, and stands again."""
    silent: list[Step] = [Pause(300), Emit([1], [80_000]), Pause(600)]
    first, second = first_warnings(told, 2, windows, MONOTONOUS, records(140), silent)
    assert "'Source: orders' (2/2) has had no record" in first
    assert "'Source: orders' (2/2) has had no later record than 80000" in second


def test_the_time_can_be_changed(told: Told) -> None:
    (text,) = first_warnings(told, 1, windows, NONE, records(10), **{OPTION: "10 s"})
    assert "has got records for 20 s" in text


@pytest.mark.parametrize("off", ["0", "-1"])
def test_it_can_be_switched_off(off: str, told: Told) -> None:
    assert all_warnings(told, windows, NONE, records(), **{OPTION: off}) == []


# When there is nothing to say -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_event_time_that_moves(seed: int, told: Told) -> None:
    assert all_warnings(told, windows, MONOTONOUS, records(100), seed=seed) == []


def test_silent_subtasks_that_have_stepped_aside(told: Told) -> None:
    patient = MONOTONOUS.with_idleness(Duration.of_seconds(10))
    assert all_warnings(told, windows, patient, records(), [Pause(500)]) == []
    assert all_warnings(told, windows, MONOTONOUS, records(), [GoIdle(), Pause(500)]) == []


def test_no_records_at_all(told: Told) -> None:
    assert all_warnings(told, windows, NONE, [*records(3), Pause(5000)]) == []


def test_in_batch_mode_time_comes_with_the_end(told: Told) -> None:
    batch = RuntimeExecutionMode.BATCH
    assert all_warnings(told, windows, NONE, records(), mode=batch) == []
