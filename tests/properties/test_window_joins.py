"""Window joins and co-groups against brute force, over random records, windows, parallelism and simulator seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common import Configuration, Time, WatermarkStrategy
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.functions import CoGroupFunction
from firesteel.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from firesteel.testing import simulated_environment
from firesteel_support.effort import cases

CASES = cases(300, 3_000)  # per kind of join

#: Key, a number that tells the record from all others, timestamp.
Record = tuple[str, int, int]
Group = tuple[list[Record], list[Record]]


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[Record], list[Record]]:
    keys_and_times = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-30, 30)), max_size=9)
    left, right = draw(keys_and_times), draw(keys_and_times)
    return (
        [(key, number, time) for number, (key, time) in enumerate(left)],
        [(key, 100 + number, time) for number, (key, time) in enumerate(right)],
    )


@st.composite
def grids(draw: st.DrawFn) -> tuple[int, int, int]:
    """Size, slide and offset of windows; size and slide are equal for tumbling ones."""
    size, slide = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    slide = draw(st.sampled_from((size, slide)))
    return size, slide, draw(st.integers(-slide + 1, slide - 1))


def assigner_of(grid: tuple[int, int, int] | int) -> WindowAssigner[Any, Any]:
    if isinstance(grid, int):
        return EventTimeSessionWindows.with_gap(Time.milliseconds(grid))
    size, slide, offset = map(Time.milliseconds, grid)
    if size == slide:
        return TumblingEventTimeWindows.of(size, offset)
    return SlidingEventTimeWindows.of(size, slide, offset)


# Brute force ------------------------------------------------------------------------------------------


def groups(grid: tuple[int, int, int] | int, left: list[Record], right: list[Record]) -> list[Group]:
    """Both sides of every key and window that has a record."""
    found = []
    for key in "ab":
        sides = [[record for record in side if record[0] == key] for side in (left, right)]
        times = sorted(record[2] for side in sides for record in side)
        spans = sessions(grid, times) if isinstance(grid, int) else windows(*grid, times)
        for start, end in spans:
            first, second = ([record for record in side if start <= record[2] < end] for side in sides)
            found.append((first, second))
    return found


def windows(size: int, slide: int, offset: int, times: list[int]) -> list[tuple[int, int]]:
    starts = (n * slide + offset for n in range(-100, 101))
    return [(s, s + size) for s in starts if any(s <= time < s + size for time in times)]


def sessions(gap: int, times: list[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for time in times:
        if spans and time <= spans[-1][1]:
            spans[-1] = (spans[-1][0], time + gap)
        else:
            spans.append((time, time + gap))
    return spans


# The joins --------------------------------------------------------------------------------------------


def both(
    env: StreamExecutionEnvironment, left: list[Record], right: list[Record]
) -> tuple[DataStream, DataStream]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[2])
    first, second = (env.from_collection(s).assign_timestamps_and_watermarks(strategy) for s in (left, right))
    return first, second


def environment(seed: int, parallelism: int, chunk: int) -> StreamExecutionEnvironment:
    return simulated_environment(
        seed, parallelism, Configuration.from_dict({"firesteel.chunk.records": str(chunk)})
    )


def key(record: Record) -> str:
    return record[0]


class Both(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield sorted(first), sorted(second)


RUNS = {
    "records": sides(),
    "grid": st.one_of(grids(), st.integers(1, 12)),
    "seed": st.integers(0, 2**32),
    "parallelism": st.integers(1, 3),
    "chunk": st.sampled_from((1, 2, 1024)),
}


@settings(max_examples=CASES)
@given(**RUNS)
def test_window_join_gives_every_pair_of_every_window(
    records: Any, grid: Any, seed: int, parallelism: int, chunk: int
) -> None:
    left, right = both(environment(seed, parallelism, chunk), *records)
    joined = left.join(right).where(key).equal_to(key).window(assigner_of(grid)).apply(lambda a, b: (a, b))
    expected = [(a, b) for first, second in groups(grid, *records) for a in first for b in second]
    assert sorted(joined.execute_and_collect()) == sorted(expected)


@settings(max_examples=CASES)
@given(**RUNS)
def test_co_group_gives_both_sides_of_every_window_once(
    records: Any, grid: Any, seed: int, parallelism: int, chunk: int
) -> None:
    left, right = both(environment(seed, parallelism, chunk), *records)
    grouped = left.co_group(right).where(key).equal_to(key).window(assigner_of(grid)).apply(Both())
    expected = [(sorted(first), sorted(second)) for first, second in groups(grid, *records)]
    assert sorted(grouped.execute_and_collect()) == sorted(expected)
