"""The time of a task: the machine's, except that it never goes back.

Everything that waits inside a task - processing-time timers and windows, sources, periodic watermarks, idleness, retries
of commits, times to live - compares moments of this one clock, which is also what users see as processing time. When
somebody sets the machine's clock forward, this one follows at once: what is due then is due. When somebody sets it back,
this one resumes from where it is, a little slower, until the machine's has caught up: nothing that waits has to wait for
an hour to pass again, and no time is seen twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["SLOW", "TaskClock"]

#: How fast time passes while the machine's clock is behind.
SLOW = 0.9


class TaskClock:
    """Seconds since 1970. ``wall`` is the clock that people set, ``monotonic`` the one that nobody can.

    >>> wall, monotonic = [1000.0], [0.0]
    >>> clock = TaskClock(lambda: wall[0], lambda: monotonic[0])
    >>> clock.now()
    1000.0
    >>> wall[0] -= 3600.0
    >>> clock.now()
    1000.0
    >>> wall[0] += 10.0; monotonic[0] += 10.0
    >>> clock.now()
    1009.0
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last = wall()
        self._slow_since: float | None = None  # monotonic; None while the machine's clock is right

    def now(self) -> float:
        """Seconds since 1970; never less than what an earlier call gave."""
        wall = self._wall()
        if wall >= self._last and self._slow_since is None:
            self._last = wall
            return wall
        return self._slow_down(wall)

    def _slow_down(self, wall: float) -> float:
        monotonic = self._monotonic()
        since = monotonic if self._slow_since is None else self._slow_since
        slow = self._last + (monotonic - since) * SLOW
        has_caught_up = wall >= slow
        self._slow_since = None if has_caught_up else monotonic
        self._last = wall if has_caught_up else slow
        return self._last
