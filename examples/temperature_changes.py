"""Temperature changes (J22): (sensor, temperature, change) when it changed by more than 1.7 degrees since the last.

The last temperature is keyed state. `build` asks for it in ``open``; `build_with_state` is the same as one function of
the record and the state. The first reading of a sensor has nothing to be compared with and gives no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firesteel.common import Types
from firesteel.datastream import DataStream, FlatMapFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.state import ValueStateDescriptor
from sensor_readings import SensorReading, readings_of

THRESHOLD = 1.7
Change = tuple[str, float, float]

READINGS = readings_of(
    ("sensor_1", 0, 60.0),
    ("sensor_2", 1, 71.0),
    ("sensor_1", 2, 61.5),
    ("sensor_2", 3, 69.0),
    ("sensor_1", 4, 63.5),
    ("sensor_2", 5, 73.0),
)


class ChangeAlert(FlatMapFunction[SensorReading, Change]):
    """Per sensor: compares with the last temperature."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the last temperature."""
        self.last = runtime_context.get_state(ValueStateDescriptor("last temperature", Types.DOUBLE()))

    def flat_map(self, value: SensorReading) -> Iterator[Change]:
        """One reading."""
        last = self.last.value()
        self.last.update(value.temperature)
        if last is not None and abs(value.temperature - last) > self.threshold:
            yield value.id, value.temperature, abs(value.temperature - last)


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, float, float]]:
    return env.from_collection(readings).key_by(lambda reading: reading.id).flat_map(ChangeAlert(THRESHOLD))


def change_alert(reading: SensorReading, last: float | None) -> tuple[list[Change], float]:
    """The results for a reading, and what is to be remembered."""
    if last is None or abs(reading.temperature - last) <= THRESHOLD:
        return [], reading.temperature
    return [(reading.id, reading.temperature, abs(reading.temperature - last))], reading.temperature


def build_with_state(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, float, float]]:
    return env.from_collection(readings).key_by(lambda reading: reading.id).flat_map_with_state(change_alert)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, READINGS).print("class")
    build_with_state(env, READINGS).print("function")
    env.execute("Temperature changes")


if __name__ == "__main__":
    main()
