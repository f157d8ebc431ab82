"""Long rides (J42): an alert for every ride that has not ended two hours after its start.

Timers are the way to notice that something did not happen: the start sets one, the end deletes it. An end may come
before its start; then it waits in state and the start sets no timer. When the end comes before the timer rings, the
times of both decide: the stream's clock may be behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from event_times import watermark_after_each
from firesteel.common import Types
from firesteel.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.state import ValueStateDescriptor
from taxi_rides import EIGHT_O_CLOCK, HOUR, MINUTE


class RideEvent(NamedTuple):
    """The start or the end of a ride."""

    ride_id: int
    is_start: bool
    time: int


def ride_events(*events: tuple[int, str, int]) -> list[RideEvent]:
    """Events from (ride, "start" or "end", minutes after eight)."""
    return [
        RideEvent(ride, kind == "start", EIGHT_O_CLOCK + minutes * MINUTE) for ride, kind, minutes in events
    ]


EVENTS = ride_events(
    (1, "start", 0),
    (2, "start", 5),
    (1, "end", 30),
    (3, "end", 40),
    (3, "start", 35),
    (4, "start", 100),
    (2, "end", 126),
    (4, "end", 219),
    (5, "start", 230),
)


class LongRide(KeyedProcessFunction[int, RideEvent, int]):
    """Per ride: the start, until its end comes or its time is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the event that waits for its partner."""
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: RideEvent, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        """A start or an end."""
        partner = self.waiting.value()
        if partner is None:
            self.waiting.update(value)
            # An end that waits is removed in time, too.
            ctx.timer_service().register_event_time_timer(value.time + 2 * HOUR)
        else:
            self.waiting.clear()
            ctx.timer_service().delete_event_time_timer(partner.time + 2 * HOUR)
            if abs(partner.time - value.time) > 2 * HOUR:
                yield value.ride_id

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[int]) -> Iterator[int]:
        """No partner for two hours."""
        waiting = self.waiting.value()
        if waiting is not None and waiting.is_start:
            yield ctx.get_current_key()
        self.waiting.clear()


def build(env: StreamExecutionEnvironment, events: Sequence[RideEvent]) -> DataStream[int]:
    return alerts(env.from_collection(events))


def alerts(events: DataStream[RideEvent]) -> DataStream[int]:
    timed = watermark_after_each(events, lambda event: event.time)
    return timed.key_by(lambda event: event.ride_id).process(LongRide())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, EVENTS).map(lambda ride: f"ride {ride} takes more than two hours").print()
    env.execute("Long rides")


if __name__ == "__main__":
    main()
