"""When partly filled chunks may leave a task that has nothing else to do.

A row costs Spark and the receiving task a tenth of a millisecond or more, with one record as with a hundred.
So flushing is paced by the rows it took: a lone record leaves at once, thousands a second leave together, and
a task with many receivers flushes less often than one with few.
"""

from __future__ import annotations

_SECONDS_PER_ROW = 0.001
_LONGEST_PAUSE = 0.01


class FlushPace:
    """Remembers how long the last flush pays for."""

    def __init__(self) -> None:
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next flush; zero or less when it may happen now."""
        return self._next - now

    def flushed(self, rows: int, now: float) -> None:
        """So many rows have just left."""
        self._next = now + min(rows * _SECONDS_PER_ROW, _LONGEST_PAUSE)
