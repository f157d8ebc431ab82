"""Value, list, map, reducing and aggregating state over a dictionary from key to value: hop 9 of a record's journey.

They hold live objects: what ``value()`` returns is what is stored, not a copy, and changing it in place without
``update`` is as undefined here as on every other backend. What comes in is made private first, so that no object is
in two states, or under two keys: changing one of them would change the other, until one is restored or comes back
from disk. What is stored already may come in again, changed, and is not copied then. Tuples are not looked into,
because that would cost more than all the rest of an update.

What goes out as several values - elements, entries - is what there was at the time of the call, whatever is added or
removed while somebody goes through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import ATOMIC, MISSING, private
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
from firesteel.state.elements import ElementsView
from firesteel.state.key_context import KeyContext, NamespaceScope

__all__ = [
    "HeapAggregatingState",
    "HeapListState",
    "HeapMapState",
    "HeapReducingState",
    "HeapState",
    "HeapValueState",
    "private_values",
]

_VIEW_FROM = 128  # elements; fewer are copied in less time than a view takes
_all_atomic = ATOMIC.issuperset
#: Exact types of values that are stored as they are; None is no value.
_KEPT_AS_IT_IS = frozenset(ATOMIC - {type(None)} | {tuple})


def private_values(values: Iterable[Any], own: Iterable[Any] = ()) -> list[Any]:
    """A list of these values, of which nobody else holds one; those that are in ``own`` are not copied."""
    listed = list(values)
    if _all_atomic(map(type, listed)):
        return listed
    known = set(map(id, own))
    return [value if type(value) is tuple or id(value) in known else private(value) for value in listed]


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
        """Turn to a namespace of the current key; for states from ``KeyedBackend.namespaced`` only."""
        assert isinstance(self._keys, NamespaceScope), f"{self._descriptor!r} has no namespaces"
        self._keys.set_namespace(namespace)

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        """Move what ``key`` has in the namespaces ``sources`` into ``target``, in the order given."""
        table = self._table
        for source in sources:
            stored = table.pop((key, source), MISSING)
            if stored is not MISSING:
                old = table.get((key, target), MISSING)
                table[(key, target)] = stored if old is MISSING else self.merged(old, stored)

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

    @override
    def value(self) -> Any:
        """The current key's value, None when it has none."""
        return self._get(self._keys.current_key)

    @override
    def update(self, value: Any) -> None:
        """Replace the value; None clears it."""
        if type(value) in _KEPT_AS_IT_IS:
            self._table[self._keys.current_key] = value
        elif value is None:
            self.clear()
        else:
            key = self._keys.current_key
            self._table[key] = value if self._get(key) is value else private(value)


class HeapListState(HeapState, ListState[Any]):
    """A list."""

    @override
    def get(self) -> Iterable[Any]:
        """The elements; empty when there are none."""
        elements = self._table.get(self._keys.current_key)
        if elements is None:
            return []
        return elements.copy() if len(elements) < _VIEW_FROM else ElementsView(elements)

    @override
    def add(self, value: Any) -> None:
        kind = type(value)
        self._elements().append(value if kind is tuple or kind in ATOMIC else private(value))

    @override
    def add_all(self, values: list[Any]) -> None:
        elements = private_values(values)
        if elements:
            self._elements().extend(elements)

    @override
    def update(self, values: list[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        key = self._keys.current_key
        elements = private_values(values, self._table.get(key, ()))
        if elements:
            self._table[key] = elements
        else:
            self.clear()

    @override
    def merged(self, old: Any, new: Any) -> Any:
        old.extend(new)
        return old

    @override
    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def _elements(self) -> list[Any]:
        return self._table.setdefault(self._keys.current_key, [])  # type: ignore[no-any-return]


class HeapMapState(HeapState, MapState[Any, Any]):
    """A dictionary."""

    @override
    def get(self, key: Any) -> Any:
        """The value under ``key``, None when there is none."""
        return self._entries().get(key)

    @override
    def put(self, key: Any, value: Any) -> None:
        entries = self._table.setdefault(self._keys.current_key, {})
        kind = type(value)
        if not (kind is tuple or kind in ATOMIC or entries.get(key) is value):
            value = private(value)
        entries[key] = value

    @override
    def put_all(self, dict_value: dict[Any, Any]) -> None:
        if dict_value:
            entries = self._table.setdefault(self._keys.current_key, {})
            values = private_values(dict_value.values(), map(entries.get, dict_value))
            entries.update(zip(dict_value, values, strict=True))

    @override
    def remove(self, key: Any) -> None:
        """Remove one entry, if it is there; the last one takes the whole map with it."""
        entries = self._entries()
        entries.pop(key, None)
        if not entries:
            self.clear()

    @override
    def contains(self, key: Any) -> bool:
        """Whether there is an entry under ``key``."""
        return key in self._entries()

    @override
    def items(self) -> Iterable[tuple[Any, Any]]:
        """The entries; a copy, so they may be changed while iterating."""
        return self._entries().copy().items()

    @override
    def keys(self) -> Iterable[Any]:
        """The keys of the entries."""
        return self._entries().copy().keys()

    @override
    def values(self) -> Iterable[Any]:
        """The values of the entries."""
        return self._entries().copy().values()

    @override
    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._entries()

    @override
    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    @override
    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    @override
    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    @override
    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    @override
    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def _entries(self) -> dict[Any, Any]:
        return self._table.get(self._keys.current_key) or {}


class HeapReducingState(HeapState, ReducingState[Any]):
    """One value, combined with each addition."""

    def __init__(self, keys: KeyContext, table: dict[Any, Any], descriptor: ReducingStateDescriptor) -> None:
        super().__init__(keys, table, descriptor)
        self._reduce = descriptor.get_reduce_function().reduce

    @override
    def get(self) -> Any:
        """The combined value, None before the first addition."""
        return self._table.get(self._keys.current_key)

    @override
    def add(self, value: Any) -> None:
        """Combine ``value`` into the state."""
        key = self._keys.current_key
        old = self._table.get(key, MISSING)
        reduced = value if old is MISSING else self._reduce(old, value)
        if reduced is value and not (type(value) is tuple or type(value) in ATOMIC):
            reduced = private(value)  # the function may change it with the next addition
        self._table[key] = reduced

    @override
    def merged(self, old: Any, new: Any) -> Any:
        return self._reduce(old, new)


class HeapAggregatingState(HeapState, AggregatingState[Any, Any]):
    """An accumulator."""

    def __init__(
        self, keys: KeyContext, table: dict[Any, Any], descriptor: AggregatingStateDescriptor
    ) -> None:
        super().__init__(keys, table, descriptor)
        self._function = descriptor.get_agg_function()

    @override
    def get(self) -> Any:
        """The result of the accumulator, None before the first addition."""
        return self.peek(self._keys.current_key)

    @override
    def peek(self, stored_under: Any) -> Any:
        """The result of the accumulator of a key."""
        accumulator = self._table.get(stored_under, MISSING)
        return None if accumulator is MISSING else self._function.get_result(accumulator)

    @override
    def add(self, value: Any) -> None:
        """Take ``value`` into the accumulator."""
        key = self._keys.current_key
        old = self._table.get(key, MISSING)
        accumulator = private(self._function.create_accumulator()) if old is MISSING else old
        self._table[key] = self._function.add(value, accumulator)

    @override
    def merged(self, old: Any, new: Any) -> Any:
        return self._function.merge(old, new)
