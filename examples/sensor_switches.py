"""Sensor switches (J15): readings pass only while their sensor is switched on.

A switch names a sensor and for how long its readings are wanted, in processing time. The function has two keyed inputs
that share state and timers: a switch opens the gate and sets a timer, the timer closes it. A second switch prolongs the
time, never shortens it: the old timer is deleted - as the processing-time timer it is - and a new one set.
"""

from __future__ import annotations

from collections.abc import Iterator

from firesteel.common import Types
from firesteel.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.connectors import RateLimiterStrategy
from firesteel.datastream.state import ValueStateDescriptor
from sensor_readings import START, SensorReading

#: Sensor, milliseconds.
SWITCHES = [("sensor_2", 10_000), ("sensor_7", 60_000)]


class Gate(KeyedCoProcessFunction[str, SensorReading, tuple[str, int], SensorReading]):
    """Per sensor: lets readings through until the time is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the time at which the gate closes; no value: it is closed."""
        self.closes_at = runtime_context.get_state(ValueStateDescriptor("closes at", Types.LONG()))

    def process_element1(
        self, value: SensorReading, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[SensorReading]:
        """A reading."""
        if self.closes_at.value() is not None:
            yield value

    def process_element2(self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context) -> None:
        """A switch."""
        timers = ctx.timer_service()
        known = self.closes_at.value()
        wanted = timers.current_processing_time() + value[1]
        if known is None or wanted > known:
            if known is not None:
                timers.delete_processing_time_timer(known)
            timers.register_processing_time_timer(wanted)
            self.closes_at.update(wanted)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> None:
        """The time is over."""
        self.closes_at.clear()


def build(readings: DataStream[SensorReading], switches: DataStream) -> DataStream[SensorReading]:
    keyed_readings = readings.key_by(lambda reading: reading.id)
    return keyed_readings.connect(switches.key_by(lambda switch: switch[0])).process(Gate())


def generated(index: int) -> SensorReading:
    """Ten sensors, of which each has its turn once in two seconds."""
    return SensorReading(f"sensor_{index % 10 + 1}", START + index * 200, 60.0 + index % 7)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = env.from_data_gen(generated, 75, RateLimiterStrategy.per_second(5)).set_parallelism(1)
    build(readings, env.from_collection(SWITCHES)).print()
    env.execute("Sensor switches")


if __name__ == "__main__":
    main()
