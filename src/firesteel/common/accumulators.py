"""Accumulators: values that subtasks add to and that are merged for the job's result (as in Java Flink)."""

from __future__ import annotations

import abc
from typing import Any, Generic, TypeVar

from firesteel.common._override import override

__all__ = [
    "Accumulator",
    "AverageAccumulator",
    "DoubleCounter",
    "DoubleMaximum",
    "DoubleMinimum",
    "Histogram",
    "IntCounter",
    "IntMaximum",
    "IntMinimum",
    "ListAccumulator",
    "LongCounter",
    "LongMaximum",
    "LongMinimum",
]

V = TypeVar("V")
R = TypeVar("R")


class Accumulator(abc.ABC, Generic[V, R]):
    """Collects values of type V in each subtask; the merged result is of type R."""

    @abc.abstractmethod
    def add(self, value: V) -> None:
        """Take a value into account."""

    @abc.abstractmethod
    def get_local_value(self) -> R:
        """Return the result of this subtask so far."""

    @abc.abstractmethod
    def reset_local(self) -> None:
        """Forget what this subtask has added."""

    @abc.abstractmethod
    def merge(self, other: Accumulator[V, R]) -> None:
        """Take another subtask's result into account."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_local_value()!r})"


class _Counter(Accumulator[Any, Any]):
    """A sum."""

    _zero: int | float = 0

    def __init__(self, value: int | float | None = None) -> None:
        self._value = self._zero if value is None else value

    @override
    def add(self, value: int | float = 1) -> None:
        self._value += value

    @override
    def get_local_value(self) -> Any:
        return self._value

    @override
    def reset_local(self) -> None:
        """Set the sum to zero."""
        self._value = self._zero

    @override
    def merge(self, other: Accumulator[Any, Any]) -> None:
        self._value += other.get_local_value()


class IntCounter(_Counter):
    """A sum of integers.

    >>> counter = IntCounter()
    >>> counter.add(2); counter.add(3); counter
    IntCounter(5)
    """


class LongCounter(_Counter):
    """A sum of integers."""


class DoubleCounter(_Counter):
    """A sum of floats."""

    _zero = 0.0


class AverageAccumulator(Accumulator[Any, float]):
    """The mean of numbers; 0.0 before the first.

    >>> average = AverageAccumulator()
    >>> average.add(1); average.add(4); average.get_local_value()
    2.5
    """

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0

    @override
    def add(self, value: int | float) -> None:
        """Take a number into account."""
        self._count += 1
        self._sum += value

    @override
    def get_local_value(self) -> float:
        return self._sum / self._count if self._count else 0.0

    @override
    def reset_local(self) -> None:
        self._count, self._sum = 0, 0.0

    @override
    def merge(self, other: Accumulator[Any, float]) -> None:
        """Take the numbers of another mean into account."""
        if not isinstance(other, AverageAccumulator):
            raise TypeError(f"an average merges with an average only, got {other!r}")
        self._count += other._count
        self._sum += other._sum


class _Extreme(Accumulator[Any, Any]):
    """The smallest or largest value; the neutral one before the first, as in Java Flink."""

    _neutral: int | float = 0

    def __init__(self, value: int | float | None = None) -> None:
        self._value = self._neutral if value is None else value

    @override
    def get_local_value(self) -> Any:
        """Return the extreme so far."""
        return self._value

    @override
    def reset_local(self) -> None:
        self._value = self._neutral

    @override
    def merge(self, other: Accumulator[Any, Any]) -> None:
        """Take another extreme into account."""
        self.add(other.get_local_value())


class _Minimum(_Extreme):
    @override
    def add(self, value: int | float) -> None:
        self._value = min(self._value, value)


class _Maximum(_Extreme):
    @override
    def add(self, value: int | float) -> None:
        self._value = max(self._value, value)


class IntMinimum(_Minimum):
    """The smallest integer; 2**31 - 1 before the first."""

    _neutral = 2**31 - 1


class IntMaximum(_Maximum):
    """The largest integer; -2**31 before the first."""

    _neutral = -(2**31)


class LongMinimum(_Minimum):
    """The smallest integer; 2**63 - 1 before the first."""

    _neutral = 2**63 - 1


class LongMaximum(_Maximum):
    """The largest integer; -2**63 before the first."""

    _neutral = -(2**63)


class DoubleMinimum(_Minimum):
    """The smallest float; infinity before the first."""

    _neutral = float("inf")


class DoubleMaximum(_Maximum):
    """The largest float; minus infinity before the first."""

    _neutral = float("-inf")


class ListAccumulator(Accumulator[Any, list[Any]]):
    """All values, in a list; subtasks follow one another."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    @override
    def add(self, value: Any) -> None:
        self._values.append(value)

    @override
    def get_local_value(self) -> list[Any]:
        """Return the values so far."""
        return list(self._values)

    @override
    def reset_local(self) -> None:
        self._values = []

    @override
    def merge(self, other: Accumulator[Any, list[Any]]) -> None:
        self._values += other.get_local_value()


class Histogram(Accumulator[int, dict[int, int]]):
    """How often each integer was added, in their order.

    >>> histogram = Histogram()
    >>> for value in (2, 1, 2): histogram.add(value)
    >>> histogram.get_local_value()
    {1: 1, 2: 2}
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    @override
    def add(self, value: int) -> None:
        self._counts[value] = self._counts.get(value, 0) + 1

    @override
    def get_local_value(self) -> dict[int, int]:
        """Return the counts by value."""
        return dict(sorted(self._counts.items()))

    @override
    def reset_local(self) -> None:
        self._counts = {}

    @override
    def merge(self, other: Accumulator[int, dict[int, int]]) -> None:
        for value, count in other.get_local_value().items():
            self._counts[value] = self._counts.get(value, 0) + count
