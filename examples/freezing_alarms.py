"""Freezing alarms (J14): all readings go on, and those below freezing also raise an alarm on a side output.

A side output is a second output of a function, with its own type, named by an ``OutputTag``. It is taken from the
stream that the function gives; the main output of that same stream carries the readings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firesteel.common import Types
from firesteel.datastream import DataStream, OutputTag, ProcessFunction, StreamExecutionEnvironment
from sensor_readings import SensorReading, readings_of

FREEZING = 32.0
ALARMS = OutputTag("freezing-alarms", Types.STRING())

READINGS = readings_of(
    ("sensor_1", 0, 40.5), ("sensor_2", 1, 31.9), ("sensor_1", 2, 32.0), ("sensor_3", 3, -4.0)
)


class FreezingMonitor(ProcessFunction[SensorReading, SensorReading]):
    """Passes readings on and raises alarms."""

    def process_element(self, value: SensorReading, ctx: ProcessFunction.Context) -> Iterator[SensorReading]:
        """One reading, and an alarm when it is below freezing."""
        if value.temperature < FREEZING:
            ctx.output(ALARMS, f"freezing alarm for {value.id}: {value.temperature} F")
        yield value


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> tuple[DataStream[SensorReading], DataStream[str]]:
    monitored = env.from_collection(readings).process(FreezingMonitor())
    return monitored, monitored.get_side_output(ALARMS)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    monitored, alarms = build(env, READINGS)
    monitored.print("reading")
    alarms.print("alarm")
    env.execute("Freezing alarms")


if __name__ == "__main__":
    main()
