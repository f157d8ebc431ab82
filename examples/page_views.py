"""Page views (J45): the same clicks counted by three kinds of windows, and windows of windows.

- `per_minute`: tumbling windows; every view counts once.
- `per_minute_every_ten_seconds`: sliding windows; every view counts in six of them.
- `per_session`: windows that end after half an hour without views.
- `busiest_user`: counts per user and minute, then the highest of them over all users in the same minute. Results of a
  window carry its last timestamp, so a second window of the same length puts them together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from event_times import in_order_of_time
from firesteel.common import Time
from firesteel.datastream import (
    DataStream,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowAssigner,
)
from firesteel.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

MINUTE = 60


class View(NamedTuple):
    """A user saw a page, at a time in seconds."""

    user: str
    page: str
    second: int


VIEWS = [
    View("ann", "/", 5),
    View("bob", "/", 20),
    View("ann", "/docs", 25),
    View("ann", "/docs/state", 58),
    View("bob", "/docs", 61),
    View("bob", "/docs", 119),
    View("ann", "/", 40 * MINUTE),
]


class CountOfUser(ProcessWindowFunction[View, tuple[str, int, int, int], str, TimeWindow]):
    """(user, start and end of the window in seconds, number of views)."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[View]
    ) -> Iterator[tuple[str, int, int, int]]:
        """One window of a user."""
        window = context.window()
        yield key, window.start // 1000, window.end // 1000, len(list(elements))


def counted(
    views: DataStream[View], windows: WindowAssigner[Any, Any]
) -> DataStream[tuple[str, int, int, int]]:
    return views.key_by(lambda view: view.user).window(windows).process(CountOfUser())


def per_minute(views: DataStream[View]) -> DataStream[tuple[str, int, int, int]]:
    return counted(views, TumblingEventTimeWindows.of(Time.minutes(1)))


def per_minute_every_ten_seconds(views: DataStream[View]) -> DataStream[tuple[str, int, int, int]]:
    return counted(views, SlidingEventTimeWindows.of(Time.minutes(1), Time.seconds(10)))


def per_session(views: DataStream[View]) -> DataStream[tuple[str, int, int, int]]:
    return counted(views, EventTimeSessionWindows.with_gap(Time.minutes(30)))


def busiest_user(views: DataStream[View]) -> DataStream[tuple[str, int, int, int]]:
    return per_minute(views).window_all(TumblingEventTimeWindows.of(Time.minutes(1))).max_by(3)


def timed(env: StreamExecutionEnvironment, views: Sequence[View]) -> DataStream[View]:
    return in_order_of_time(env.from_collection(views), lambda view: view.second * 1000)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    views = timed(env, VIEWS)
    per_minute(views).print("per minute")
    per_minute_every_ten_seconds(views).print("per minute, every ten seconds")
    per_session(views).print("per session")
    busiest_user(views).print("busiest user")
    env.execute("Page views")


if __name__ == "__main__":
    main()
