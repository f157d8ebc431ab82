"""Sets of numbers that come one after the other, kept as ranges: what was finished or written stays small for ever."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

__all__ = ["Numbers"]


class Numbers:
    """A set of numbers, as ranges of both ends.

    >>> numbers = Numbers([[0, 1]])
    >>> for number in (3, 2, 7):
    ...     numbers.add(number)
    >>> numbers.ranges, 2 in numbers, 5 in numbers
    ([[0, 3], [7, 7]], True, False)
    """

    def __init__(self, ranges: Iterable[list[int]] = ()) -> None:
        self.ranges = list(ranges)

    def __contains__(self, number: int) -> bool:
        index = bisect.bisect(self.ranges, number, key=lambda ends: ends[0]) - 1
        return index >= 0 and number <= self.ranges[index][1]

    def add(self, number: int) -> None:
        """Add a number; one that is there already changes nothing."""
        if number in self:
            return
        index = bisect.bisect(self.ranges, number, key=lambda ends: ends[0])
        self.ranges.insert(index, [number, number])
        self._join(index)
        self._join(index - 1)

    def _join(self, index: int) -> None:
        """Make one of a range and the next, if there is nothing between them."""
        if 0 <= index < len(self.ranges) - 1 and self.ranges[index][1] + 1 == self.ranges[index + 1][0]:
            self.ranges[index][1] = self.ranges.pop(index + 1)[1]
