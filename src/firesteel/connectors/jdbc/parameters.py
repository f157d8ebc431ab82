"""The parameters of a query, one set for each part of the table: parts are read side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError

__all__ = [
    "JdbcGenericParameterValuesProvider",
    "JdbcNumericBetweenParametersProvider",
    "JdbcParameterValuesProvider",
]


class JdbcParameterValuesProvider(ABC):
    """Tells the parameters of all parts, in the same order whenever it is asked."""

    @abstractmethod
    def get_parameter_values(self) -> Sequence[Sequence[Any]]:
        """A list of parameters for every part."""


class JdbcGenericParameterValuesProvider(JdbcParameterValuesProvider):
    """Parameters from a list."""

    def __init__(self, parameters: Sequence[Sequence[Any]]) -> None:
        self._parameters = [tuple(each) for each in parameters]

    @override
    def get_parameter_values(self) -> Sequence[Sequence[Any]]:
        return self._parameters


class JdbcNumericBetweenParametersProvider(JdbcParameterValuesProvider):
    """For ``WHERE id BETWEEN ? AND ?``: a range of whole numbers, cut into ranges.

    >>> JdbcNumericBetweenParametersProvider(1, 10).of_batch_size(4).get_parameter_values()
    [(1, 4), (5, 8), (9, 10)]
    >>> JdbcNumericBetweenParametersProvider(1, 10).of_batch_num(2).get_parameter_values()
    [(1, 5), (6, 10)]
    """

    def __init__(self, min_val: int, max_val: int) -> None:
        if min_val > max_val:
            raise InvalidArgumentError(
                f"a range goes from its smallest to its largest number, got {min_val} and {max_val}"
            )
        self._min, self._max = min_val, max_val
        self._size = max_val - min_val + 1

    def of_batch_size(self, batch_size: int) -> JdbcNumericBetweenParametersProvider:
        """Ranges of that many numbers."""
        if batch_size < 1:
            raise InvalidArgumentError(f"batch_size must be at least 1, got {batch_size}")
        self._size = batch_size
        return self

    def of_batch_num(self, batch_num: int) -> JdbcNumericBetweenParametersProvider:
        """That many ranges, or fewer when there are fewer numbers."""
        if batch_num < 1:
            raise InvalidArgumentError(f"batch_num must be at least 1, got {batch_num}")
        return self.of_batch_size(-(-(self._max - self._min + 1) // batch_num))

    @override
    def get_parameter_values(self) -> Sequence[Sequence[Any]]:
        starts = range(self._min, self._max + 1, self._size)
        return [(start, min(start + self._size - 1, self._max)) for start in starts]
