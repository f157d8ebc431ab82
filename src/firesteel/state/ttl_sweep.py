"""Removes expired values that nobody asks for: a few entries at a time, on every access.

One round looks at every entry of a table once. The oldest time that it saw tells when the next value can expire
at the earliest, so no new round begins before: while nothing is about to expire, a step costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["GONE", "Sweep"]

#: Stands for a stored value of which nothing is left.
GONE: Any = object()

Survivors = Callable[[Any, int], tuple[Any, int]]


class Sweep:
    """Goes round one table; ``survivors`` says what is left of a stored value, and its oldest time."""

    __slots__ = ("_oldest", "_size", "_survivors", "_table", "_to_visit", "_ttl", "announce", "quiet_until")

    def __init__(self, table: dict[Any, Any], ttl: int, size: int, survivors: Survivors) -> None:
        self._table = table
        self._ttl = ttl
        self._size = size
        self._survivors = survivors
        self._to_visit: list[Any] = []
        self._oldest = 0
        self.quiet_until = 0  # before this there is nothing to do
        self.announce: Callable[[Any], None] = _nobody  # told of every entry before it changes

    def run(self, now: int, steps: int = 1) -> None:
        """Look at some entries: as many as the configuration says, times ``steps``."""
        if now < self.quiet_until:
            return
        if not self._to_visit:
            # A copy of the keys: 10 ms per million, once per round, and the table may change meanwhile.
            self._to_visit = list(self._table)
            # What is written during this round is no older.
            self._oldest = now
        self._visit(now - self._ttl, self._size * steps)

    def _visit(self, horizon: int, count: int) -> None:
        table, to_visit = self._table, self._to_visit
        for _ in range(min(count, len(to_visit))):
            key = to_visit.pop()
            stored = table.get(key)
            if stored is None:
                continue
            left, oldest = self._survivors(stored, horizon)
            if left is GONE:
                self.announce(key)
                del table[key]
            else:
                if left is not stored and len(left) < len(stored):
                    self.announce(key)
                    table[key] = left
                self._oldest = min(self._oldest, oldest)
        if not to_visit:
            self.quiet_until = self._oldest + self._ttl


def _nobody(key: Any) -> None:
    """Nobody wants to know."""
