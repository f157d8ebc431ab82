"""Joining streams (J19): three ways to bring together what two streams say about a key.

- `interval_joined`: pairs of A and B where B lies between an hour before and a quarter of an hour after A.
- `window_joined`: all pairs that share a key and a window.
- `co_grouped`: both sides of a key and window at once, also when one of them is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from event_times import in_order_of_time
from firesteel.common import Duration, Time
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.functions import CoGroupFunction, ProcessJoinFunction
from firesteel.datastream.window import TumblingEventTimeWindows

MINUTE = 60 * 1000


class Event(NamedTuple):
    """Something that happened to a key."""

    key: str
    time: int
    name: str


def events(*events: tuple[str, int, str]) -> list[Event]:
    """Events from (key, minutes, name)."""
    return [Event(key, minutes * MINUTE, name) for key, minutes, name in events]


A = events(("red", 65, "a1"), ("blue", 70, "a2"), ("red", 130, "a3"))
B = events(("red", 4, "b1"), ("red", 5, "b2"), ("blue", 72, "b3"), ("red", 80, "b4"), ("red", 81, "b5"))


def timed(env: StreamExecutionEnvironment, events: Sequence[Event]) -> DataStream[Event]:
    return in_order_of_time(env.from_collection(events), lambda event: event.time, Duration.of_minutes(5))


class Pair(ProcessJoinFunction[Event, Event, tuple[str, str, int]]):
    """The names of both, and the minute of the pair: that of the later one."""

    def process_element(
        self, left: Event, right: Event, ctx: ProcessJoinFunction.Context
    ) -> Iterator[tuple[str, str, int]]:
        """One pair."""
        yield left.name, right.name, ctx.timestamp() // MINUTE


def interval_joined(a: DataStream[Event], b: DataStream[Event]) -> DataStream[tuple[str, str, int]]:
    keyed_b = b.key_by(lambda event: event.key)
    pairs = a.key_by(lambda event: event.key).interval_join(keyed_b)
    return pairs.between(Time.hours(-1), Time.minutes(15)).process(Pair())


def window_joined(a: DataStream[Event], b: DataStream[Event]) -> DataStream[tuple[str, str]]:
    keyed = a.join(b).where(lambda event: event.key).equal_to(lambda event: event.key)
    hours = keyed.window(TumblingEventTimeWindows.of(Time.hours(1)))
    return hours.apply(lambda left, right: (left.name, right.name))


class Names(CoGroupFunction[Event, Event, tuple[list[str], list[str]]]):
    """The names of both sides."""

    def co_group(
        self, first: Iterable[Event], second: Iterable[Event]
    ) -> Iterator[tuple[list[str], list[str]]]:
        """One key and window."""
        yield sorted(event.name for event in first), sorted(event.name for event in second)


def co_grouped(a: DataStream[Event], b: DataStream[Event]) -> DataStream[tuple[list[str], list[str]]]:
    keyed = a.co_group(b).where(lambda event: event.key).equal_to(lambda event: event.key)
    return keyed.window(TumblingEventTimeWindows.of(Time.hours(1))).apply(Names())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    a, b = timed(env, A), timed(env, B)
    interval_joined(a, b).print("interval")
    window_joined(a, b).print("window")
    co_grouped(a, b).print("groups")
    env.execute("Joining streams")


if __name__ == "__main__":
    main()
