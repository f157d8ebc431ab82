"""List and map state over tables of a backend that may put large lists and maps elsewhere.

Small ones are in the tables as lists and dictionaries, and cost what they cost in `keyed_state` and `state_ttl`, whose
classes these are. One that has grown beyond ``large_from`` entries becomes a `LargeMap` or a `LargeList`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import chain
from operator import itemgetter
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import ATOMIC, private
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from firesteel.state.cached.large_collections import ElementsReader, Entries, LargeList, LargeMap
from firesteel.state.elements import Elements
from firesteel.state.keyed_state import HeapListState, HeapMapState, HeapState
from firesteel.state.state_ttl import Timed, TtlListState, TtlMapState
from firesteel.state.ttl_sweep import GONE

__all__ = ["SPILLING_KINDS", "SPILLING_TTL_KINDS", "Spills"]

_SWEPT_PER_CHANGE = 2


class Spills:
    """What the states need to know of the backend: where large ones go, and from which size on."""

    def __init__(self, entries: Entries, space: Any, name: str, large_from: int) -> None:
        self.entries = entries
        self._space = space
        self._name = name
        self.large_from = large_from

    def location(self, key: Any) -> Any:
        """Where the collection of a key belongs: the table has a number that stays when it is renamed."""
        return self._space, self._space.number(self._name), key

    def large_map(self, key: Any, entries: dict[Any, Any], oldest: int = 0) -> LargeMap:
        """A dictionary as a large map."""
        return self.entries.new_map(self.location(key), entries, oldest)

    def large_list(self, key: Any, elements: Iterable[Any], oldest: int = 0) -> LargeList:
        """A list as a large one."""
        return self.entries.new_list(self.location(key), elements, oldest)

    def delete_collection(self, stored: Any) -> None:
        """Delete a large map or list that was in the table and is not used any more; other values need nothing."""
        if type(stored) is LargeMap or type(stored) is LargeList:
            self.entries.delete(stored)


class _Spilling(HeapState):
    """What all of them share."""

    spills: Spills

    @override
    def clear(self) -> None:
        """Forget the value of the current key."""
        key = self._keys.current_key
        if key in self._table:
            self.spills.delete_collection(self._table.pop(key))


class SpillingMapState(_Spilling, HeapMapState):
    """A map of any size."""

    @override
    def put(self, key: Any, value: Any) -> None:
        current = self._keys.current_key
        entries = self._table.setdefault(current, {})
        kind = type(value)
        if not (kind is tuple or kind in ATOMIC) and type(entries) is dict and entries.get(key) is not value:
            value = private(value)
        entries[key] = value
        if type(entries) is dict and len(entries) > self.spills.large_from:
            self._table[current] = self.spills.large_map(current, entries)

    @override
    def put_all(self, dict_value: dict[Any, Any]) -> None:
        current = self._keys.current_key
        entries = self._table.get(current)
        if type(entries) is LargeMap:
            entries.update(dict_value)
            return
        super().put_all(dict_value)
        entries = self._table.get(current)
        if entries is not None and len(entries) > self.spills.large_from:
            self._table[current] = self.spills.large_map(current, entries)

    @override
    def items(self) -> Iterable[tuple[Any, Any]]:
        """The entries; they may be changed while iterating."""
        entries: Any = self._entries()
        return entries.items() if type(entries) is LargeMap else entries.copy().items()

    @override
    def keys(self) -> Iterable[Any]:
        """The keys of the entries."""
        entries: Any = self._entries()
        return entries.keys() if type(entries) is LargeMap else entries.copy().keys()

    @override
    def values(self) -> Iterable[Any]:
        """The values of the entries."""
        entries: Any = self._entries()
        return entries.values() if type(entries) is LargeMap else entries.copy().values()

    @override
    def peek(self, stored_under: Any) -> Any:
        """What is stored under a key, all of it in memory."""
        stored = self._table.get(stored_under)
        return dict(stored.items()) if type(stored) is LargeMap else stored


class _SpillingList(_Spilling):
    """What lists share, whether their elements expire or not."""

    @override
    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        """Move what ``key`` has in the namespaces ``sources`` into ``target``, in the order given."""
        super().merge_namespaces(key, target, sources)
        _settle_in(self.spills, self._table, (key, target))

    @override
    def merged(self, old: Any, new: Any) -> Any:
        """Both lists; elements that expire keep their times."""
        return _merged_lists(self.spills, old, new)


class SpillingListState(_SpillingList, HeapListState):
    """A list of any size."""

    @override
    def get(self) -> Iterable[Any]:
        """The elements; empty when there are none."""
        elements = self._table.get(self._keys.current_key)
        return elements.elements() if type(elements) is LargeList else HeapListState.get(self)

    @override
    def add(self, value: Any) -> None:
        current = self._keys.current_key
        elements = self._table.setdefault(current, [])
        if type(elements) is list:
            kind = type(value)
            elements.append(value if kind is tuple or kind in ATOMIC else private(value))
            if len(elements) > self.spills.large_from:
                self._table[current] = self.spills.large_list(current, elements)
        else:
            elements.append(value)

    @override
    def add_all(self, values: list[Any]) -> None:
        elements = self._table.get(self._keys.current_key)
        if type(elements) is LargeList:
            elements.extend(values)
        else:
            super().add_all(values)
            self._spill()

    @override
    def update(self, values: list[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        old = self._table.get(self._keys.current_key)
        if type(old) is not LargeList:
            super().update(values)
            self._spill()
            return
        new = self.spills.large_list(self._keys.current_key, values)
        self._table[self._keys.current_key] = new
        self.spills.delete_collection(old)  # now: the values may have been those of the old list
        if not len(new):
            self.clear()

    def _spill(self) -> None:
        current = self._keys.current_key
        elements = self._table.get(current)
        if type(elements) is list and len(elements) > self.spills.large_from:
            self._table[current] = self.spills.large_list(current, elements)

    @override
    def peek(self, stored_under: Any) -> Any:
        """What is stored under a key, all of it in memory."""
        elements = self._table.get(stored_under)
        return list(elements) if type(elements) is LargeList else elements


class SpillingTtlMapState(_Spilling, TtlMapState):
    """A map of any size whose entries expire one by one."""

    @override
    def put(self, key: Any, value: Any) -> None:
        entries = self._table.get(self._keys.current_key)
        if type(entries) is LargeMap:
            entries.ttl = self._ttl
            entries[key] = (value, self._now())
        else:
            super().put(key, value)
        self._spill(1)

    @override
    def put_all(self, dict_value: dict[Any, Any]) -> None:
        current = self._keys.current_key
        entries = self._table.get(current)
        if type(entries) is LargeMap:
            now = self._now()
            entries.ttl = self._ttl
            entries.update({key: (value, now) for key, value in dict_value.items()})
        else:
            super().put_all(dict_value)
        self._spill(len(dict_value))

    @override
    def _shown(self) -> Any:
        now, current = self._now(), self._keys.current_key
        entries = self._table.get(current)
        if type(entries) is not LargeMap:
            return super()._shown()
        # Before anything goes: who is shown what has expired sees it once, and has it in memory for that.
        shown = entries.items() if self._shows_expired else None
        entries.expire(now - self._ttl)
        if not entries:
            self.clear()
            return {} if shown is None else _Shown(shown)
        if shown is None:
            shown = entries.items()
        if self._renews:
            entries.renew(now)
        return _Shown(shown)

    @override
    def is_empty(self) -> bool:
        """Whether there is no entry to be seen; this renews and removes nothing."""
        now = self._now()
        entries = self._table.get(self._keys.current_key)
        if type(entries) is not LargeMap:
            return super().is_empty()
        if self._shows_expired:
            return not entries
        return not any(time + self._ttl > now for _, time in entries.values())

    def _spill(self, changed: int) -> None:
        current = self._keys.current_key
        entries = self._table.get(current)
        if type(entries) is LargeMap:
            if self.sweep is not None:
                entries.sweep(self._horizon(), changed * _SWEPT_PER_CHANGE)
                if not entries:
                    self.clear()
        elif entries is not None and len(entries) > self.spills.large_from:
            oldest = min(time for _, time in entries.values())
            self._table[current] = self.spills.large_map(current, entries, oldest)

    @override
    def _survivors(self, stored: Any, horizon: int) -> tuple[Any, int]:
        if type(stored) is LargeMap:  # it is swept while it is written to, and when somebody goes through it
            return stored, horizon + self._ttl
        return super()._survivors(stored, horizon)

    @override
    def peek(self, stored_under: Any) -> Any:
        """What is alive under a key, all of it in memory."""
        entries = self._table.get(stored_under)
        if type(entries) is not LargeMap:
            return super().peek(stored_under)
        alive, _ = super()._survivors(dict(entries.items()), self._horizon())
        return None if alive is GONE else self._bare(alive)


class SpillingTtlListState(_SpillingList, TtlListState):
    """A list of any size whose elements expire one by one."""

    @override
    def get(self) -> Iterable[Any]:
        """The elements; empty when there are none."""
        now, current = self._now(), self._keys.current_key
        elements = self._table.get(current)
        if type(elements) is not LargeList:
            return super().get()
        shown = elements.elements()
        left = self._cleaned(current, elements, now - self._ttl)
        if left is None:
            return _Values(shown) if self._shows_expired else []
        if not self._shows_expired and left is not elements:
            shown = left.elements()
        if self._renews:
            left.renew(now)
        return _Values(shown)

    @override
    def add(self, value: Any) -> None:
        now = self._now()
        elements = self._table.get(self._keys.current_key)
        if type(elements) is LargeList:
            elements.append((value, now))
        else:
            super().add(value)
        self._spill()

    @override
    def add_all(self, values: list[Any]) -> None:
        now = self._now()
        elements = self._table.get(self._keys.current_key)
        if type(elements) is LargeList:
            elements.extend((value, now) for value in values)
        else:
            super().add_all(values)
        self._spill()

    @override
    def update(self, values: list[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        current = self._keys.current_key
        old = self._table.get(current)
        if type(old) is not LargeList:
            super().update(values)
            self._spill()
            return
        now = self._now()
        new = self.spills.large_list(current, ((value, now) for value in values), now)
        self._table[current] = new
        self.spills.delete_collection(old)
        if not len(new):
            self.clear()

    def _spill(self) -> None:
        current = self._keys.current_key
        elements = self._table.get(current)
        if type(elements) is list and len(elements) > self.spills.large_from:
            large = self.spills.large_list(current, elements, min(time for _, time in elements))
            large.next_cleaning = 2 * len(large)
            self._table[current] = large
        elif (
            type(elements) is LargeList and self.sweep is not None and len(elements) >= elements.next_cleaning
        ):
            # All of it is written again, but so seldom that an element pays for it about once.
            left = self._cleaned(current, elements, self._now() - self._ttl)
            if left is not None:
                left.next_cleaning = 2 * len(left)

    def _cleaned(self, current: Any, elements: LargeList, horizon: int) -> LargeList | None:
        """The list without what has expired, None when nothing is left; it is in the table."""
        if elements.oldest > horizon:
            return elements
        oldest = [0]
        left = self.spills.large_list(current, _alive(elements, horizon, oldest))
        left.oldest, left.next_cleaning = oldest[0], elements.next_cleaning
        self._table[current] = left
        self.spills.delete_collection(elements)
        if len(left):
            return left
        self.clear()
        return None

    @override
    def _survivors(self, stored: Any, horizon: int) -> tuple[Any, int]:
        if type(stored) is LargeList:
            return stored, horizon + self._ttl
        return super()._survivors(stored, horizon)

    @override
    def peek(self, stored_under: Any) -> Any:
        """What is alive under a key, all of it in memory."""
        elements = self._table.get(stored_under)
        if type(elements) is not LargeList:
            return super().peek(stored_under)
        return [value for value, time in elements if time > self._horizon()] or None


def _alive(elements: LargeList, horizon: int, oldest: list[int]) -> Iterable[Timed]:
    for value, time in elements:
        if time > horizon:
            oldest[0] = min(oldest[0] or time, time)
            yield value, time


def _merged_lists(spills: Spills, old: Any, new: Any) -> Any:
    """One list for two; whose it is is said later."""
    if type(old) is list and type(new) is list:
        return old + new
    if type(old) is LargeList and not old.floor:
        old.extend(new)
        old.oldest = min(old.oldest, _oldest(new))
        merged = old
    else:  # the times of a list that was renewed are not those of the elements that come
        merged = spills.large_list(None, chain(old, new), min(_oldest(old), _oldest(new)))
        spills.delete_collection(old)
    spills.delete_collection(new)
    return merged


def _settle_in(spills: Spills, table: dict[Any, Any], pair: Any) -> None:
    """A list that was merged, or moved, belongs to another pair than before."""
    elements = table.get(pair)
    if type(elements) is LargeList:
        elements.move(spills.location(pair))


def _oldest(elements: Any) -> int:
    return elements.oldest if type(elements) is LargeList else 0


class _Shown:
    """The entries of a large map, without times."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Any) -> None:
        self._entries = entries

    def items(self) -> Any:
        return _Mapped(self._entries, lambda pair: (pair[0], pair[1][0]))

    def keys(self) -> Any:
        return _Mapped(self._entries, itemgetter(0))

    def values(self) -> Any:
        return _Mapped(self._entries, lambda pair: pair[1][0])


