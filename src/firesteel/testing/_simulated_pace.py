"""The simulator's pace: batches are cut wherever the seed wants, and work pauses as often."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.runtime.pace import Pace, Slices

__all__ = ["SimulatedPace"]


class _RandomSlices(Slices):
    """Slices of any size: mostly all there is, sometimes a part of it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    @override
    def next_size(self, most: int) -> int:
        draw = self._rng.random()
        return most if draw < 0.7 or most < 2 else 1 + int(self._rng.random() * most)


class SimulatedPace(Pace):
    """Cuts every eighth batch short, and is late as often."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self._batches: list[tuple[Iterator[Any], int]] = []

    @override
    def create_slices(self) -> Slices:
        return _RandomSlices(self._rng)

    @override
    def step(self) -> None:
        """A new chance to be late."""
        self.late = self._rng.random() < 0.125

    @override
    def begin(self, values: list[Any]) -> Iterator[Any]:
        """An iterator over all of the batch, or over a beginning of it: one record at least."""
        taken_out = 0
        if len(values) > 1 and self._rng.random() < 0.125:
            taken_out = int(self._rng.random() * len(values))
        cursor = iter(values[: len(values) - taken_out] if taken_out else values)
        self._batches.append((cursor, taken_out))
        return cursor

    @override
    def end(self) -> int:
        return self._batches.pop()[1]

    @override
    def taken_out_of(self, cursor: Iterator[Any] | None) -> int:
        return sum(taken_out for known, taken_out in self._batches if known is cursor)
