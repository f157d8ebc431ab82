"""Incremental window functions (J16): the minimum and the mean of every sensor per 15 seconds.

``reduce`` combines readings into one of the same type, ``aggregate`` into an accumulator of whatever type. Either way a
window keeps one value, not its readings.
"""

from __future__ import annotations

from collections.abc import Sequence

from event_times import in_order_of_time
from firesteel.common import Time
from firesteel.datastream import AggregateFunction, DataStream, StreamExecutionEnvironment
from firesteel.datastream.window import TumblingEventTimeWindows
from sensor_readings import SensorReading, fahrenheit_readings, reading_time

FIFTEEN_SECONDS = TumblingEventTimeWindows.of(Time.seconds(15))
Accumulator = tuple[str, float, int]


class Mean(AggregateFunction[SensorReading, Accumulator, tuple[str, float]]):
    """(sensor, mean temperature), from (sensor, sum, count)."""

    def create_accumulator(self) -> Accumulator:
        """Nothing yet."""
        return "", 0.0, 0

    def add(self, value: SensorReading, accumulator: Accumulator) -> Accumulator:
        """Add a reading."""
        _, total, count = accumulator
        return value.id, total + value.temperature, count + 1

    def get_result(self, accumulator: Accumulator) -> tuple[str, float]:
        """The mean of what was added."""
        sensor, total, count = accumulator
        return sensor, round(total / count, 3)

    def merge(self, acc_a: Accumulator, acc_b: Accumulator) -> Accumulator:
        """Two accumulators as one: for sessions, and for sliding windows that share their parts."""
        return acc_a[0] or acc_b[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> tuple[DataStream[tuple[str, float]], DataStream[tuple[str, float]]]:
    by_sensor = in_order_of_time(env.from_collection(readings), reading_time).key_by(
        lambda reading: reading.id
    )
    coldest = by_sensor.window(FIFTEEN_SECONDS).reduce(
        lambda a, b: a if a.temperature <= b.temperature else b
    )
    mean = by_sensor.window(FIFTEEN_SECONDS).aggregate(Mean())
    return coldest.map(lambda reading: (reading.id, reading.temperature)), mean


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    coldest, mean = build(env, fahrenheit_readings(400))
    coldest.print("minimum")
    mean.print("mean")
    env.execute("Minimum and mean per 15 seconds")


if __name__ == "__main__":
    main()
