"""The time characteristic of programs written for Flink before 1.12; later ones say it per operation."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(Enum):
    """Which time windows and timers meant when they did not say."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
