"""What all keyed backends have: state as live Python objects in dictionaries, one table per state.

`hashmap_backend` has all of it there; those of `firesteel.state.cached` have some of it there and the rest elsewhere.

The operator turns to a key before it calls user code; the state objects handed to user functions read
``current_key`` at every access, so an access costs about a dictionary look-up.

Tables are plain dictionaries, and there are two sets of them, each by name:

- ``table(name)``: ``table[key]`` is the value of a key;
- ``namespaced_table(name)``: ``table[(key, namespace)]`` is the value of a key in a namespace, such as a window.

A name may be in both: they are different states. Which set a table is in tells a snapshot where to find the
key, and with it the key group; see `tables`. Operators may work on the tables directly. Through states, for
the state ``sum`` of a window::

    state = backend.namespaced(descriptor)      # one per operator, made when it opens
    backend.turn_to(key)                        # first the key,
    state.set_namespace(window)                 # then the namespace
    state.add(value)                            # now for both
    backend.merge_namespaces(descriptor, target, [absorbed, ...])   # sessions: current key
    backend.clear_namespace(key, window, ["sum"])

States that always turn to a namespace together share a `NamespaceScope`: make one with ``backend.scope()``, hand
it to ``namespaced(descriptor, scope)`` and call ``scope.set_namespace(window)`` once for all of them.

Timer queues belong to the state as well (`timer_queue`), and so do stores that an operator keeps beside the tables
(`add_store`): snapshots hold them together with the tables.

**A batch announces its keys.** While ``tracks`` is true, whoever is about to change an entry says so first:
``touch(keys)`` for what is under keys, ``touch_pairs(pairs)`` for what is under ``(key, namespace)``. Snapshots in
progress save what they need, and the next delta knows what to write. Operators never ask ``tracks`` themselves, where
one forgotten line would be a checkpoint that is silently wrong. They make one call:

- ``turn_to(key)`` for a single key, a timer's say, which becomes the current one;
- ``announce_batch`` of `firesteel.runtime.operators.announced` for the keys of a batch of records, and in the batch
  ``turn_to_announced(key)`` for one of them after the other;
- ``announce_pairs(pairs)`` as windows come up, which turning a scope or a state to a namespace does not do;
  ``scope.turn_to(window)`` does both.

``touch`` also says that nothing of what was announced before is in use any more, so ``turn_to`` is nothing for the
middle of a batch; ``touch_pairs`` does not. tests/architecture/test_announced_keys.py looks for what goes past this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from firesteel.common._override import override
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
from firesteel.state.key_context import BEFORE_FIRST_KEY, KeyContext, NamespaceScope, NoKey
from firesteel.state.keyed_state import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
)
from firesteel.state.snapshot.keyed_snapshot import Accepts, Keep, accepted, apply_pieces, read_block
from firesteel.state.state_migration import conversion
from firesteel.state.state_registry import StateRegistry, is_internal, needs_migration
from firesteel.state.state_ttl import TTL_KINDS, TtlState
from firesteel.state.timer_queue import TimerQueue
from firesteel.state.tracked_state import MAX_DELTAS, EntryStore, KeySpace, Table, TableId, TrackedState
from firesteel.state.user_serializers import encoding, map_key_encoding

__all__ = ["EntryStore", "KeyedBackend", "Table", "TableId"]

_KINDS: dict[type[StateDescriptor], Callable[..., HeapState]] = {
    ValueStateDescriptor: HeapValueState,
    ListStateDescriptor: HeapListState,
    MapStateDescriptor: HeapMapState,
    ReducingStateDescriptor: HeapReducingState,
    AggregatingStateDescriptor: HeapAggregatingState,
}


class KeyedBackend(TrackedState, KeyedStateStore):
    """All keyed state of one operator's subtask.

    ``incremental``: snapshots may be deltas to that of the last completed checkpoint, at most ``max_deltas`` in a row.
    ``operator`` is the name that errors mention.
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
        #: Told of states that others may ask for, if anybody wants to know.
        self.on_queryable: Callable[[StateDescriptor], None] | None = None
        #: Whether the operator may register states after it was opened, as window functions do.
        self.registers_late = False
        self._clock = clock  # the task's, for time to live
        self._registry = StateRegistry(operator)
        self._restored: set[TableId] = set()
        self._ttl_states: dict[TableId, TtlState] = {}
        self._states: dict[tuple[TableId, int], tuple[type, Any]] = {}

    def turn_to(self, key: Any) -> None:
        """Make a key the current one. What is under it may be read and changed from now on.

        Not in the middle of a batch, whose other keys may leave the memory then: see `turn_to_announced`.
        """
        if self.tracks:
            self.touch((key,))
        self.current_key = key

    def turn_to_announced(self, key: Any) -> None:
        """Make a key the current one that is of the batch at hand, or was turned to, and so has been announced."""
        self.current_key = key

    def turn_to_no_key(self, reason: NoKey) -> None:
        """From now on there is no current key; whoever touches keyed state is told the reason."""
        self.current_key = reason

    def announce_pairs(self, pairs: Collection[tuple[Any, Any]]) -> None:
        """What is under these pairs of key and namespace may be read and changed from now on."""
        if self.tracks:
            self.touch_pairs(pairs)

    # Tables -------------------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """The dictionary from key to value behind one state."""
        self._registry.register_internal(TableId(name, False))
        return self._keys.table(name)

    def namespaced_table(self, name: str) -> Table:
        """The dictionary from ``(key, namespace)`` to value behind one state."""
        self._registry.register_internal(TableId(name, True))
        return self._pairs.table(name)

    @override
    def add_store(self, name: str, store: EntryStore) -> None:
        """Add a store to this state; what was restored under this name before is handed over now."""
        self._registry.register_internal(TableId(name, False))
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

    @property
    def can_forget_keys(self) -> bool:
        """Whether `forget_keys` does anything: where all state costs memory."""
        return self.is_in_memory and not self._ttl_states

    def forget_keys(self) -> None:
        """Drop everything, because the keys so far never come again: in BATCH, where input is sorted by key."""
        if self.can_forget_keys:
            for space in self._spaces:
                for table in space.tables.values():
                    table.clear()

    def records_passed(self, count: int) -> None:
        """An operator has processed ``count`` records: let expired values go, where the user wants that per record."""
        for state in self._ttl_states.values():
            if state.sweeps_for_every_record:
                state.sweep_after(count)

    def close(self) -> None:
        """Release resources; a state that is all in memory has none."""

    # Restoring ----------------------------------------------------------------------------------------

    def expect(self, metas: Iterable[StateMeta]) -> None:
        """Announce the states that are restored; registering one in another way is refused."""
        self._registry.expect(metas)

    def restore_block(
        self, payload: bytes, accepts: Accepts | None = None, *, is_newest: bool = True
    ) -> None:
        """Put a block of a snapshot into this backend, before the operator is opened.

        ``accepts`` tells which keys belong here; without it all do. ``is_newest``: it is of the newest segment of its
        chain, the only one whose stores count. Timers and entries of stores wait until the operator asks for its
        queue or store.
        """
        match accepted(read_block(payload), accepts):
            case ("put", name, namespaced, keys, values):
                self._restore_entries(TableId(name, namespaced), keys, values)
            case ("remove", name, namespaced, keys):
                self._remove_entries(TableId(name, namespaced), keys)
            case ("extend" | "remove_entries" | "truncate" as kind, name, namespaced, keys, pieces):
                self._restore_pieces(TableId(name, namespaced), kind, keys, pieces)
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

    def _restore_pieces(self, table_id: TableId, kind: str, keys: list[Any], pieces: list[Any]) -> None:
        self._restored.add(table_id)
        apply_pieces(self._space(table_id).table(table_id.name), kind, keys, pieces)

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
            self._unregistered_timers.add(timers_id)
        return self._queue(timers_id)

    def _restore_store(self, name: str, keys: list[Any], values: list[Any], extra: Any) -> None:
        if name in self._stores:
            self._stores[name].restore(keys, values, extra)
        else:
            self._waiting.add(name, (keys, values, extra))

    def pop_restored_table(self, name: str, namespaced: bool) -> Iterator[tuple[Any, Any]]:
        """The entries of a restored table that this operator keeps in another way; the table loses them."""
        space = self._pairs if namespaced else self._keys
        entries = list(space.tables.get(name, {}).items())
        self._drop(TableId(name, namespaced))
        return iter(entries)

    def pop_restored_timers(self, name: str, namespaced: bool) -> list[tuple[int, Any]]:
        """Restored timers that this operator keeps in another way."""
        timers_id = TableId(name, namespaced)
        if timers_id not in self._unregistered_timers:
            return []
        self._unregistered_timers.remove(timers_id)
        return list(self._timers.pop(timers_id).entries())

    def pop_restored_entries(self, name: str) -> list[tuple[list[Any], list[Any], Any]]:
        """What was restored for a store, for an operator that keeps it in another way."""
        self._registry.drop(TableId(name, False))
        return self._waiting.pop(name)

    def metas(self) -> tuple[StateMeta, ...]:
        """What a manifest says of the states."""
        return self._registry.metas()

    def unregistered(self) -> list[str]:
        """Names of restored states that the program has not registered; to be looked at after it was opened.

        Those of windows and triggers are not among them, because these ask when they need them, nor those of
        functions that did so when the state was saved.
        """
        filled = [
            i
            for i in self._restored
            if not self._registry.is_registered(i) and self._space(i).has_entries(i.name)
        ]
        tables = [*self._registry.unregistered(), *filled]
        names = [i.name for i in tables if is_internal(i.name) or not self._may_register_late(i)]
        timers = [
            i.name for i in self._timers if i in self._unregistered_timers and any(self._timers[i].entries())
        ]
        return list(dict.fromkeys([*names, *timers, *self._waiting.names()]))

    def _may_register_late(self, table_id: TableId) -> bool:
        return table_id.namespaced or self.registers_late or self._registry.may_register_late(table_id)

    def opened(self) -> None:
        """The operator was opened; what it registers from now on may be registered late in the next run, too."""
        self._registry.is_open = True

    def drop_unregistered(self) -> None:
        """Forget what `unregistered` lists."""
        for name in self.unregistered():
            for space in self._spaces:
                if not self._registry.is_registered(TableId(name, space.namespaced)):
                    self._drop(TableId(name, space.namespaced))
                self._drop_timers(TableId(name, space.namespaced))
            self._waiting.pop(name)

    def _drop_timers(self, timers_id: TableId) -> None:
        if timers_id in self._unregistered_timers:
            self._unregistered_timers.remove(timers_id)
            del self._timers[timers_id]

    def _drop(self, table_id: TableId) -> None:
        self._registry.drop(table_id)
        self._restored.discard(table_id)
        self._space(table_id).drop(table_id.name)

    def _space(self, table_id: TableId) -> KeySpace:
        return self._pairs if table_id.namespaced else self._keys

    @override
    def _has_pieces(self, table_id: TableId) -> bool:
        return self._registry.base_kind(table_id) in ("list", "map")

    @override
    def _expiry_filter(self, table_id: TableId) -> Keep | None:
        """Leaves expired values out of full snapshots, where the user wants that."""
        state = self._ttl_states.get(table_id)
        return state.expiry_filter() if state is not None and state.cleans_full_snapshots else None

    # State per key ------------------------------------------------------------------------------------

    @override
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """A single value per key."""
        state: HeapValueState = self._state(state_descriptor, self, False)
        return state

    @override
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        state: HeapListState = self._state(state_descriptor, self, False)
        return state

    @override
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        state: HeapMapState = self._state(state_descriptor, self, False)
        return state

    @override
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value per key into which a reduce function combines what is added."""
        state: HeapReducingState = self._state(state_descriptor, self, False)
        return state

    @override
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An accumulator per key into which an aggregate function adds."""
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
            if self.on_queryable is not None and descriptor.is_queryable() and not namespaced:
                self.on_queryable(descriptor)
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
        encode_key = map_key_encoding(descriptor)
        if encode_key is not None:
            self._space(table_id).key_encoders[table_id.name] = encode_key
        if descriptor.get_ttl_config() is None:
            return self._plain_state(descriptor, keys, table, table_id)
        state = self._ttl_state(descriptor, keys, table, table_id)
        if state.sweep is not None:
            state.sweep.announce = self._sweeper(self._space(table_id))
        self._ttl_states[table_id] = state
        return state

    def _plain_state(
        self, descriptor: StateDescriptor, keys: KeyContext, table: Table, table_id: TableId
    ) -> HeapState:
        return _KINDS[type(descriptor)](keys, table, descriptor)

    def _ttl_state(
        self, descriptor: StateDescriptor, keys: KeyContext, table: Table, table_id: TableId
    ) -> TtlState:
        return TTL_KINDS[type(descriptor)](keys, table, descriptor, self._clock)

    def _adopt(self, descriptor: StateDescriptor, table_id: TableId) -> None:
        """Give a state what was restored for it, in the form that the program wants now."""
        restored = self._registry.register(descriptor, table_id)
        if restored is None:
            return
        old_id, old = restored
        declared = self._registry.meta(table_id)
        operator = self._registry.operator
        migrates = needs_migration(operator, old, declared, descriptor)
        convert = conversion(operator, descriptor, old, migrates, to_millis(self._clock()))
        if (old_id != table_id or convert is not None) and self._notes_changes:
            self._announce_all(old_id)  # the first checkpoint may be long over when a window function asks
        if old_id != table_id:
            self._rename(old_id, table_id.name)
        if convert is not None:
            self._convert(table_id, convert)

    def _announce_all(self, table_id: TableId) -> None:
        """Announce that all entries of a table change, or go."""
        space = self._space(table_id)
        space.announce(list(space.table(table_id.name)))

    def _rename(self, table_id: TableId, name: str) -> None:
        space = self._space(table_id)
        space.rename(table_id.name, name)
        self._restored.discard(table_id)
        if self._notes_changes:
            space.table(table_id.name)  # empty, so that the next delta removes what is under the old name

    def _convert(self, table_id: TableId, convert: Callable[[Any], Any]) -> None:
        table = self._space(table_id).table(table_id.name)
        for key, stored in table.items():
            table[key] = convert(stored)
