"""Late readings (J20): what comes after the watermark has passed it goes to a side output, in two ways.

`counts_and_late` counts readings per ten seconds; readings whose window is over leave through a side output instead of
being dropped. `on_time_and_late` is a process function that divides any stream by its watermark, without windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from event_times import watermark_after_each
from firesteel.common import Time, Types
from firesteel.datastream import (
    AggregateFunction,
    DataStream,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from firesteel.datastream.window import TumblingEventTimeWindows
from sensor_readings import START, SensorReading, reading_time, readings_of

LATE = OutputTag("late-readings", Types.PICKLED_BYTE_ARRAY())

#: The readings of seconds 3 and 9 come when their window is over; that of second 20 is late, but its window is not over.
READINGS = readings_of(
    *(("sensor_1", second, 60.0) for second in (1, 4, 8, 10, 3, 12, 21, 9, 20, 30)), ("sensor_2", 31, 60.0)
)


def timed(env: StreamExecutionEnvironment, readings: Sequence[SensorReading]) -> DataStream[SensorReading]:
    return watermark_after_each(env.from_collection(readings), reading_time)


class Count(AggregateFunction[SensorReading, int, int]):
    """How many."""

    def create_accumulator(self) -> int:
        """None yet."""
        return 0

    def add(self, value: SensorReading, accumulator: int) -> int:
        """One more."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """The number."""
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        """Both together."""
        return acc_a + acc_b


class WithEnd(ProcessWindowFunction[int, tuple[str, int, int], str, TimeWindow]):
    """(sensor, second at which the window ends, count)."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[int]
    ) -> Iterator[tuple[str, int, int]]:
        """One window."""
        (count,) = elements
        yield key, (context.window().end - START) // 1000, count


def counts_and_late(readings: DataStream[SensorReading]) -> tuple[DataStream, DataStream]:
    windows = readings.key_by(lambda reading: reading.id).window(
        TumblingEventTimeWindows.of(Time.seconds(10))
    )
    counts = windows.side_output_late_data(LATE).aggregate(Count(), WithEnd())
    return counts, counts.get_side_output(LATE)


class Divide(ProcessFunction[SensorReading, SensorReading]):
    """Late readings to the side output, all others on."""

    def process_element(self, value: SensorReading, ctx: ProcessFunction.Context) -> Iterator[SensorReading]:
        """A reading is late when the watermark says that its time is over."""
        timestamp = ctx.timestamp()
        if timestamp is not None and timestamp <= ctx.timer_service().current_watermark():
            ctx.output(LATE, value)
        else:
            yield value


def on_time_and_late(readings: DataStream[SensorReading]) -> tuple[DataStream, DataStream]:
    on_time = readings.process(Divide()).set_parallelism(1)
    return on_time, on_time.get_side_output(LATE)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = timed(env, READINGS)
    counts, late_for_windows = counts_and_late(readings)
    counts.print("count")
    late_for_windows.print("late for its window")
    on_time, late = on_time_and_late(readings)
    on_time.print("on time")
    late.print("late")
    env.execute("Late readings")


if __name__ == "__main__":
    main()
