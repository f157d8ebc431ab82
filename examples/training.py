"""The four exercises of a first streaming course, on taxi rides without end (J35, J39, J40, J42).

    firesteel run examples/training.py ride_cleansing     # of all rides those that start and end in New York City
    firesteel run examples/training.py rides_and_fares    # every ride with its fare; those without partner on the side
    firesteel run examples/training.py hourly_tips        # per hour, the driver who got most in tips
    firesteel run examples/training.py long_rides         # rides that have not ended two hours after their start

taxi_generator.py makes the rides: a hundred starts a second (``--rate``), which are half an hour of the drivers' time,
for 2,000 rides (``--rides``; 0: until Ctrl-C). Solutions are in ride_cleansing.py, rides_and_fares.py, hourly_tips.py and
long_rides.py; to solve one yourself, write another function `build` and put it into `EXERCISES`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import hourly_tips
import long_rides
import ride_cleansing
import rides_and_fares
from firesteel.common import Time
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.window import TumblingEventTimeWindows
from taxi_generator import RideEvent, fare_stream, ride_stream
from taxi_rides import TaxiFare

Streams = dict[str, DataStream]


def build_ride_cleansing(rides: DataStream, fares: DataStream) -> Streams:
    """Rides that start and end in the city: a filter."""
    return {"in the city": rides.filter(ride_cleansing.in_nyc)}


def build_rides_and_fares(rides: DataStream, fares: DataStream) -> Streams:
    """Whichever comes first waits in state for the other, and not for ever."""
    starts = rides.filter(lambda event: event.is_start).set_parallelism(1)
    pairs, alone = rides_and_fares.build_with_timers(starts, fares)
    return {"pair": pairs, "alone": alone}


def build_hourly_tips(rides: DataStream, fares: DataStream) -> Streams:
    """Sums per driver and hour, and of these the largest of each hour: a window of windows."""
    tips = hourly_tips.tips_per_hour(fares)
    # The sums of an hour have its last millisecond as their time, so they are in one window again.
    hours = tips.window_all(TumblingEventTimeWindows.of(Time.hours(1)))
    return {"most tips": hours.reduce(lambda a, b: max(a, b, key=lambda sums: (sums[2], sums[0])))}


def build_long_rides(rides: DataStream, fares: DataStream) -> Streams:
    """An alert for what did not happen: timers."""
    return {"longer than two hours": long_rides.alerts(rides)}


EXERCISES: dict[str, Callable[[DataStream, DataStream], Streams]] = {
    "ride_cleansing": build_ride_cleansing,
    "rides_and_fares": build_rides_and_fares,
    "hourly_tips": build_hourly_tips,
    "long_rides": build_long_rides,
}


def build(
    env: StreamExecutionEnvironment, exercise: str, rides: int | None = None, rate: float | None = None
) -> Streams:
    """The results of an exercise over so many rides."""
    return EXERCISES[exercise](ride_stream(env, rides, rate), fare_stream(env, rides, rate))


def text(result: object) -> str:
    """A result as people read it."""
    if isinstance(result, RideEvent):
        what = "starts" if result.is_start else "ends"
        return f"ride {result.ride_id} {what} {at(result.time)} with {result.passengers} passengers"
    if isinstance(result, TaxiFare):
        return f"fare of ride {result.ride_id}: {result.total:.2f} by {result.payment}"
    if isinstance(result, tuple) and len(result) == 2:
        return f"{text(result[0])}, {text(result[1])}"
    if isinstance(result, tuple):
        driver, end, tips = result
        return f"driver {driver} got {tips:.2f} in the hour until {at(end)}"
    return f"ride {result}"


def at(milliseconds: int) -> str:
    """A time of day."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%a %H:%M:%S}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exercise", choices=EXERCISES)
    parser.add_argument("--rides", type=int, default=2000, help="how many; 0: without end")
    parser.add_argument("--rate", type=float, default=100.0, help="starts a second")
    options = parser.parse_args(arguments)
    env = StreamExecutionEnvironment.get_execution_environment()
    for name, stream in build(env, options.exercise, options.rides or None, options.rate).items():
        stream.map(text).print(name)
    env.execute(f"Training: {options.exercise}")


if __name__ == "__main__":
    main()
