"""Time as user code sees it: the two time domains, and the service that tells the time and keeps timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum

__all__ = ["TimeDomain", "TimerService"]


class TimeDomain(Enum):
    """Which clock a timer waits for."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Current times and timers of one operator; timers belong to the key of the record at hand.

    Registering the same time twice for one key gives one timer.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Time of the machine in milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Event time up to which the input is complete."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called when the machine's time reaches ``timestamp``."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called when the watermark reaches ``timestamp``."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a processing-time timer; nothing happens when there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget an event-time timer; nothing happens when there is none."""
