"""A clock that moves only when it is told to: the simulator's time."""

from __future__ import annotations

__all__ = ["START", "ManualClock"]

#: Where simulated time begins: 2024-01-01T00:00:00Z, so that nothing can mistake it for the machine's.
START = 1_704_067_200.0


class ManualClock:
    """Time in seconds since the epoch, as the clock on the wall shows it (`now`) and as it really passes (`monotonic`).

    >>> clock = ManualClock(10.0)
    >>> clock.advance(2.5)
    >>> clock.now()
    12.5
    >>> clock.advance_to(11.0)  # the past: nothing happens
    >>> clock.now()
    12.5

    Somebody may set the clock on the wall, in both directions; then no time has passed.

    >>> clock.set_wall(-3600.0)
    >>> clock.now(), clock.monotonic()
    (-3587.5, 12.5)
    """

    def __init__(self, start: float = START) -> None:
        self._now = start
        self._wall_offset = 0.0

    def now(self) -> float:
        """The time that the clock on the wall shows."""
        return self._now + self._wall_offset

    def monotonic(self) -> float:
        """The time by which deadlines are measured: it never jumps. Equal to `now` until somebody sets the clock."""
        return self._now

    def set_wall(self, offset: float) -> None:
        """Set the clock on the wall that many seconds before or behind the time that has really passed."""
        self._wall_offset = offset

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    def advance_to(self, time: float) -> None:
        """Let time pass until ``time``, as `monotonic` counts it; it never goes back."""
        self._now = max(self._now, time)