class _Values(Elements):
    """The elements of a large list, without times."""

    __slots__ = ("_elements",)

    def __init__(self, elements: ElementsReader) -> None:
        self._elements = elements

    @override
    def __len__(self) -> int:
        return len(self._elements)

    @override
    def __iter__(self) -> Any:
        return map(itemgetter(0), self._elements)


class _Mapped(Collection[Any]):
    """What a function makes of each item of a collection, when it is asked for."""

    __slots__ = ("_items", "_view")

    def __init__(self, items: Any, view: Callable[[Any], Any]) -> None:
        self._items = items
        self._view = view

    @override
    def __len__(self) -> int:
        return len(self._items)

    @override
    def __iter__(self) -> Any:
        return map(self._view, self._items)

    @override
    def __contains__(self, item: object) -> bool:
        return any(mapped is item or mapped == item for mapped in self)


SPILLING_KINDS: dict[type[StateDescriptor], Callable[..., SpillingListState | SpillingMapState]] = {
    ListStateDescriptor: SpillingListState,
    MapStateDescriptor: SpillingMapState,
}
SPILLING_TTL_KINDS: dict[type[StateDescriptor], Callable[..., SpillingTtlListState | SpillingTtlMapState]] = {
    ListStateDescriptor: SpillingTtlListState,
    MapStateDescriptor: SpillingTtlMapState,
}
