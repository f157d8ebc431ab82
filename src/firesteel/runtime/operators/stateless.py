"""map, filter and flat_map: hop 3 of a record's journey, whole batches at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any

from firesteel.runtime.operator import Timestamps
from firesteel.runtime.operators.announced import KeyedBatches
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction


class MapOperator(FunctionOperator):
    """One output for each input."""

    def __init__(self, function: UserFunction, batches: KeyedBatches | None = None) -> None:
        super().__init__(function)
        self._map = function.method("map")
        self._batches = batches

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Apply the function to every value."""
        if self._batches is not None:
            self._batches.announce(self, values)
        self.cursor = cursor = iter(values)
        self.output.emit(map_all(self._map, cursor, len(values)), timestamps)


class FilterOperator(FunctionOperator):
    """Keeps the values for which the function is true."""

    def __init__(self, function: UserFunction, batches: KeyedBatches | None = None) -> None:
        super().__init__(function)
        self._filter = function.method("filter")
        self._batches = batches

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Ask the function about every value."""
        if self._batches is not None:
            self._batches.announce(self, values)
        keep = self._filter
        self.cursor = cursor = iter(values)
        if timestamps is None:
            self.output.emit([value for value in cursor if keep(value)], None)
        else:
            kept = [keep(value) for value in cursor]
            self.output.emit(list(compress(values, kept)), list(compress(timestamps, kept)))


class FlatMapOperator(FunctionOperator):
    """Any number of outputs for each input."""

    def __init__(self, function: UserFunction, batches: KeyedBatches | None = None) -> None:
        super().__init__(function)
        self._flat_map = function.method("flat_map")
        self._batches = batches

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Expand every value."""
        if self._batches is not None:
            self._batches.announce(self, values)
        self.cursor = cursor = iter(values)
        self.output.emit(*expand_all(self._flat_map, cursor, timestamps))


def map_all(function: Callable[[Any], Any], values: Iterable[Any], count: int) -> list[Any]:
    """``function`` of each of the ``count`` values."""
    results = list(map(function, values))
    if len(results) != count:
        # map() takes a StopIteration out of the user's function for its own end.
        raise RuntimeError("the function raised StopIteration; return a value or raise another error")
    return results


def expand_all(
    function: Callable[[Any], Any],
    values: Iterable[Any],
    timestamps: Timestamps,
    results: list[Any] | None = None,
) -> tuple[list[Any], Timestamps]:
    """All results of a function that returns an iterable (or None) per value, with the input's timestamps.

    They are gathered in ``results``, when it is given.
    """
    results = [] if results is None else results
    extend = results.extend
    if timestamps is None:
        for value in values:
            found = function(value)
            if found is not None:
                extend(found)
        return results, None
    stamps: list[int | None] = []
    # The timestamps come first in zip: it asks its first iterable once more at the end, and the other one
    # is the cursor that tells which record failed.
    for timestamp, value in zip(timestamps, values, strict=False):
        found = function(value)
        if found is not None:
            before = len(results)
            extend(found)
            stamps.extend([timestamp] * (len(results) - before))
    return results, stamps
