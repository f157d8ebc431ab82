"""A clock that moves only when it is told to: the simulator's time."""

from __future__ import annotations

__all__ = ["START", "ManualClock"]

#: Where simulated time begins: 2024-01-01T00:00:00Z, so that nothing can mistake it for the machine's.
START = 1_704_067_200.0


class ManualClock:
    """Time in seconds since the epoch.

    >>> clock = ManualClock(10.0)
    >>> clock.advance(2.5)
    >>> clock.now()
    12.5
    >>> clock.advance_to(11.0)  # the past: nothing happens
    >>> clock.now()
    12.5
    """

    def __init__(self, start: float = START) -> None:
        self._now = start

    def now(self) -> float:
        """The time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    def advance_to(self, time: float) -> None:
        """Let time pass until ``time``; it never goes back."""
        self._now = max(self._now, time)
