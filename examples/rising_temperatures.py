"""Rising temperatures (J13): warn when the temperature of a sensor rises for a second.

The second is one of processing time: of the clock of the machine. The first rise sets a timer, a reading that does not
rise deletes it, and a timer that gets to ring is a warning. State holds the last temperature and the timer's time, by
which it can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from firesteel.common import Types
from firesteel.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.connectors import RateLimiterStrategy
from firesteel.datastream.state import ValueStateDescriptor
from sensor_readings import START, SensorReading

SECOND = 1000


class WarnOfRise(KeyedProcessFunction[str, SensorReading, str]):
    """Per sensor: a warning after a second of rising temperatures, and again after every further second."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the last temperature and the time of the timer."""
        self.last = runtime_context.get_state(ValueStateDescriptor("last temperature", Types.DOUBLE()))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, value: SensorReading, ctx: KeyedProcessFunction.Context) -> None:
        """Set the timer when the temperature begins to rise, delete it when it no longer does."""
        last, timer = self.last.value(), self.timer.value()
        self.last.update(value.temperature)
        if last is None:
            return
        if value.temperature <= last:
            if timer is not None:
                ctx.timer_service().delete_processing_time_timer(timer)
                self.timer.clear()
        elif timer is None:
            timer = ctx.timer_service().current_processing_time() + SECOND
            ctx.timer_service().register_processing_time_timer(timer)
            self.timer.update(timer)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        """Nothing stopped the rise for a second."""
        self.timer.clear()
        yield f"{ctx.get_current_key()} has been rising for a second"


def build(readings: DataStream[SensorReading]) -> DataStream[str]:
    return readings.key_by(lambda reading: reading.id).process(WarnOfRise())


def generated(index: int) -> SensorReading:
    """sensor_1 rises all the time, sensor_2 goes up and down."""
    rises = index % 2 == 0
    return SensorReading(
        "sensor_1" if rises else "sensor_2", START + index * 50, 60.0 + (index if rises else index % 3)
    )


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env.from_data_gen(generated, 60, RateLimiterStrategy.per_second(20)).set_parallelism(1)).print()
    env.execute("Rising temperatures")


if __name__ == "__main__":
    main()
