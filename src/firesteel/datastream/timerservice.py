"""The timer service; at PyFlink's path."""

from firesteel.contracts.timers import TimerService

__all__ = ["TimerService"]
