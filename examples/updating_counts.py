"""Updating counts (J21): a result when the window ends, and a better one for every reading that comes late.

Windows of ten seconds are kept for five more seconds of event time. The function marks its first result and the
updates; it remembers in the window's own state whether there was a result, and removes that in ``clear``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from event_times import watermark_after_each
from firesteel.common import Time, Types
from firesteel.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment, TimeWindow
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import TumblingEventTimeWindows
from sensor_readings import START, SensorReading, reading_time, readings_of

#: Second 4 comes when 12 has been seen, second 5 after 14, and second 6 only after 15, which is too late.
READINGS = readings_of(*(("sensor_1", second, 60.0) for second in (1, 2, 12, 4, 14, 5, 15, 6, 27)))


class UpdatingCount(ProcessWindowFunction[SensorReading, tuple[str, int, int, str], str, TimeWindow]):
    """(sensor, second at which the window ends, count, "first" or "update")."""

    def __init__(self) -> None:
        self.updates = ValueStateDescriptor("updates", Types.BOOLEAN())

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[SensorReading]
    ) -> Iterator[tuple[str, int, int, str]]:
        """A result of a window."""
        updates = context.window_state().get_state(self.updates)
        kind = "update" if updates.value() else "first"
        updates.update(True)
        yield key, (context.window().end - START) // 1000, len(list(elements)), kind

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """The window goes."""
        context.window_state().get_state(self.updates).clear()


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, int, int, str]]:
    timed = watermark_after_each(env.from_collection(readings), reading_time)
    windows = timed.key_by(lambda reading: reading.id).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windows.allowed_lateness(5000).process(UpdatingCount())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, READINGS).print()
    env.execute("Updating counts")


if __name__ == "__main__":
    main()
