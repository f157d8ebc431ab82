"""Windows through the fluent API, in the simulator, under many orders of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from firesteel.common import Row, Time, Types, WatermarkStrategy
from firesteel.common.configuration import Configuration
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from firesteel.datastream.functions import (
    AggregateFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from firesteel.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.testing import Emit, EmitWatermark, Pause, ScriptedSource, simulated_environment

SEEDS = range(8)
HI = [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 4), ("hi", 5), ("hi", 8), ("hi", 9), ("hi", 15)]
AB = [("a", 1), ("a", 2), ("b", 3), ("a", 6), ("b", 8), ("b", 9), ("a", 15)]


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def timed(env: StreamExecutionEnvironment, rows: list[Any]) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    return env.from_collection(rows).assign_timestamps_and_watermarks(strategy)


def keyed(seed: int, rows: list[Any], parallelism: int = 2) -> Any:
    return timed(simulated_environment(seed, parallelism), rows).key_by(lambda row: row[0])


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return sorted(results)


class Count(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class Total(WindowFunction):  # type: ignore[type-arg]
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, sum(row[1] for row in inputs))]


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


# As in PyFlink's own tests ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_tumbling_sliding_and_session_windows(seed: int) -> None:
    tumbling = keyed(seed, HI).window(TumblingEventTimeWindows.of(Time.milliseconds(5))).process(Count())
    assert collected(tumbling) == [("hi", 0, 5, 4), ("hi", 5, 10, 3), ("hi", 15, 20, 1)]
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(2))
    assert collected(keyed(seed, HI).window(sliding).process(Count())) == [
        ("hi", -2, 3, 2),
        ("hi", 0, 5, 4),
        ("hi", 2, 7, 4),
        ("hi", 4, 9, 3),
        ("hi", 6, 11, 2),
        ("hi", 8, 13, 2),
        ("hi", 12, 17, 1),
        ("hi", 14, 19, 1),
    ]
    rows = [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 4), ("hi", 8), ("hi", 9), ("hi", 15)]
    sessions = (
        keyed(seed, rows).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(Count())
    )
    assert collected(sessions) == [("hi", 1, 14, 6), ("hi", 15, 20, 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_reduce_and_aggregate_with_and_without_a_window_function(seed: int) -> None:
    def windows() -> Any:
        return keyed(seed, AB).window(EventTimeSessionWindows.with_gap(Time.milliseconds(2)))

    reduced = [("a", 3), ("a", 6), ("a", 15), ("b", 3), ("b", 17)]
    assert collected(windows().reduce(add)) == reduced
    assert collected(windows().reduce(add, Total())) == reduced
    assert collected(windows().reduce(add, Count())) == [
        ("a", 1, 4, 1),
        ("a", 6, 8, 1),
        ("a", 15, 17, 1),
        ("b", 3, 5, 1),
        ("b", 8, 11, 1),
    ]
    assert collected(windows().aggregate(Mean())) == [1.5, 3.0, 6.0, 8.5, 15.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_count_windows(seed: int) -> None:
    rows = [(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi"), (6, "hello"), (6, "hello")]

    def by_word() -> Any:
        return simulated_environment(seed, 2).from_collection(rows).key_by(lambda row: row[1])

    def total(a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1]

    assert collected(by_word().count_window(3).reduce(total)) == [(9, "hi"), (12, "hello")]
    sliding = by_word().window(CountSlidingWindowAssigner(2, 1)).reduce(total)
    assert collected(sliding) == [(4, "hi"), (6, "hello"), (8, "hi"), (10, "hello"), (12, "hello")]


@pytest.mark.parametrize("seed", SEEDS)
def test_triggers_of_the_program(seed: int) -> None:
    sessions = keyed(seed, [*HI[:4], ("hi", 8), ("hi", 9), ("hi", 15)]).window(
        EventTimeSessionWindows.with_gap(3)
    )
    fired = sessions.trigger(PurgingTrigger.of(EventTimeTrigger.create())).process(Count())
    assert collected(fired) == [("hi", 1, 7, 4), ("hi", 8, 12, 2), ("hi", 15, 18, 1)]
    ones = [("hi", 1)] * 7
    purged = keyed(seed, ones).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    assert collected(purged.reduce(add)) == [("hi", 2)] * 3


class Bounds(ProcessAllWindowFunction):  # type: ignore[type-arg]
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().start, context.window().end, len(list(elements))


@pytest.mark.parametrize("seed", SEEDS)
def test_window_all_sees_all_keys(seed: int) -> None:
    rows = [("hi", 1), ("hello", 2), ("hi", 3), ("hello", 4), ("hello", 5), ("hi", 8), ("hi", 9), ("hi", 15)]
    stream = (
        timed(simulated_environment(seed, 3), rows)
        .window_all(TumblingEventTimeWindows.of(5))
        .process(Bounds())
    )
    assert collected(stream) == [(0, 5, 4), (5, 10, 3), (15, 20, 1)]
    stream = (
        timed(simulated_environment(seed, 3), AB).window_all(EventTimeSessionWindows.with_gap(2)).reduce(add)
    )
    assert collected(stream) == [("a", 6), ("a", 15), ("a", 23)]


def test_typed_rows_stay_rows() -> None:
    env = simulated_environment(1)
    type_info = Types.ROW_NAMED(["word", "at"], [Types.STRING(), Types.INT()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    stream = env.from_collection([("a", 1), ("a", 2), ("a", 7)], type_info).assign_timestamps_and_watermarks(
        strategy
    )
    best = stream.key_by(lambda row: row.word).window(TumblingEventTimeWindows.of(5)).max("at")
    with best.execute_and_collect() as results:
        assert list(results) == [Row(word="a", at=2), Row(word="a", at=7)]


# More ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("chunk", ["1", "3", "1024"])
def test_windows_can_follow_windows_of_the_same_size(seed: int, chunk: str) -> None:
    env = simulated_environment(seed, 2, Configuration.from_dict({"firesteel.chunk.records": chunk}))
    rows = [("abc"[n % 3], n) for n in range(40)]
    per_key = timed(env, rows).key_by(lambda row: row[0]).window(TumblingEventTimeWindows.of(10)).reduce(add)
    top = per_key.window_all(TumblingEventTimeWindows.of(10)).max_by(1)
    expected = []
    for start in range(0, 40, 10):
        totals = {key: sum(n for k, n in rows if k == key and start <= n < start + 10) for key in "abc"}
        expected.append(max(totals.values()))
    assert sorted(total for _, total in collected(top)) == sorted(expected)


LATE = OutputTag("late")


@pytest.mark.parametrize("seed", SEEDS)
def test_late_records_go_to_the_side_output(seed: int) -> None:
    env = simulated_environment(seed, 1)
    steps: list[Any] = [
        Emit([("a", 0), ("a", 8)], [0, 8]),
        EmitWatermark(7),
        Emit([("a", 4), ("a", 6)], [4, 6]),
    ]
    source = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "script")
    windows = source.key_by(lambda row: row[0]).window(TumblingEventTimeWindows.of(5))
    counted = windows.allowed_lateness(0).side_output_late_data(LATE).process(Count())
    merged = counted.map(str).union(counted.get_side_output(LATE).map(lambda row: f"late {row}"))
    assert collected(merged) == ["('a', 0, 5, 1)", "('a', 5, 10, 2)", "late ('a', 4)"]


@pytest.mark.parametrize("seed", SEEDS)
def test_processing_time_windows_fire_by_the_clock(seed: int) -> None:
    env = simulated_environment(seed, 1)
    steps: list[Any] = [Emit([("a", 1), ("a", 2)]), Pause(3), Emit([("a", 4)]), Pause(3)]
    source = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "script")
    summed = (
        source.key_by(lambda row: row[0]).window(TumblingProcessingTimeWindows.of(Time.seconds(2))).sum(1)
    )
    assert collected(summed) == [("a", 3), ("a", 4)]


def test_processing_time_windows_fire_at_the_end_in_batch_only() -> None:
    for mode, expected in (("STREAMING", []), ("BATCH", [("a", 3)])):
        env = simulated_environment(1, 1, Configuration.from_dict({"execution.runtime-mode": mode}))
        rows = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda row: row[0])
        assert collected(rows.window(TumblingProcessingTimeWindows.of(Time.hours(1))).sum(1)) == expected


def test_event_time_windows_in_batch_have_no_late_records() -> None:
    env = simulated_environment(1, 2, Configuration.from_dict({"execution.runtime-mode": "BATCH"}))
    rows = [("a", n) for n in (30, 1, 12, 2, 25, 3)]
    summed = timed(env, rows).key_by(lambda row: row[0]).window(TumblingEventTimeWindows.of(10)).sum(1)
    assert collected(summed) == [("a", 6), ("a", 12), ("a", 25), ("a", 30)]


@pytest.mark.parametrize("seed", SEEDS)
def test_l06_windows_of_windows_of_the_same_size_see_the_same_windows(seed: int) -> None:
    ends = {}
    for windows in (TumblingEventTimeWindows.of(5), TumblingEventTimeWindows.of(5, 2)):
        counts = keyed(seed, AB).window(windows).process(Count())
        totals = counts.window_all(windows).process(TotalOfAll())
        ends[windows.grid[2]] = collected(totals)
    assert ends == {
        0: [(0, 5, 3), (5, 10, 3), (15, 20, 1)],
        2: [(-3, 2, 1), (2, 7, 3), (7, 12, 2), (12, 17, 1)],
    }


class TotalOfAll(ProcessAllWindowFunction):  # type: ignore[type-arg]
    """Bounds of a window of windows, and all that they counted."""

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return [(context.window().start, context.window().end, sum(count for *_, count in elements))]
