"""Value, list, map, reducing and aggregating state over a dictionary from key to value.

They hold live objects: what ``value()`` returns is what was put in, not a copy, and changing it in
place without ``update`` is as undefined here as on every other backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from firesteel.contracts.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    MapState,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
)

_MISSING = object()


class KeyContext(Protocol):
    """Knows the key that user code is called for."""

    current_key: Any


class HeapState:
    """What all of them share: the table, the key, and clearing."""

    def __init__(self, keys: KeyContext, table: dict[Any, Any], descriptor: StateDescriptor) -> None:
        self._keys = keys
        self._table = table

    def clear(self) -> None:
        """Forget the value of the current key."""
        self._table.pop(self._keys.current_key, None)


class HeapValueState(HeapState, ValueState[Any]):
    """A single value."""

    def value(self) -> Any:
        """The current key's value, None when it has none."""
        return self._table.get(self._keys.current_key)

    def update(self, value: Any) -> None:
        """Replace the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._table[self._keys.current_key] = value


class HeapListState(HeapState, ListState[Any]):
    """A list."""

    def get(self) -> Iterable[Any]:
        """The elements; empty when there are none."""
        return self._table.get(self._keys.current_key, ())  # type: ignore[no-any-return]

    def add(self, value: Any) -> None:
        """Append one element."""
        self._elements().append(value)

    def add_all(self, values: list[Any]) -> None:
        """Append several elements."""
        self._elements().extend(values)

    def update(self, values: list[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        if values:
            self._table[self._keys.current_key] = list(values)
        else:
            self.clear()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def _elements(self) -> list[Any]:
        return self._table.setdefault(self._keys.current_key, [])  # type: ignore[no-any-return]


class HeapMapState(HeapState, MapState[Any, Any]):
    """A dictionary."""

    def get(self, key: Any) -> Any:
        """The value under ``key``, None when there is none."""
        return self._entries().get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set one entry."""
        self._table.setdefault(self._keys.current_key, {})[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set several entries."""
        self._table.setdefault(self._keys.current_key, {}).update(dict_value)

    def remove(self, key: Any) -> None:
        """Remove one entry, if it is there; the last one takes the whole map with it."""
        entries = self._entries()
        entries.pop(key, None)
        if not entries:
            self.clear()

    def contains(self, key: Any) -> bool:
        """Whether there is an entry under ``key``."""
        return key in self._entries()

    def items(self) -> Iterable[tuple[Any, Any]]:
        """The entries; a copy, so they may be changed while iterating."""
        return list(self._entries().items())

    def keys(self) -> Iterable[Any]:
        """The keys of the entries."""
        return list(self._entries())

    def values(self) -> Iterable[Any]:
        """The values of the entries."""
        return list(self._entries().values())

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._entries()

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def _entries(self) -> dict[Any, Any]:
        return self._table.get(self._keys.current_key) or {}


class HeapReducingState(HeapState, ReducingState[Any]):
    """One value, combined with each addition."""

    def __init__(self, keys: KeyContext, table: dict[Any, Any], descriptor: ReducingStateDescriptor) -> None:
        super().__init__(keys, table, descriptor)
        self._reduce = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        """The combined value, None before the first addition."""
        return self._table.get(self._keys.current_key)

    def add(self, value: Any) -> None:
        """Combine ``value`` into the state."""
        key = self._keys.current_key
        old = self._table.get(key, _MISSING)
        self._table[key] = value if old is _MISSING else self._reduce(old, value)


class HeapAggregatingState(HeapState, AggregatingState[Any, Any]):
    """An accumulator."""

    def __init__(
        self, keys: KeyContext, table: dict[Any, Any], descriptor: AggregatingStateDescriptor
    ) -> None:
        super().__init__(keys, table, descriptor)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        """The result of the accumulator, None before the first addition."""
        accumulator = self._table.get(self._keys.current_key, _MISSING)
        return None if accumulator is _MISSING else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Take ``value`` into the accumulator."""
        key = self._keys.current_key
        old = self._table.get(key, _MISSING)
        accumulator = self._function.create_accumulator() if old is _MISSING else old
        self._table[key] = self._function.add(value, accumulator)
