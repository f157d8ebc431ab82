"""First events (J37): the first event of every key, and three answers to state that grows with every key.

- `build`: keeps a flag per key, for ever.
- `build_with_ttl`: flags expire a minute after they were written, by the clock of the machine.
- `build_with_timers`: a timer removes the flag a minute of event time after the first event.

After a minute a key counts as new again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from event_times import watermark_after_each
from firesteel.common import Time, Types
from firesteel.datastream import (
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import StateTtlConfig, ValueStateDescriptor

MINUTE = 60 * 1000


class Event(NamedTuple):
    """Something that happened to a key at a time in milliseconds."""

    key: str
    timestamp: int


EVENTS = [
    Event("a", 0),
    Event("b", 10_000),
    Event("a", 20_000),
    Event("b", 65_000),
    Event("a", 70_000),
    Event("b", 75_000),
]


class FirstOfKey(FlatMapFunction[Event, Event]):
    """Lets an event through when its key has no flag yet."""

    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the flag."""
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        self.seen = runtime_context.get_state(descriptor)

    def flat_map(self, value: Event) -> Iterator[Event]:
        """One event."""
        if not self.seen.value():
            self.seen.update(True)
            yield value


def build(events: DataStream[Event]) -> DataStream[Event]:
    return events.key_by(lambda event: event.key).flat_map(FirstOfKey())


def build_with_ttl(events: DataStream[Event], time_to_live: Time | None = None) -> DataStream[Event]:
    minute = Time.minutes(1) if time_to_live is None else time_to_live
    ttl = StateTtlConfig.new_builder(minute).update_ttl_on_create_and_write().build()
    return events.key_by(lambda event: event.key).flat_map(FirstOfKey(ttl))


class FirstOfMinute(KeyedProcessFunction[str, Event, Event]):
    """The same, with a timer that removes the flag."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the flag."""
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        """One event."""
        if not self.seen.value():
            self.seen.update(True)
            ctx.timer_service().register_event_time_timer(value.timestamp + MINUTE)
            yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        """The minute is over."""
        self.seen.clear()


def build_with_timers(events: DataStream[Event]) -> DataStream[Event]:
    timed = watermark_after_each(events, lambda event: event.timestamp)
    return timed.key_by(lambda event: event.key).process(FirstOfMinute())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env.from_collection(EVENTS)).print("for ever")
    build_with_ttl(env.from_collection(EVENTS)).print("with a time to live")
    build_with_timers(env.from_collection(EVENTS)).print("with timers")
    env.execute("First events")


if __name__ == "__main__":
    main()
