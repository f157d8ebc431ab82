"""Event time or processing time; at PyFlink's path."""

from firesteel.contracts.timers import TimeDomain

__all__ = ["TimeDomain"]
