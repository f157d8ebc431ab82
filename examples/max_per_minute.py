"""Maximum per minute (J44): (sensor, end of the minute, highest temperature), and what it costs to keep a window.

`build` gives the window function all readings, so all of a minute are in memory until it ends. `build_incrementally`
keeps one reading per sensor and minute. Temperatures may be below zero, so the maximum must not start at 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from event_times import in_order_of_time
from firesteel.common import Time
from firesteel.datastream import (
    DataStream,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowedStream,
)
from firesteel.datastream.window import TumblingEventTimeWindows
from sensor_readings import SensorReading, fahrenheit_readings, reading_time


class Highest(ProcessWindowFunction[SensorReading, tuple[str, int, float], str, TimeWindow]):
    """The highest of the readings it gets: all of a window, or the one that is left of it."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[SensorReading]
    ) -> Iterator[tuple[str, int, float]]:
        """One minute of a sensor."""
        yield key, context.window().end, max(reading.temperature for reading in elements)


def minutes(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> WindowedStream[SensorReading, str, TimeWindow]:
    timed = in_order_of_time(env.from_collection(readings), reading_time)
    return timed.key_by(lambda reading: reading.id).window(TumblingEventTimeWindows.of(Time.minutes(1)))


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, int, float]]:
    return minutes(env, readings).process(Highest())


def build_incrementally(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, int, float]]:
    return minutes(env, readings).reduce(
        lambda a, b: a if a.temperature >= b.temperature else b, window_function=Highest()
    )


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = fahrenheit_readings(1000)
    build(env, readings).print("all readings")
    build_incrementally(env, readings).print("incrementally")
    env.execute("Maximum per minute")


if __name__ == "__main__":
    main()
