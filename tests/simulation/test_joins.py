"""Window joins, co-groups and interval joins through the fluent API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common import Time, Types, WatermarkStrategy
from firesteel.common.errors import ProgramError
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.contracts.joins import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from firesteel.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from firesteel.datastream.window import CountTrigger, GlobalWindows, NeverTrigger, TumblingEventTimeWindows
from firesteel.testing import simulated_environment

ORDERS = [("ann", "tea", 1), ("bob", "jam", 4), ("ann", "oil", 12), ("eve", "rye", 14)]
PAYMENTS = [("ann", 10, 2), ("ann", 20, 8), ("bob", 30, 15), ("eve", 40, 19)]


class Third(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[2])


def timed(env: StreamExecutionEnvironment, rows: list[Any]) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Third())
    return env.from_collection(rows).assign_timestamps_and_watermarks(strategy)


def collected(stream: DataStream) -> list[Any]:
    return sorted(stream.execute_and_collect())


@pytest.mark.parametrize("seed", range(10))
def test_window_join_pairs_what_shares_key_and_window(seed: int) -> None:
    env = simulated_environment(seed, parallelism=2)
    joined = (
        timed(env, ORDERS)
        .join(timed(env, PAYMENTS))
        .where(lambda order: order[0])
        .equal_to(0)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .apply(lambda order, payment: (order[1], payment[1]))
    )
    assert collected(joined) == [("rye", 40), ("tea", 10), ("tea", 20)]


class Names(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return f"{first[1]}-{second[1]}"


class Both(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterator[Any]:
        yield first[1]
        yield str(second[1])


@pytest.mark.parametrize(
    ("function", "expected"),
    [(Names(), ["rye-40", "tea-10", "tea-20"]), (Both(), ["10", "20", "40", "rye", "tea", "tea"])],
)
def test_join_functions_give_one_or_many_results_per_pair(function: Any, expected: list[str]) -> None:
    env = simulated_environment(1, parallelism=2)
    joined = (
        timed(env, ORDERS)
        .join(timed(env, PAYMENTS))
        .where(0)
        .equal_to(0)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .apply(function, Types.STRING())
    )
    assert collected(joined) == expected


class OuterJoin(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        yield (sorted(order[1] for order in first), sorted(payment[1] for payment in second))


@pytest.mark.parametrize("seed", range(10))
def test_co_group_sees_sides_that_are_empty(seed: int) -> None:
    env = simulated_environment(seed, parallelism=2)
    grouped = (
        timed(env, ORDERS)
        .co_group(timed(env, PAYMENTS))
        .where(0)
        .equal_to(0)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .apply(OuterJoin())
    )
    assert collected(grouped) == [
        ([], [30]),
        (["jam"], []),
        (["oil"], []),
        (["rye"], [40]),
        (["tea"], [10, 20]),
    ]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield (left[1], right[1], ctx.timestamp())


@pytest.mark.parametrize("seed", range(10))
def test_interval_join_pairs_what_is_close_in_time(seed: int) -> None:
    env = simulated_environment(seed, parallelism=2)
    left = timed(env, ORDERS).key_by(lambda order: order[0])
    right = timed(env, PAYMENTS).key_by(lambda payment: payment[0])
    joined = left.interval_join(right).between(Time.milliseconds(-4), Time.milliseconds(11)).process(Pair())
    assert collected(joined) == [
        ("jam", 30, 15),
        ("oil", 20, 12),
        ("rye", 40, 19),
        ("tea", 10, 2),
        ("tea", 20, 8),
    ]


def test_exclusive_bounds_leave_out_the_edges() -> None:
    env = simulated_environment(0, parallelism=1)
    left = timed(env, ORDERS).key_by(lambda order: order[0])
    right = timed(env, PAYMENTS).key_by(lambda payment: payment[0])
    within = left.interval_join(right).between(Time.milliseconds(-4), Time.milliseconds(11))
    assert collected(within.lower_bound_exclusive().upper_bound_exclusive().process(Pair())) == [
        ("rye", 40, 19),
        ("tea", 10, 2),
        ("tea", 20, 8),
    ]


def test_bounds_the_wrong_way_round_are_refused_where_they_stand() -> None:
    env = simulated_environment(0)
    left = timed(env, ORDERS).key_by(lambda order: order[0])
    with pytest.raises(ProgramError, match="above the upper bound"):
        left.interval_join(left).between(Time.milliseconds(5), Time.milliseconds(1))


# Windows that end with the input.


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
@pytest.mark.parametrize("seed", range(3))
def test_joins_over_all_records_come_at_the_end_of_the_input(mode: RuntimeExecutionMode, seed: int) -> None:
    env = simulated_environment(parallelism=2, seed=seed).set_runtime_mode(mode)
    left = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
    right = env.from_collection([("a", 10), ("c", 20), ("b", 30)])
    everything = GlobalWindows.create_with_end_of_stream_trigger()

    def paired(streams: Any) -> Any:
        return streams.where(lambda pair: pair[0]).equal_to(lambda pair: pair[0]).window(everything)

    joined = paired(left.join(right)).apply(lambda one, other: (one[1], other[1]))
    assert sorted(joined.execute_and_collect()) == [(1, 10), (2, 30), (3, 10)]
    grouped = paired(left.co_group(right)).apply(lambda ones, others: [(len(ones), len(others))])
    assert sorted(grouped.execute_and_collect()) == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_windows_over_all_records_are_folded_at_the_end_of_the_input(mode: RuntimeExecutionMode) -> None:
    env = simulated_environment(parallelism=2).set_runtime_mode(mode)
    numbers = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
    everything = GlobalWindows.create_with_end_of_stream_trigger()
    sums = (
        numbers.key_by(lambda pair: pair[0])
        .window(everything)
        .reduce(lambda one, two: (one[0], one[1] + two[1]))
    )
    assert sorted(sums.execute_and_collect()) == [("a", 4), ("b", 2)]
    total = numbers.map(lambda pair: pair[1]).window_all(everything).reduce(lambda one, two: one + two)
    assert list(total.execute_and_collect()) == [6]


def test_a_window_that_can_never_fire_is_told_where_it_is_built(caplog: pytest.LogCaptureFixture) -> None:
    env = simulated_environment()
    numbers = env.from_collection([1])
    where = numbers.join(numbers).where(lambda n: n).equal_to(lambda n: n)
    where.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).apply(lambda one, other: one)
    where.window(GlobalWindows.create_with_end_of_stream_trigger()).apply(lambda one, other: one)
    assert not caplog.records
    where.window(GlobalWindows.create()).apply(lambda one, other: one)
    assert (
        "window(GlobalWindows()) never gives a result, because its trigger is a NeverTrigger" in caplog.text
    )
    assert "GlobalWindows.create_with_end_of_stream_trigger()" in caplog.text
    caplog.clear()
    numbers.window_all(TumblingEventTimeWindows.of(5)).trigger(NeverTrigger()).reduce(lambda one, two: one)
    assert "window_all(TumblingEventTimeWindows(" in caplog.text
