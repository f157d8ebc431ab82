"""Taxi rides and fares without end, always the same ones: input for the four exercises of training.py.

A ride starts every twenty seconds. What happens in a ride depends on nothing but its number, so sources need to
remember only how far they are. As in reality

- some rides start or end outside the city,
- a few take more than two hours, and a few never end, as far as anybody was told,
- a few starts and a few fares are lost,
- starts and ends come in order of time; fares are up to two minutes out of order.

What looks random repeats every `PERIOD` rides.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from firesteel.common import WatermarkStrategy
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from taxi_rides import EAST, EIGHT_O_CLOCK, MINUTE, NORTH, SOUTH, WEST, Place, TaxiFare

T = TypeVar("T")

STARTS_PER_MINUTE = 3
BETWEEN_STARTS = MINUTE // STARTS_PER_MINUTE
PERIOD = 997
TAXIS = 60
FIRST_DRIVER = 2_013_000_001
FIRST_TAXI = 2_013_000_001
#: The order of fares among six rides in a row: none is more than five rides, a hundred seconds, from its place.
DISORDER = (1, 0, 4, 2, 5, 3)


class RideEvent(NamedTuple):
    """The start or the end of a ride."""

    ride_id: int
    is_start: bool
    time: int
    start: Place
    end: Place
    passengers: int
    taxi_id: int
    driver_id: int

    @property
    def start_time(self) -> int:
        """When the ride began."""
        return start_time(self.ride_id)


class Plan(NamedTuple):
    """What happens in a ride."""

    minutes: int | None
    start: Place
    end: Place
    passengers: int
    payment: str
    tip: float
    tolls: float
    has_start: bool
    has_fare: bool


def _plan(rng: random.Random) -> Plan:
    kind = rng.random()
    # One in a hundred never ends, two in a hundred take long.
    minutes = (
        None
        if kind < 0.01
        else rng.randint(125, 190)
        if kind < 0.03
        else 3 + int(rng.expovariate(1 / 12)) % 80
    )
    start, end = _place(rng), _place(rng)
    by_card = rng.random() < 0.6
    tip = rng.randrange(0, 48) / 4 if by_card else 0.0  # quarters, so that sums are exact
    tolls = 5.75 if rng.random() < 0.05 else 0.0
    return Plan(
        minutes,
        start,
        end,
        rng.randint(1, 5),
        "CARD" if by_card else "CASH",
        tip,
        tolls,
        rng.random() > 0.01,
        rng.random() > 0.02,
    )


def _place(rng: random.Random) -> Place:
    """One in twelve lies east of the city."""
    west, east = (WEST, EAST) if rng.random() < 11 / 12 else (EAST + 0.01, EAST + 0.4)
    return Place(round(rng.uniform(west, east), 6), round(rng.uniform(SOUTH, NORTH), 6))


_RNG = random.Random(2013)
PLANS = [_plan(_RNG) for _ in range(PERIOD)]
MINUTES = sorted({plan.minutes for plan in PLANS if plan.minutes is not None})
#: Rides that may be on their way when another one starts.
ON_THEIR_WAY = MINUTES[-1] * STARTS_PER_MINUTE + 1


def plan_of(ride_id: int) -> Plan:
    """What happens in a ride."""
    return PLANS[ride_id % PERIOD]


def start_time(ride_id: int) -> int:
    """When a ride begins, in milliseconds since 1970."""
    return EIGHT_O_CLOCK + ride_id * BETWEEN_STARTS


def end_time(ride_id: int) -> int | None:
    """When it ends; None if nobody ever hears of it."""
    minutes = plan_of(ride_id).minutes
    # Always half way between two starts, so that there is one order of all events.
    return None if minutes is None else start_time(ride_id) + minutes * MINUTE + BETWEEN_STARTS // 2


def ride_event(ride_id: int, is_start: bool) -> RideEvent:
    """What is reported when a ride begins, or when it ends."""
    plan = plan_of(ride_id)
    time = start_time(ride_id) if is_start else end_time(ride_id)
    assert time is not None
    taxi = ride_id % TAXIS
    return RideEvent(
        ride_id, is_start, time, plan.start, plan.end, plan.passengers, FIRST_TAXI + taxi, FIRST_DRIVER + taxi
    )


class RideEvents:
    """Which events there are from the start of ride ``n - 1`` until that of ride ``n``, in order of time."""

    def __init__(self, rides: int | None) -> None:
        self.rides = rides

    def map(self, n: int) -> list[RideEvent]:
        """The ends between the two starts, and the second of these."""
        last = n if self.rides is None else min(n, self.rides)
        # A ride of so many minutes that ends now is so many rides ago.
        ended = [(n - 1 - minutes * STARTS_PER_MINUTE, minutes) for minutes in reversed(MINUTES)]
        events = [
            ride_event(ride, is_start=False)
            for ride, minutes in ended
            if 0 <= ride < last and plan_of(ride).minutes == minutes
        ]
        if plan_of(n).has_start and (self.rides is None or n < self.rides):
            events.append(ride_event(n, is_start=True))
        return events


class Fares:
    """The fare with number ``n``, if it was not lost: a list of one or none."""

    def __init__(self, rides: int | None) -> None:
        self.rides = rides

    def map(self, n: int) -> list[TaxiFare]:
        """Six rides in a row have their fares in another order."""
        ride = n - n % len(DISORDER) + DISORDER[n % len(DISORDER)]
        plan = plan_of(ride)
        if not plan.has_fare or (self.rides is not None and ride >= self.rides):
            return []
        total = 3.0 + (plan.minutes or 30) * 0.75 + plan.tip + plan.tolls
        driver = FIRST_DRIVER + ride % TAXIS
        return [TaxiFare(ride, driver, start_time(ride), plan.tip, plan.payment, plan.tolls, total)]


def ride_stream(
    env: StreamExecutionEnvironment, rides: int | None = None, rate: float | None = None
) -> DataStream[RideEvent]:
    """Starts and ends of so many rides (None: for ever), so many starts a second (None: as fast as it goes)."""
    steps = None if rides is None else rides + ON_THEIR_WAY  # until the last of them has ended
    return _stream(env, RideEvents(rides).map, steps, rate, "Rides")


def fare_stream(
    env: StreamExecutionEnvironment, rides: int | None = None, rate: float | None = None
) -> DataStream[TaxiFare]:
    """The fares of so many rides."""
    steps = None if rides is None else rides + len(DISORDER)
    return _stream(env, Fares(rides).map, steps, rate, "Fares")


def _stream(
    env: StreamExecutionEnvironment,
    generator: Callable[[int], list[T]],
    steps: int | None,
    rate: float | None,
    name: str,
) -> DataStream[T]:
    limit = None if rate is None else RateLimiterStrategy.per_second(rate)
    source = DataGeneratorSource(generator, steps, limit)
    # One task, so that time is in order.
    lists = env.from_source(source, WatermarkStrategy.no_watermarks(), name).set_parallelism(1)
    return lists.flat_map(lambda events: events).name(f"Each of {name}").set_parallelism(1)
