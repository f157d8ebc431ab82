"""A set of whole numbers with few gaps, as a short text."""

from __future__ import annotations

from firesteel.common._override import override


class NumberRanges:
    """Ranges in order.

    >>> numbers = NumberRanges.parse("1-3 5")
    >>> 3 in numbers, 4 in numbers
    (True, False)
    >>> numbers.add(4)
    >>> str(numbers)
    '1-5'
    """

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self._ranges = ranges

    @staticmethod
    def parse(text: str) -> NumberRanges:
        """The other way round from ``str``."""
        pairs = (part.partition("-") for part in text.split())
        return NumberRanges([(int(first), int(last or first)) for first, _, last in pairs])

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self._ranges)

    def add(self, number: int) -> None:
        """Add a number; neighbours become one range."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted([*self._ranges, (number, number)]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        self._ranges = merged

    @override
    def __str__(self) -> str:
        return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in self._ranges)
