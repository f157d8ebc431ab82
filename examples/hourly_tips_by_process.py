"""Hourly tips without windows (J41): a process function that does by itself what hourly_tips.py leaves to a window.

Map state holds the sums of a driver's open hours, by the last timestamp of each, and a timer at that timestamp emits
and removes one of them. Fares of hours that are over go to a side output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from event_times import watermark_after_each
from firesteel.common import Types
from firesteel.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import MapStateDescriptor
from taxi_rides import EIGHT_O_CLOCK, HOUR, MINUTE, TaxiFare, fare_time, taxi_fares

LATE_FARES = OutputTag("late-fares", Types.PICKLED_BYTE_ARRAY())


class TipsPerHour(KeyedProcessFunction[int, TaxiFare, tuple[int, int, float]]):
    """A tumbling window of an hour, by hand."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the sums of open hours."""
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.LONG(), Types.DOUBLE()))

    def process_element(self, value: TaxiFare, ctx: KeyedProcessFunction.Context) -> None:
        """Add the tip to its hour."""
        last_of_hour = value.start_time - value.start_time % HOUR + HOUR - 1
        if last_of_hour <= ctx.timer_service().current_watermark():
            ctx.output(LATE_FARES, value)
            return
        ctx.timer_service().register_event_time_timer(last_of_hour)  # once, however often it is asked for
        self.sums.put(last_of_hour, (self.sums.get(last_of_hour) or 0.0) + value.tip)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[int, int, float]]:
        """An hour is over."""
        yield ctx.get_current_key(), timestamp + 1, self.sums[timestamp]
        self.sums.remove(timestamp)


def build(env: StreamExecutionEnvironment, fares: Sequence[TaxiFare]) -> tuple[DataStream, DataStream]:
    """Tips per hour, and the fares that came too late; the stream's clock is five minutes behind."""
    timed = watermark_after_each(env.from_collection(fares), fare_time, bound=5 * MINUTE)
    hours = timed.key_by(lambda fare: fare.driver_id).process(TipsPerHour())
    return hours, hours.get_side_output(LATE_FARES)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    forgotten = TaxiFare(10, 2013, EIGHT_O_CLOCK + 30 * MINUTE, 100.0)
    hours, late = build(env, [*taxi_fares(), forgotten])
    hours.print("tips")
    late.print("too late")
    env.execute("Hourly tips by a process function")


if __name__ == "__main__":
    main()
