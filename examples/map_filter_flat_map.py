"""The three stateless functions (J03): map, filter and flat_map.

Map gives one output for each input, filter keeps some inputs, flat_map gives any number of outputs.
Each is written as a lambda where that suffices, and as a class where it may grow.
"""

from __future__ import annotations

from collections.abc import Sequence

from firesteel.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from sensor_readings import SensorReading, fahrenheit_readings

SENTENCES = ["streams have no end", "batches do"]


class SensorId(MapFunction[SensorReading, str]):
    """The id of a reading; the same as ``lambda reading: reading.id``."""

    def map(self, value: SensorReading) -> str:
        """Return the id."""
        return value.id


def sensor_ids(readings: DataStream[SensorReading]) -> DataStream[str]:
    return readings.map(SensorId())


def warm_readings(readings: DataStream[SensorReading]) -> DataStream[SensorReading]:
    """Readings of 25 degrees Fahrenheit and more."""
    return readings.filter(lambda reading: reading.temperature >= 25)


def words(sentences: DataStream[str]) -> DataStream[str]:
    return sentences.flat_map(lambda sentence: sentence.split(" "))


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading], sentences: Sequence[str]
) -> tuple[DataStream[str], DataStream[SensorReading], DataStream[str]]:
    source = env.from_collection(readings)
    return sensor_ids(source), warm_readings(source), words(env.from_collection(sentences))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = [*fahrenheit_readings(6), SensorReading("sensor_9", 0, 21.5)]
    ids, warm, found_words = build(env, readings, SENTENCES)
    ids.print("id")
    warm.print("warm")
    found_words.print("word")
    env.execute("Map, filter and flat_map")


if __name__ == "__main__":
    main()
