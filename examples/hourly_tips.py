"""Hourly tips (J40): what each driver got in tips in every hour: (driver, end of the hour, sum)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from event_times import in_order_of_time
from firesteel.common import Duration, Time
from firesteel.datastream import (
    AggregateFunction,
    DataStream,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from firesteel.datastream.window import TumblingEventTimeWindows
from taxi_rides import TaxiFare, fare_time, taxi_fares


class SumOfTips(AggregateFunction[TaxiFare, float, float]):
    """Adds the tips as they come; a window keeps one number."""

    def create_accumulator(self) -> float:
        """Nothing yet."""
        return 0.0

    def add(self, value: TaxiFare, accumulator: float) -> float:
        """Add a tip."""
        return accumulator + value.tip

    def get_result(self, accumulator: float) -> float:
        """The sum."""
        return accumulator

    def merge(self, acc_a: float, acc_b: float) -> float:
        """Both sums."""
        return acc_a + acc_b


class WithHour(ProcessWindowFunction[float, tuple[int, int, float], int, TimeWindow]):
    """Adds driver and hour to the sum."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[float]
    ) -> Iterator[tuple[int, int, float]]:
        """One driver's hour."""
        (tips,) = elements
        yield key, context.window().end, tips


def build(env: StreamExecutionEnvironment, fares: Sequence[TaxiFare]) -> DataStream[tuple[int, int, float]]:
    return tips_per_hour(env.from_collection(fares))


def tips_per_hour(fares: DataStream[TaxiFare]) -> DataStream[tuple[int, int, float]]:
    timed = in_order_of_time(fares, fare_time, Duration.of_minutes(5))
    hours = timed.key_by(lambda fare: fare.driver_id).window(TumblingEventTimeWindows.of(Time.hours(1)))
    return hours.aggregate(SumOfTips(), WithHour())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, taxi_fares()).print()
    env.execute("Hourly tips")


if __name__ == "__main__":
    main()
