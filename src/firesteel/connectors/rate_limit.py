"""How fast a generating source may go, and the pacer that keeps a subtask to it.

A pacer follows a timetable: record k is due k intervals after the first. A poll that comes late hands
over all that became due meanwhile, so the rate holds on average. A long stall is different: catching
up would flood the job with a burst of old records, so the timetable starts afresh instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firesteel.common.errors import ProgramError

#: Records leave in groups of about this much time, so that a high rate does not mean a poll per record.
TICK_SECONDS = 0.001
#: Being late by more than this is a stall; what was missed is not made up for.
STALL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RateLimiterStrategy:
    """The rate of a source over all its subtasks; None means as fast as the job reads it."""

    records_per_second: float | None = None

    @classmethod
    def per_second(cls, records_per_second: float) -> RateLimiterStrategy:
        """At most ``records_per_second`` in all, spread evenly over time and subtasks."""
        if not 0 < records_per_second < math.inf:
            raise ProgramError(
                f"a rate limit needs a finite number of records per second above 0, got {records_per_second!r}"
            )
        return cls(float(records_per_second))

    @classmethod
    def no_op(cls) -> RateLimiterStrategy:
        """No limit."""
        return cls(None)


class Pacer:
    """Tells one subtask how many records are due, given the time; has no clock of its own."""

    __slots__ = ("_emitted", "_group", "_offset", "_rate", "_start")

    def __init__(self, rate: float, offset: float = 0.0) -> None:
        """``rate`` is this subtask's share; ``offset`` (in intervals) sets it apart from the others."""
        self._rate = rate
        self._offset = offset
        self._group = max(1, int(rate * TICK_SECONDS))
        self._start: float | None = None
        self._emitted = 0

    def due(self, now: float) -> int:
        """How many records may leave now."""
        if self._start is None:
            self._start = now + self._offset / self._rate
        next_due = self._start + self._emitted / self._rate
        if now < next_due:
            return 0
        if now - next_due > STALL_SECONDS:
            self._start, self._emitted = now, 0
            return self._group
        # At least one: asked at exactly the time it named, rounding must not make it answer "not yet" for ever.
        return max(1, int((now - self._start) * self._rate) + 1 - self._emitted)

    def emitted(self, count: int) -> None:
        """Note that ``count`` records were emitted: it moves the time of the next ones."""
        self._emitted += count

    def next_time(self, remaining: int | None) -> float:
        """When the next group of records (or the last ``remaining`` ones) will be due."""
        assert self._start is not None, "due() comes first"
        group = self._group if remaining is None else min(self._group, remaining)
        return self._start + (self._emitted + group - 1) / self._rate
