"""Value, list, map, reducing and aggregating state over a dictionary from key to value.

They hold live objects: what ``value()`` returns is what was put in, not a copy, and changing it in
place without ``update`` is as undefined here as on every other backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from firesteel.common.errors import UnsupportedOperationError
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
from firesteel.state.key_context import KeyContext, NamespaceScope

_MISSING = object()


class HeapState:
    """What all of them share: the table, the key, the namespace, and clearing."""

    def __init__(self, keys: KeyContext, table: dict[Any, Any], descriptor: StateDescriptor) -> None:
        self._keys = keys
        self._table = table
        self._descriptor = descriptor

    def peek(self, stored_under: Any) -> Any:
        """What is stored under a key (or key and namespace), None for nothing; renews and removes nothing."""
        return self._table.get(stored_under)

    def set_namespace(self, namespace: Any) -> None:
        """Turn to a namespace of the current key; for states from ``HashMapBackend.namespaced`` only."""
        assert isinstance(self._keys, NamespaceScope), f"{self._descriptor!r} has no namespaces"
        self._keys.set_namespace(namespace)

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        """Move what ``key`` has in the namespaces ``sources`` into ``target``, in the order given."""
        table = self._table
        for source in sources:
            found = table.pop((key, source), _MISSING)
            if found is not _MISSING:
                old = table.get((key, target), _MISSING)
                table[(key, target)] = found if old is _MISSING else self.merged(old, found)

    def merged(self, old: Any, new: Any) -> Any:
        """One stored value for two; only some kinds of state can do this."""
        raise UnsupportedOperationError(
            f"{self._descriptor!r} cannot merge: when windows merge, only list, reducing and aggregating state "
            "of two windows can become one"
        )

    def clear(self) -> None:
        """Forget the value of the current key."""
        key = self._keys.current_key
        if key in self._table:  # hashes the key even when the table is empty, which pop() does not: see NoKey
            del self._table[key]


class HeapValueState(HeapState, ValueState[Any]):
    """A single value."""

    def __init__(self, keys: KeyContext, table: dict[Any, Any], descriptor: StateDescriptor) -> None:
        super().__init__(keys, table, descriptor)
        self._get = table.get  # a quarter less per access

    def value(self) -> Any:
        """The current key's value, None when it has none."""
        return self._get(self._keys.current_key)

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
        if values:
            self._elements().extend(values)

    def update(self, values: list[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        if values:
            self._table[self._keys.current_key] = list(values)
        else:
            self.clear()

    def merged(self, old: Any, new: Any) -> Any:
        """Both lists."""
        old.extend(new)
        return old

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
        if dict_value:
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

    def merged(self, old: Any, new: Any) -> Any:
        """The reduction of both."""
        return self._reduce(old, new)


class HeapAggregatingState(HeapState, AggregatingState[Any, Any]):
    """An accumulator."""

    def __init__(
        self, keys: KeyContext, table: dict[Any, Any], descriptor: AggregatingStateDescriptor
    ) -> None:
        super().__init__(keys, table, descriptor)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        """The result of the accumulator, None before the first addition."""
        return self.peek(self._keys.current_key)

    def peek(self, stored_under: Any) -> Any:
        """The result of the accumulator of a key."""
        accumulator = self._table.get(stored_under, _MISSING)
        return None if accumulator is _MISSING else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Take ``value`` into the accumulator."""
        key = self._keys.current_key
        old = self._table.get(key, _MISSING)
        accumulator = self._function.create_accumulator() if old is _MISSING else old
        self._table[key] = self._function.add(value, accumulator)

    def merged(self, old: Any, new: Any) -> Any:
        """One accumulator for both."""
        return self._function.merge(old, new)
