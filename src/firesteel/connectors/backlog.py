"""Records that were read in one go and are handed over in slices of the size the task asks for."""

from __future__ import annotations

from typing import Any


class Backlog:
    """A list with a position. Refill it when it is empty; an empty one is false.

    >>> backlog = Backlog()
    >>> backlog.refill(["a", "b", "c"])
    >>> backlog.pop(2), backlog.pop(2), bool(backlog)
    (['a', 'b'], ['c'], False)
    """

    __slots__ = ("_position", "_values")

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._position = 0

    def __bool__(self) -> bool:
        return self._position < len(self._values)

    def refill(self, values: list[Any]) -> None:
        """Start over with other records; what was not popped is gone."""
        self._values = values
        self._position = 0

    def pop(self, limit: int) -> list[Any]:
        """Remove and return the next records, at most ``limit`` of them."""
        if self._position == 0 and len(self._values) <= limit:
            values, self._values = self._values, []
            return values
        start, self._position = self._position, self._position + limit
        return self._values[start : self._position]
