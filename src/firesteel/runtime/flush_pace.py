"""When partly filled chunks may leave a task that has nothing else to do.

A row costs Spark and the receiving task a tenth of a millisecond or more, with one record as with a hundred.
So flushing is paced by what it took: a lone record leaves at once, thousands a second leave together, and
a task with many receivers flushes less often than one with few. Records count, too: where there are so many that the machine
has to work, rows with few of them would take more of it than the records themselves.
"""

from __future__ import annotations

_SECONDS_PER_ROW = 0.001
_SECONDS_PER_RECORD = 0.00002  # some times what a record costs on its way
_LONGEST_PAUSE = 0.01


class FlushPace:
    """Remembers how long the last flush pays for."""

    def __init__(self) -> None:
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next flush; zero or less when it may happen now."""
        return self._next - now

    def flushed(self, rows: int, records: int, now: float) -> None:
        """``rows`` have just left, with ``records``."""
        pause = rows * _SECONDS_PER_ROW + records * _SECONDS_PER_RECORD
        self._next = now + min(pause, _LONGEST_PAUSE)
