"""Windows of one's own (J18): an assigner of 30-second windows, and a trigger that gives early results.

The trigger lets a window emit what it has at most once per second of event time, and for the last time when the
watermark passes the window's last timestamp, ``end - 1``: at that moment the window is removed, so a timer at ``end``
would be one too late. FIRE leaves the readings in the window, hence every result counts all of them so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from event_times import watermark_after_each
from firesteel.common import Types
from firesteel.datastream import (
    DataStream,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    Trigger,
    TriggerResult,
    WindowAssigner,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import EventTimeTrigger, TimeWindowSerializer
from sensor_readings import START, SensorReading, fahrenheit_readings, reading_time

SECOND = 1000
THIRTY_SECONDS = 30 * SECOND


class ThirtySeconds(WindowAssigner[Any, TimeWindow]):
    """Windows that begin at every half minute."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """The one window of a record."""
        start = timestamp - timestamp % THIRTY_SECONDS
        return [TimeWindow(start, start + THIRTY_SECONDS)]

    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        """Fire at the end."""
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> TimeWindowSerializer:
        """The one for windows of time."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """The windows are of event time."""
        return True


class OncePerSecond(Trigger[Any, TimeWindow]):
    """Early results on full seconds of event time, if readings have come; the final one at the end."""

    def __init__(self) -> None:
        self.next_early = ValueStateDescriptor("next early result", Types.LONG())

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Set a timer for the next full second, unless there is one."""
        ctx.register_event_time_timer(window.max_timestamp())
        state = ctx.get_partitioned_state(self.next_early)
        if state.value() is None:
            now = max(ctx.get_current_watermark(), timestamp)
            early = now - now % SECOND + SECOND
            if early < window.max_timestamp():
                ctx.register_event_time_timer(early)
                state.update(early)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Emit; the next reading sets the next timer."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE_AND_PURGE
        ctx.get_partitioned_state(self.next_early).clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """No such timers."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """These windows do not merge."""

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Forget the timer of a window that goes."""
        state = ctx.get_partitioned_state(self.next_early)
        early = state.value()
        if early is not None:
            ctx.delete_event_time_timer(early)
            state.clear()


class CountUntilNow(ProcessWindowFunction[SensorReading, tuple[str, int, int, int], str, TimeWindow]):
    """(sensor, seconds at which the window ends, count, seconds that the watermark has reached)."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[SensorReading]
    ) -> Iterator[tuple[str, int, int, int]]:
        """A result, early or final."""
        until = min(context.current_watermark() + 1, context.window().end)
        yield key, (context.window().end - START) // SECOND, len(list(elements)), (until - START) // SECOND


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, int, int, int]]:
    timed = watermark_after_each(env.from_collection(readings), reading_time)
    windows = timed.key_by(lambda reading: reading.id).window(ThirtySeconds())
    return windows.trigger(OncePerSecond()).process(CountUntilNow())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, fahrenheit_readings(60, sensors=2)).print()
    env.execute("Windows of one's own")


if __name__ == "__main__":
    main()
