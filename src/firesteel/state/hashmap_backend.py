"""Keyed state as live Python objects in dictionaries: one table per state.

The current key is set by the operator before it calls user code; the state objects handed to user
functions read it at every access, so an access costs about a dictionary look-up.

Tables are plain dictionaries, and there are two sets of them, each by name:

- ``table(name)``: ``table[key]`` is the value of a key;
- ``namespaced_table(name)``: ``table[(key, namespace)]`` is the value of a key in a namespace, such as a window.

A name may be in both: they are different states. Which set a table is in tells a snapshot where to find the
key, and with it the key group; see `tables`. Operators may work on the tables directly. Through states, for
the state ``sum`` of a window::

    state = backend.namespaced(descriptor)      # one per operator, made when it opens
    backend.current_key = key                   # first the key,
    state.set_namespace(window)                 # then the namespace
    state.add(value)                            # now for both
    backend.merge_namespaces(descriptor, target, [absorbed, ...])   # sessions: current key
    backend.clear_namespace(key, window, ["sum"])

States that always turn to a namespace together share a `NamespaceScope`: make one with ``backend.scope()``, hand
it to ``namespaced(descriptor, scope)`` and call ``scope.set_namespace(window)`` once for all of them.

Timer queues belong to the state, too (`timer_queue`), and so do stores that an operator keeps beside the tables
(`add_store`): snapshots take and restore them together with the tables.

**A batch announces its keys.** While ``tracks`` is true, whoever is about to change an entry says so first:
``touch(keys)`` for what is under keys, ``touch_pairs(pairs)`` for what is under ``(key, namespace)``. Operators call
``touch`` once for a batch of records, or before the function of a timer is called, and ``touch_pairs`` as windows
come up. Snapshots in progress save what they need, and the next delta knows what to write. ``touch`` also says that
nothing of what was announced before is in use any more; ``touch_pairs`` does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.common.errors import CorruptStateError, ProgramError, short_repr
from firesteel.common.time import to_millis
from firesteel.contracts.runtime_context import KeyedStateStore
from firesteel.contracts.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from firesteel.plan.state_handles import StateMeta
from firesteel.state.key_context import BEFORE_FIRST_KEY, KeyContext, NamespaceScope
from firesteel.state.key_space import KeySpace, Table, TableId
from firesteel.state.keyed_snapshot import Keep
from firesteel.state.keyed_state import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
)
from firesteel.state.snapshot_chain import MAX_DELTAS
from firesteel.state.state_blocks import Accepts, chosen, read_block
from firesteel.state.state_migration import conversion
from firesteel.state.state_registry import StateRegistry, checked, is_internal
from firesteel.state.state_ttl import TTL_KINDS, TtlState
from firesteel.state.timer_queue import TimerQueue
from firesteel.state.tracked_state import EntryStore, TrackedState
from firesteel.state.user_serializers import encoding

__all__ = ["EntryStore", "HashMapBackend", "Table", "TableId"]

_KINDS: dict[type[StateDescriptor], Callable[..., HeapState]] = {
    ValueStateDescriptor: HeapValueState,
    ListStateDescriptor: HeapListState,
    MapStateDescriptor: HeapMapState,
    ReducingStateDescriptor: HeapReducingState,
    AggregatingStateDescriptor: HeapAggregatingState,
}


class HashMapBackend(TrackedState, KeyedStateStore):
    """All keyed state of one operator's subtask.

    ``incremental``: snapshots may be deltas to the last confirmed one, at most ``max_deltas`` in a row. ``operator``
    is the name that errors mention.
    """

    __slots__ = ("current_key",)  # set and read for every record; the other attributes are in the dictionary

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        *,
        incremental: bool = False,
        max_deltas: int = MAX_DELTAS,
        operator: str = "",
    ) -> None:
        super().__init__(incremental, max_deltas)
        self.current_key: Any = BEFORE_FIRST_KEY
        #: Whether the operator may ask for states after it was opened, as window functions do.
        self.asks_late = False
        self._clock = clock  # the task's, for time to live
        self._registry = StateRegistry(operator)
        self._restored: set[TableId] = set()
        self._ttl_states: dict[TableId, TtlState] = {}
        self._states: dict[tuple[TableId, int], tuple[type, Any]] = {}

    # Tables -------------------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """The dictionary from key to value behind one state."""
        self._registry.claim_internal(TableId(name, False))
        return self._keys.table(name)

    def namespaced_table(self, name: str) -> Table:
        """The dictionary from ``(key, namespace)`` to value behind one state."""
        self._registry.claim_internal(TableId(name, True))
        return self._pairs.table(name)

    def add_store(self, name: str, store: EntryStore) -> None:
        """Make a store part of this state; what was restored under this name before is handed over now."""
        self._registry.claim_internal(TableId(name, False))
        super().add_store(name, store)

    def keys_of(self, name: str) -> Iterator[Any]:
        """The keys that have something in a table; each one may be read and changed while it is at hand."""
        for key in list(self._keys.table(name)):
            if self.tracks:
                self.touch((key,))
            yield key

    def values_of(self, name: str) -> Iterator[list[Any]]:
        """All values of a table, some at a time."""
        yield list(self._keys.table(name).values())

    def records_passed(self, count: int) -> None:
        """An operator has processed so many records: let expired values go, where the user wants that per record."""
        for state in self._ttl_states.values():
            if state.sweeps_for_every_record:
                state.sweep_after(count)

    def close(self) -> None:
        """Release resources."""

    # Restoring ----------------------------------------------------------------------------------------

    def expect(self, metas: Iterable[StateMeta]) -> None:
        """What is known of the states that are restored; asking for one in another way is refused."""
        self._registry.expect(metas)

    def restore_block(
        self, payload: bytes, accepts: Accepts | None = None, *, is_newest: bool = True
    ) -> None:
        """Put a block of a snapshot into this backend, before the operator is opened.

        ``accepts`` tells which keys belong here; without it all do. ``is_newest``: it is of the newest segment of its
        chain, the only one whose stores count. Timers and entries of stores wait until the operator asks for its
        queue or store.
        """
        match chosen(read_block(payload), accepts):
            case ("put", name, namespaced, keys, values):
                self._restore_entries(TableId(name, namespaced), keys, values)
            case ("remove", name, namespaced, keys):
                self._remove_entries(TableId(name, namespaced), keys)
            case ("timers", name, namespaced, times, entries):
                self._restore_timers(TableId(name, namespaced), zip(times, entries, strict=True))
            case ("timers_removed", name, namespaced, times, entries):
                self._remove_timers(TableId(name, namespaced), zip(times, entries, strict=True))
            case ("entries", name, keys, values, extra):
                if keys and is_newest:
                    self._restore_store(name, keys, values, extra)
            case unknown:
                raise CorruptStateError(f"a block of keyed state begins with {short_repr(unknown[:1])}")

    def _restore_entries(self, table_id: TableId, keys: list[Any], values: list[Any]) -> None:
        self._restored.add(table_id)
        self._space(table_id).table(table_id.name).update(zip(keys, values, strict=True))

    def _remove_entries(self, table_id: TableId, keys: list[Any]) -> None:
        table = self._space(table_id).table(table_id.name)
        for key in keys:
            table.pop(key, None)

    def _restore_timers(self, timers_id: TableId, timers: Iterable[tuple[int, Any]]) -> None:
        queue = self._restored_queue(timers_id)
        for time_, entry in timers:
            queue.add(time_, entry)

    def _remove_timers(self, timers_id: TableId, timers: Iterable[tuple[int, Any]]) -> None:
        queue = self._restored_queue(timers_id)
        for time_, entry in timers:
            queue.remove(time_, entry)

    def _restored_queue(self, timers_id: TableId) -> TimerQueue:
        if timers_id not in self._timers:
            self._unclaimed_timers.add(timers_id)
        return self._queue(timers_id)

    def _restore_store(self, name: str, keys: list[Any], values: list[Any], extra: Any) -> None:
        if name in self._stores:
            self._stores[name].restore(keys, values, extra)
        else:
            self._waiting.add(name, (keys, values, extra))

    def take_restored_table(self, name: str, namespaced: bool) -> Iterator[tuple[Any, Any]]:
        """The entries of a restored table that this operator keeps in another way; the table has them no more."""
        space = self._pairs if namespaced else self._keys
        entries = list(space.tables.get(name, {}).items())
        self._drop(TableId(name, namespaced))
        return iter(entries)

    def take_restored_timers(self, name: str, namespaced: bool) -> list[tuple[int, Any]]:
        """Restored timers that this operator keeps in another way."""
        timers_id = TableId(name, namespaced)
        if timers_id not in self._unclaimed_timers:
            return []
        self._unclaimed_timers.remove(timers_id)
        return list(self._timers.pop(timers_id).entries())

    def take_restored_entries(self, name: str) -> list[tuple[list[Any], list[Any], Any]]:
        """What was restored for a store, for an operator that keeps it in another way."""
        self._registry.drop(TableId(name, False))
        return self._waiting.take(name)

    def metas(self) -> tuple[StateMeta, ...]:
        """What a manifest says of the states."""
        return self._registry.metas()

    def unclaimed(self) -> list[str]:
        """Names of restored states that the program has not asked for; to be looked at after it was opened.

        Those of windows and triggers are not among them, because these ask when they need them, nor those of
        functions that did so when the state was saved.
        """
        filled = [
            i
            for i in self._restored
            if not self._registry.is_claimed(i) and self._space(i).has_entries(i.name)
        ]
        tables = [*self._registry.unclaimed(), *filled]
        names = [i.name for i in tables if is_internal(i.name) or not self._may_be_claimed_late(i)]
        timers = [
            i.name for i in self._timers if i in self._unclaimed_timers and any(self._timers[i].entries())
        ]
        return list(dict.fromkeys([*names, *timers, *self._waiting.names()]))

    def _may_be_claimed_late(self, table_id: TableId) -> bool:
        return table_id.namespaced or self.asks_late or self._registry.may_be_claimed_late(table_id)

    def opened(self) -> None:
        """The operator was opened; what it asks for from now on may be asked for late in the next run, too."""
        self._registry.is_open = True

    def drop_unclaimed(self) -> None:
        """Forget what `unclaimed` lists."""
        for name in self.unclaimed():
            for space in self._spaces:
                if not self._registry.is_claimed(TableId(name, space.namespaced)):
                    self._drop(TableId(name, space.namespaced))
                self._drop_timers(TableId(name, space.namespaced))
            self._waiting.take(name)

    def _drop_timers(self, timers_id: TableId) -> None:
        if timers_id in self._unclaimed_timers:
            self._unclaimed_timers.remove(timers_id)
            del self._timers[timers_id]

    def _drop(self, table_id: TableId) -> None:
        self._registry.drop(table_id)
        self._restored.discard(table_id)
        self._space(table_id).drop(table_id.name)

    def _space(self, table_id: TableId) -> KeySpace:
        return self._pairs if table_id.namespaced else self._keys

    def _keeper(self, table_id: TableId) -> Keep | None:
        """Leaves expired values out of full snapshots, where the user wants that."""
        state = self._ttl_states.get(table_id)
        return state.keeper() if state is not None and state.cleans_full_snapshots else None

    # State per key ------------------------------------------------------------------------------------

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """A single value per key."""
        state: HeapValueState = self._state(state_descriptor, self, False)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""
        state: HeapListState = self._state(state_descriptor, self, False)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A dictionary per key."""
        state: HeapMapState = self._state(state_descriptor, self, False)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value per key that takes up what is added by a reduce function."""
        state: HeapReducingState = self._state(state_descriptor, self, False)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An accumulator per key that takes up what is added by an aggregate function."""
        state: HeapAggregatingState = self._state(state_descriptor, self, False)
        return state

    def get_keyed_state(self, descriptor: StateDescriptor) -> Any:
        """State per key, of the kind that the descriptor describes."""
        return self._state(descriptor, self, False)

    def peek(self, name: str, key: Any) -> Any:
        """What a state holds for a key, None for nothing, without touching it; for tests and queries."""
        known = self._states.get((TableId(name, False), id(self)))
        return self.table(name).get(key) if known is None else known[1].peek(key)

    # State per key and namespace ----------------------------------------------------------------------

    def scope(self) -> NamespaceScope:
        """A scope for several states that turn to a namespace together."""
        return NamespaceScope(self)

    def namespaced(self, descriptor: StateDescriptor, scope: NamespaceScope | None = None) -> Any:
        """State per key and namespace, of the kind that the descriptor describes.

        The same name and scope give the same object. Without a ``scope`` it has one of its own, which its
        ``set_namespace`` moves.
        """
        if scope is not None:
            return self._state(descriptor, scope, True)
        return self._make(descriptor, NamespaceScope(self), TableId(descriptor.get_name(), True))

    def clear_namespace(self, key: Any, namespace: Any, names: Iterable[str]) -> None:
        """Forget what the named states hold for a key in a namespace."""
        for name in names:
            table = self._pairs.tables.get(name)
            if table is not None:
                table.pop((key, namespace), None)

    def merge_namespaces(self, descriptor: StateDescriptor, target: Any, sources: Iterable[Any]) -> None:
        """Move what the current key has in the namespaces ``sources`` into ``target``, in the order given.

        Lists are appended, reducing state is reduced, accumulators are merged.
        """
        self.namespaced(descriptor).merge_namespaces(self.current_key, target, sources)

    # Making states ------------------------------------------------------------------------------------

    def _state(self, descriptor: StateDescriptor, keys: KeyContext, namespaced: bool) -> Any:
        table_id = TableId(descriptor.get_name(), namespaced)
        known = self._states.get((table_id, id(keys)))
        if known is None:
            known = (type(descriptor), self._make(descriptor, keys, table_id))
            self._states[table_id, id(keys)] = known
        if known[0] is not type(descriptor):
            raise ProgramError(
                f"state {table_id.name!r} is declared twice in one function: as {known[0].__name__} and as "
                f"{type(descriptor).__name__}; give each state a name of its own"
            )
        return known[1]

    def _make(self, descriptor: StateDescriptor, keys: KeyContext, table_id: TableId) -> HeapState:
        self._adopt(descriptor, table_id)
        table = self._space(table_id).table(table_id.name)
        encode = encoding(descriptor)
        if encode is not None:
            self._space(table_id).encoders[table_id.name] = encode
        if descriptor.get_ttl_config() is None:
            return _KINDS[type(descriptor)](keys, table, descriptor)
        state = TTL_KINDS[type(descriptor)](keys, table, descriptor, self._clock)
        if state.sweep is not None:
            state.sweep.announce = self._sweeper(self._space(table_id))
        self._ttl_states[table_id] = state
        return state

    def _adopt(self, descriptor: StateDescriptor, table_id: TableId) -> None:
        """Give a state what was restored for it, in the form that the program wants now."""
        found = self._registry.claim(descriptor, table_id)
        if found is None:
            return
        old_id, old = found
        wanted = self._registry.meta(table_id)
        operator = self._registry.operator
        migrates = checked(operator, old, wanted, descriptor)
        convert = conversion(operator, descriptor, old, migrates, to_millis(self._clock()))
        if (old_id != table_id or convert is not None) and self._takes_note:
            self._announce_all(old_id)  # the first checkpoint may be long over when a window function asks
        if old_id != table_id:
            self._rename(old_id, table_id.name)
        if convert is not None:
            self._convert(table_id, convert)

    def _announce_all(self, table_id: TableId) -> None:
        """All entries of a table change, or go."""
        space = self._space(table_id)
        space.announce(list(space.table(table_id.name)))

    def _rename(self, table_id: TableId, name: str) -> None:
        space = self._space(table_id)
        space.rename(table_id.name, name)
        self._restored.discard(table_id)
        if self._takes_note:
            space.table(table_id.name)  # empty, so that the next delta removes what is under the old name

    def _convert(self, table_id: TableId, convert: Callable[[Any], Any]) -> None:
        table = self._space(table_id).table(table_id.name)
        for key, stored in table.items():
            table[key] = convert(stored)
