"""Longest taxi rides (J36): enrich rides with grid cells, then find the longest ride from each cell so far.

`enriched` does it by filter and map, `enriched_by_flat_map` by one flat_map that leaves rides out.
``max_by`` gives one result for every ride that ends: the record of the longest ride from its cell until
now, again and again as long as no longer one comes. The rides from cell 50797 take 6, 8, 11 and 12 minutes, each
longer than the one before. The ride of 9 minutes from cell 54285 follows one of 20, so 20 is printed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from firesteel.common import Types
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from ride_cleansing import in_nyc
from taxi_rides import TaxiRide, grid_cell, taxi_rides


class EnrichedRide(NamedTuple):
    """A ride with the cells in which it starts and ends."""

    ride: TaxiRide
    start_cell: int
    end_cell: int


def enrich(ride: TaxiRide) -> EnrichedRide:
    """Add the cells."""
    return EnrichedRide(ride, grid_cell(ride.start), grid_cell(ride.end))


def enriched(rides: DataStream[TaxiRide]) -> DataStream[EnrichedRide]:
    return rides.filter(in_nyc).set_parallelism(1).map(enrich).set_parallelism(1)


def enriched_by_flat_map(rides: DataStream[TaxiRide]) -> DataStream[EnrichedRide]:
    return rides.flat_map(lambda ride: [enrich(ride)] if in_nyc(ride) else [])


def minutes_by_start_cell(ride: EnrichedRide) -> Iterator[tuple[int, int]]:
    """For the end of a ride: where it started, and how many minutes it took."""
    if ride.ride.end_time is not None:
        yield ride.start_cell, (ride.ride.end_time - ride.ride.start_time).seconds // 60


def build(env: StreamExecutionEnvironment, rides: Sequence[TaxiRide]) -> DataStream[tuple[int, int]]:
    # Everything before the key runs in one task, as the source does, so that rides from one cell stay in order.
    pair = Types.TUPLE([Types.INT(), Types.INT()])
    minutes = enriched(env.from_collection(rides)).flat_map(minutes_by_start_cell, output_type=pair)
    return minutes.set_parallelism(1).key_by(lambda cell_and_minutes: cell_and_minutes[0]).max_by(1)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, taxi_rides()).print()
    env.execute("Longest rides")


if __name__ == "__main__":
    main()
