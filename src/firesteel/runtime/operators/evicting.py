"""Window contents with an evictor: all elements with their timestamps, whatever function is applied to them."""

from __future__ import annotations

from typing import Any

from firesteel.contracts.evictors import Evictor, TimestampedValue
from firesteel.runtime.operators.detached import detached
from firesteel.runtime.operators.window_contents import MISSING, AggregatedContents, Contents


class EvictedContents:
    """A list of elements; reducing or aggregating happens when the window fires."""

    def __init__(
        self, contents: Contents, evictor: Evictor[Any, Any], context: Evictor.EvictorContext
    ) -> None:
        self._inner = contents
        self._evictor = evictor
        self._context = context

    def add(self, old: Any, value: Any, timestamp: int | None) -> Any:
        """The list with the element at its end."""
        element = TimestampedValue(value, timestamp)
        if old is MISSING:
            return [element]
        old.append(element)
        return old

    def merge(self, old: Any, new: Any) -> Any:
        """One list after the other."""
        old.extend(new)
        return old

    def before(self, kept: list[TimestampedValue[Any]], window: Any) -> Any:
        """Evict, and return what the window function gets."""
        self._evictor.evict_before(kept, len(kept), window, self._context)
        return self._applied([element.value for element in kept])

    def after(self, kept: list[TimestampedValue[Any]], window: Any) -> bool:
        """Evict, and return whether anything is left."""
        self._evictor.evict_after(kept, len(kept), window, self._context)
        return bool(kept)

    def _applied(self, values: list[Any]) -> Any:
        """The elements, or what the aggregation makes of them."""
        inner = self._inner
        if not inner.is_single:
            return values
        if not values and isinstance(inner, AggregatedContents):
            return inner.empty_result()
        if not values:
            return None
        found = inner.add(MISSING, detached(values[0]))  # which the function may change, and the window keeps
        for value in values[1:]:
            found = inner.add(found, value)
        return inner.result(found)
