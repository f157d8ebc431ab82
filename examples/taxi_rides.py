"""Taxi rides in and around New York City, always the same ones: input for the examples.

A grid of cells of about 100 by 100 metres lies over the city; `grid_cell` tells the cell of a place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

WEST, EAST = -74.05, -73.70
SOUTH, NORTH = 40.50, 41.00
CELL_WIDTH, CELL_HEIGHT = 0.0014, 0.00125
CELLS_PER_ROW = 250


class Place(NamedTuple):
    """Degrees of longitude and latitude."""

    lon: float
    lat: float


class TaxiRide(NamedTuple):
    """The start or the end of a ride; both have the start's time and place, only the end has all of the rest."""

    ride_id: int
    is_start: bool
    start_time: datetime
    end_time: datetime | None
    start: Place
    end: Place


class TaxiFare(NamedTuple):
    """What was paid for a ride; times are milliseconds since 1970."""

    ride_id: int
    driver_id: int
    start_time: int
    tip: float
    payment: str = "CASH"
    tolls: float = 0.0
    total: float = 0.0


def is_in_nyc(place: Place) -> bool:
    """Whether the place lies on the grid."""
    return WEST <= place.lon <= EAST and SOUTH <= place.lat <= NORTH


def grid_cell(place: Place) -> int:
    """The number of the cell: rows from north to south, cells in a row from west to east."""
    column = int((place.lon - WEST) / CELL_WIDTH)
    row = int((NORTH - place.lat) / CELL_HEIGHT)
    return row * CELLS_PER_ROW + column


def cell_centre(cell: int) -> Place:
    """A place in the middle of a cell."""
    row, column = divmod(cell, CELLS_PER_ROW)
    return Place(WEST + (column + 0.5) * CELL_WIDTH, NORTH - (row + 0.5) * CELL_HEIGHT)


#: Cell of the start, minutes: rides that are known, among others that are drawn by lot.
KNOWN_RIDES = [(50797, 6), (54285, 20), (50797, 8), (54285, 9), (50797, 11), (50797, 12)]


def taxi_rides(others: int = 30, seed: int = 7) -> list[TaxiRide]:
    """Starts and ends of the known rides and of ``others``, in the order of their ends."""
    rng = random.Random(seed)
    rides = [(cell_centre(cell), cell_centre(54285), minutes) for cell, minutes in KNOWN_RIDES]
    for _ in range(others):
        rides.insert(rng.randrange(len(rides)), (_somewhere(rng), _somewhere(rng), rng.randint(3, 45)))
    begin = datetime(2024, 5, 1, 8, 0)
    return [event for number, ride in enumerate(rides) for event in _events(number, begin, *ride)]


#: Eight o'clock of the first of May 2024, in milliseconds.
EIGHT_O_CLOCK = 1_714_550_400_000
MINUTE = 60 * 1000
HOUR = 60 * MINUTE


def taxi_fares() -> list[TaxiFare]:
    """Fares of three drivers in three hours, a few of them out of order by some minutes."""
    fares = [
        (1, 2013, 5, 4.0),
        (2, 2014, 10, 1.5),
        (3, 2013, 40, 2.0),
        (4, 2015, 62, 8.0),
        (5, 2014, 58, 3.0),
        (6, 2013, 75, 5.0),
        (7, 2013, 110, 6.5),
        (8, 2014, 125, 10.0),
        (9, 2015, 121, 0.5),
    ]
    return [
        TaxiFare(ride, driver, EIGHT_O_CLOCK + minutes * MINUTE, tip) for ride, driver, minutes, tip in fares
    ]


def fare_time(fare: TaxiFare) -> int:
    """When the ride of the fare began: its event time."""
    return fare.start_time


def _somewhere(rng: random.Random) -> Place:
    """A place, one in five outside the city; never in the cells of the known rides."""
    west, east = (WEST, EAST) if rng.random() < 0.8 else (EAST + 0.01, EAST + 0.4)
    place = Place(rng.uniform(west, east), rng.uniform(SOUTH, 40.7))
    assert grid_cell(place) not in dict(KNOWN_RIDES)
    return place


def _events(number: int, begin: datetime, start: Place, end: Place, minutes: int) -> Iterator[TaxiRide]:
    start_time = begin + timedelta(hours=number)
    yield TaxiRide(number, True, start_time, None, start, end)
    yield TaxiRide(number, False, start_time, start_time + timedelta(minutes=minutes), start, end)
