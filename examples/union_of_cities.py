"""Union (J06): the readings of three cities become one stream.

A union mixes its inputs as they come: the order within each of them is kept, the order between them is
not defined, and nothing is removed. All inputs must have the same type.
"""

from __future__ import annotations

from collections.abc import Sequence

from firesteel.datastream import DataStream, StreamExecutionEnvironment
from sensor_readings import SensorReading, fahrenheit_readings


def city(name: str, count: int, seed: int) -> list[SensorReading]:
    """Readings whose sensors carry the name of the city."""
    return [reading._replace(id=f"{name}/{reading.id}") for reading in fahrenheit_readings(count, 2, seed)]


def build(
    env: StreamExecutionEnvironment,
    paris: Sequence[SensorReading],
    tokyo: Sequence[SensorReading],
    rio: Sequence[SensorReading],
) -> DataStream[SensorReading]:
    first, *others = (env.from_collection(readings) for readings in (paris, tokyo, rio))
    return first.union(*others)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, city("paris", 4, seed=1), city("tokyo", 4, seed=2), city("rio", 4, seed=3)).print()
    env.execute("Union of cities")


if __name__ == "__main__":
    main()
