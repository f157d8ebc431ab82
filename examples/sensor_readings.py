"""Temperature readings of a few sensors, always the same ones: input for the examples."""

from __future__ import annotations

import math
import random
from typing import NamedTuple


class SensorReading(NamedTuple):
    """One measurement: which sensor, when (milliseconds since 1970), how warm."""

    id: str
    timestamp: int
    temperature: float


START = 1_700_000_000_000


def fahrenheit_readings(count: int, sensors: int = 5, seed: int = 1) -> list[SensorReading]:
    """Readings in degrees Fahrenheit, the sensors taking turns, one every 100 milliseconds."""
    noise = random.Random(seed)
    return [
        SensorReading(
            f"sensor_{index % sensors + 1}",
            START + index * 100,
            round(65 + 20 * math.sin(index / 40) + noise.gauss(0, 5), 2),
        )
        for index in range(count)
    ]


def to_celsius(reading: SensorReading) -> SensorReading:
    """The same reading in degrees Celsius."""
    return reading._replace(temperature=(reading.temperature - 32) * 5 / 9)


def reading_time(reading: SensorReading) -> int:
    """When the reading was made: its event time."""
    return reading.timestamp


def readings_of(*readings: tuple[str, float, float]) -> list[SensorReading]:
    """Readings from (sensor, seconds after `START`, temperature)."""
    return [SensorReading(name, START + round(seconds * 1000), value) for name, seconds, value in readings]
