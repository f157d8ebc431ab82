"""Forgetting sensors (J25): temperature changes as in temperature_changes.py, with state that does not grow for ever.

A sensor that has no reading for an hour of event time is forgotten. Every reading moves the sensor's timer an hour
ahead: the old one is deleted, the time of the new one kept in state. When it rings, all state of the sensor goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from event_times import watermark_after_each
from firesteel.common import Types
from firesteel.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.state import ValueStateDescriptor
from sensor_readings import SensorReading, reading_time, readings_of

THRESHOLD = 1.7
HOUR = 60 * 60 * 1000

#: sensor_1 is silent for more than an hour; sensor_2 goes on and moves the clock.
READINGS = readings_of(
    ("sensor_1", 0, 60.0),
    ("sensor_1", 60, 64.0),
    ("sensor_2", 120, 50.0),
    ("sensor_2", 3_600, 55.0),
    ("sensor_2", 3_700, 55.5),
    ("sensor_1", 3_720, 80.0),
    ("sensor_1", 3_725, 85.0),
)


class ForgettingChangeAlert(KeyedProcessFunction[str, SensorReading, tuple[str, float, float]]):
    """Compares with the last temperature of the last hour."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.last_descriptor = ValueStateDescriptor("last temperature", Types.DOUBLE())
        self.timer_descriptor = ValueStateDescriptor("timer", Types.LONG())

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the last temperature and the time of the timer."""
        self.last = runtime_context.get_state(self.last_descriptor)
        self.timer = runtime_context.get_state(self.timer_descriptor)

    def process_element(
        self, value: SensorReading, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, float, float]]:
        """One reading."""
        timer = self.timer.value()
        if timer is not None:
            ctx.timer_service().delete_event_time_timer(timer)
        in_an_hour = value.timestamp + HOUR
        ctx.timer_service().register_event_time_timer(in_an_hour)
        self.timer.update(in_an_hour)

        last = self.last.value()
        self.last.update(value.temperature)
        if last is not None and abs(value.temperature - last) > self.threshold:
            yield value.id, value.temperature, abs(value.temperature - last)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        """An hour without readings."""
        self.last.clear()
        self.timer.clear()


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, float, float]]:
    timed = watermark_after_each(env.from_collection(readings), reading_time)
    return timed.key_by(lambda reading: reading.id).process(ForgettingChangeAlert(THRESHOLD))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, READINGS).print()
    env.execute("Forgetting sensors")


if __name__ == "__main__":
    main()
