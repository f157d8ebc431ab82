"""Bubbles (J47): why event time. Players who burst 500 bubbles within a minute reach the next level.

Alice plays in a train. In a tunnel her phone keeps what she does and sends it all when the train comes out. By event
time, the time in the records, it makes no difference. By processing time her minute looks empty while she is in the
tunnel, and the bubbles of two minutes arrive in one: her level depends on the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from event_times import in_order_of_time
from firesteel.common import Duration, Time
from firesteel.datastream import (
    DataStream,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowAssigner,
)
from firesteel.datastream.window import TumblingEventTimeWindows, TumblingProcessingTimeWindows

LEVEL = 500


class Burst(NamedTuple):
    """A player burst some bubbles, at a time in milliseconds."""

    player: str
    time: int
    bubbles: int


class LevelUp(ProcessWindowFunction[Burst, tuple[str, int], str, TimeWindow]):
    """(player, number of bubbles) of minutes with enough of them."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Burst]
    ) -> Iterator[tuple[str, int]]:
        """One minute of a player."""
        bubbles = sum(burst.bubbles for burst in elements)
        if bubbles >= LEVEL:
            yield key, bubbles


def _levels(bursts: DataStream[Burst], windows: WindowAssigner[Any, Any]) -> DataStream[tuple[str, int]]:
    return bursts.key_by(lambda burst: burst.player).window(windows).process(LevelUp())


def by_event_time(bursts: DataStream[Burst]) -> DataStream[tuple[str, int]]:
    timed = in_order_of_time(bursts, lambda burst: burst.time, Duration.of_minutes(2))
    return _levels(timed, TumblingEventTimeWindows.of(Time.minutes(1)))


def by_processing_time(bursts: DataStream[Burst], minute: Time | None = None) -> DataStream[tuple[str, int]]:
    """``minute``: how long one takes, for those who do not want to wait so long."""
    return _levels(bursts, TumblingProcessingTimeWindows.of(Time.minutes(1) if minute is None else minute))


#: In each of two minutes Bob bursts 510 bubbles; Alice 520 in the first one and 100 in the second.
BOB = [Burst("Bob", minute * 60_000 + 30_000, 510) for minute in (0, 1)]
ALICE = [Burst("Alice", 10_000, 300), Burst("Alice", 50_000, 220), Burst("Alice", 70_000, 100)]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    by_event_time(env.from_collection([*BOB, *ALICE])).print("level up")
    env.execute("Bubbles")


if __name__ == "__main__":
    main()
