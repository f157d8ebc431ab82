"""Window joins, co-groups and interval joins through the fluent API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common import Time, Types, WatermarkStrategy
from firesteel.common.errors import ProgramError
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.contracts.joins import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.window import TumblingEventTimeWindows
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
