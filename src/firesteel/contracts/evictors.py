"""Evictors remove elements from a window around the call of its function; not in PyFlink, as in Flink's Java API.

An evictor sees the elements as a list and removes from it in place (``del elements[:n]``,
``elements[:] = [...]``). What is removed, before or after, is gone for the next firing as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError
from firesteel.common.time import AnyLength, millis_of
from firesteel.contracts.triggers import DeltaFunction, delta_call

__all__ = ["CountEvictor", "DeltaEvictor", "Evictor", "TimeEvictor", "TimestampedValue"]

T = TypeVar("T", default=Any)
W = TypeVar("W", contravariant=True, default=Any)


class TimestampedValue(Generic[T]):
    """An element of a window and its timestamp, which is None when the stream has no event time."""

    __slots__ = ("timestamp", "value")

    def __init__(self, value: T, timestamp: int | None = None) -> None:
        self.value = value
        self.timestamp = timestamp

    def get_value(self) -> T:
        """The element, as it came into the window."""
        return self.value

    def has_timestamp(self) -> bool:
        """Whether it has a timestamp."""
        return self.timestamp is not None

    def get_timestamp(self) -> int | None:
        """Its event time in milliseconds."""
        return self.timestamp

    @override
    def __repr__(self) -> str:
        return f"TimestampedValue({self.value!r}, {self.timestamp})"


class Evictor(ABC, Generic[T, W]):
    """Removes elements from a window before or after its function is called."""

    class EvictorContext(ABC):
        """What an evictor may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """The group under which the evictor registers its own metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Event time up to which the input is complete."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Remove elements before the window function sees them."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Remove elements after the window function has seen them."""


class _OnOneSide(Evictor[Any, Any]):
    """Does the same thing either before or after the function."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    @override
    def evict_before(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: Evictor.EvictorContext
    ) -> None:
        """Evict, unless it is to happen after the function."""
        if not self._after:
            self._evict(elements)

    @override
    def evict_after(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: Evictor.EvictorContext
    ) -> None:
        """Evict, when it is to happen after the function."""
        if self._after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        """Remove what is to go."""


class CountEvictor(_OnOneSide):
    """Keeps the last n elements.

    >>> elements = [TimestampedValue(n) for n in range(5)]
    >>> CountEvictor.of(2).evict_before(elements, 5, None, None)
    >>> [element.value for element in elements]
    [3, 4]
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if max_count < 0:
            raise ProgramError(f"CountEvictor needs a number of elements to keep, got {max_count}")
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Keep the last ``max_count`` elements."""
        return CountEvictor(max_count, do_evict_after)

    @override
    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        del elements[: max(0, len(elements) - self._max_count)]

    @override
    def __repr__(self) -> str:
        return f"CountEvictor({self._max_count})"


class TimeEvictor(_OnOneSide):
    """Keeps the elements that are younger than the youngest one's timestamp minus a length of time."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = window_size

    @staticmethod
    def of(window_size: AnyLength, do_evict_after: bool = False) -> TimeEvictor:
        """Keep the last ``window_size`` of time."""
        return TimeEvictor(millis_of(window_size), do_evict_after)

    @override
    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        if not elements or elements[0].timestamp is None:
            return
        newest = max(element.timestamp for element in elements if element.timestamp is not None)
        cutoff = newest - self._window_size
        elements[:] = [e for e in elements if e.timestamp is not None and e.timestamp > cutoff]

    @override
    def __repr__(self) -> str:
        return f"TimeEvictor({self._window_size})"


class DeltaEvictor(_OnOneSide):
    """Keeps the elements whose distance to the last one is below a threshold."""

    def __init__(
        self,
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta_call(delta_function)

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """Remove elements for which ``delta_function(element, last)`` is at least ``threshold``."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    @override
    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [e for e in elements if self._delta(e.value, last) < self._threshold]

    @override
    def __repr__(self) -> str:
        return f"DeltaEvictor({self._threshold})"
