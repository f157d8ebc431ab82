"""Ride cleansing (J35): of all taxi rides, those that start and end in New York City."""

from __future__ import annotations

from collections.abc import Sequence

from firesteel.datastream import DataStream, StreamExecutionEnvironment
from taxi_rides import TaxiRide, is_in_nyc, taxi_rides


def in_nyc(ride: TaxiRide) -> bool:
    """Whether the ride starts and ends in the city."""
    return is_in_nyc(ride.start) and is_in_nyc(ride.end)


def build(env: StreamExecutionEnvironment, rides: Sequence[TaxiRide]) -> DataStream[TaxiRide]:
    return env.from_collection(rides).filter(in_nyc)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, taxi_rides()).print()
    env.execute("Ride cleansing")


if __name__ == "__main__":
    main()
