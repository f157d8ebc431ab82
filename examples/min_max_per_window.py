"""Minimum and maximum per window (J17), with the window's end: (sensor, min, max, end) per five seconds.

The end is known to a ``ProcessWindowFunction`` only. `build` gives it all readings of the window, which are kept until
then. `build_incrementally` reduces readings as they come and gives the function the one result of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from event_times import in_order_of_time
from firesteel.common import Time
from firesteel.datastream import (
    DataStream,
    KeyedStream,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from firesteel.datastream.window import TumblingEventTimeWindows
from sensor_readings import SensorReading, fahrenheit_readings, reading_time

MinMax = tuple[str, float, float]
MinMaxWithEnd = tuple[str, float, float, int]
FIVE_SECONDS = TumblingEventTimeWindows.of(Time.seconds(5))


def temperatures(env: StreamExecutionEnvironment, readings: Sequence[SensorReading]) -> KeyedStream:
    return in_order_of_time(env.from_collection(readings), reading_time).key_by(lambda reading: reading.id)


class HighAndLow(ProcessWindowFunction[SensorReading, MinMaxWithEnd, str, TimeWindow]):
    """Looks through all readings of a window."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[SensorReading]
    ) -> Iterator[MinMaxWithEnd]:
        """One window of one sensor."""
        values = [reading.temperature for reading in elements]
        yield key, min(values), max(values), context.window().end


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, float, float, int]]:
    return temperatures(env, readings).window(FIVE_SECONDS).process(HighAndLow())


class AddEnd(ProcessWindowFunction[MinMax, MinMaxWithEnd, str, TimeWindow]):
    """Gets the one element that the reduction gave, and adds the window's end."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[MinMax]
    ) -> Iterator[MinMaxWithEnd]:
        """One window of one sensor."""
        (found,) = elements
        yield (*found, context.window().end)


def build_incrementally(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, float, float, int]]:
    pairs = in_order_of_time(env.from_collection(readings), reading_time).map(
        lambda reading: (reading.id, reading.temperature, reading.temperature)
    )
    windows = pairs.key_by(lambda pair: pair[0]).window(FIVE_SECONDS)
    return windows.reduce(lambda a, b: (a[0], min(a[1], b[1]), max(a[2], b[2])), window_function=AddEnd())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = fahrenheit_readings(120)
    build(env, readings).print("all readings")
    build_incrementally(env, readings).print("incrementally")
    env.execute("Minimum and maximum per window")


if __name__ == "__main__":
    main()
