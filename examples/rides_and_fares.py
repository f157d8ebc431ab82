"""Rides and fares (J39): rides and their fares come on two streams and leave as pairs.

Whichever comes first waits in keyed state for the other. `build` waits for ever; `build_with_timers` waits half an hour
of event time and then sends what has lost its partner to a side output, so that state stays small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from event_times import watermark_after_each
from firesteel.common import Types
from firesteel.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import ValueStateDescriptor
from taxi_rides import EIGHT_O_CLOCK, MINUTE, TaxiFare, fare_time

ALONE = OutputTag("without-partner", Types.PICKLED_BYTE_ARRAY())
ANY = Types.PICKLED_BYTE_ARRAY()


class Ride(NamedTuple):
    """The start of a ride."""

    ride_id: int
    start_time: int
    cell: int


RIDES = [Ride(number, EIGHT_O_CLOCK + number * 10 * MINUTE, 50_000 + number) for number in (1, 2, 3, 5, 12)]
FARES = [TaxiFare(number, 2013, EIGHT_O_CLOCK + number * 10 * MINUTE, 2.5) for number in (1, 3, 4, 5, 12)]


class Matching(KeyedCoProcessFunction[int, Ride, TaxiFare, tuple[Ride, TaxiFare]]):
    """Per ride: waits for the second of the two."""

    def __init__(self, patience: int | None) -> None:
        self.patience = patience

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the places where they wait."""
        self.ride = runtime_context.get_state(ValueStateDescriptor("ride", ANY))
        self.fare = runtime_context.get_state(ValueStateDescriptor("fare", ANY))

    def process_element1(
        self, value: Ride, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[Ride, TaxiFare]]:
        """A ride."""
        fare = self.fare.value()
        if fare is None:
            self._wait(self.ride, value, ctx)
        else:
            self._found(self.fare, fare, ctx)
            yield value, fare

    def process_element2(
        self, value: TaxiFare, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[Ride, TaxiFare]]:
        """A fare."""
        ride = self.ride.value()
        if ride is None:
            self._wait(self.fare, value, ctx)
        else:
            self._found(self.ride, ride, ctx)
            yield ride, value

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> None:
        """The partner has not come."""
        for state in (self.ride, self.fare):
            if state.value() is not None:
                ctx.output(ALONE, state.value())
                state.clear()

    def _wait(self, state: Any, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        state.update(value)
        if self.patience is not None:
            ctx.timer_service().register_event_time_timer(value.start_time + self.patience)

    def _found(self, state: Any, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        state.clear()
        if self.patience is not None:
            ctx.timer_service().delete_event_time_timer(value.start_time + self.patience)


def build(rides: DataStream[Ride], fares: DataStream[TaxiFare]) -> DataStream[tuple[Ride, TaxiFare]]:
    both = rides.connect(fares).key_by(lambda ride: ride.ride_id, lambda fare: fare.ride_id)
    return both.process(Matching(None))


def build_with_timers(rides: DataStream[Ride], fares: DataStream[TaxiFare]) -> tuple[DataStream, DataStream]:
    timed_rides = watermark_after_each(rides, lambda ride: ride.start_time)
    both = timed_rides.connect(watermark_after_each(fares, fare_time))
    pairs = both.key_by(lambda ride: ride.ride_id, lambda fare: fare.ride_id).process(Matching(30 * MINUTE))
    return pairs, pairs.get_side_output(ALONE)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    rides, fares = env.from_collection(RIDES), env.from_collection(FARES)
    build(rides, fares).print("patient")
    pairs, alone = build_with_timers(rides, fares)
    pairs.print("pair")
    alone.print("alone")
    env.execute("Rides and fares")


if __name__ == "__main__":
    main()
