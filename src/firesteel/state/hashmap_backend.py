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

Timer queues belong to the state, too: an operator hands over each one it has (`add_timers`), and snapshots take
and restore them together with the tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from firesteel.common.errors import ProgramError
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
from firesteel.state.key_context import BEFORE_FIRST_KEY, KeyContext, NamespaceScope
from firesteel.state.keyed_state import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
)
from firesteel.state.state_ttl import TTL_KINDS, TtlState

Table = dict[Any, Any]

_KINDS: dict[type[StateDescriptor], Callable[..., HeapState]] = {
    ValueStateDescriptor: HeapValueState,
    ListStateDescriptor: HeapListState,
    MapStateDescriptor: HeapMapState,
    ReducingStateDescriptor: HeapReducingState,
    AggregatingStateDescriptor: HeapAggregatingState,
}


class TableId(NamedTuple):
    """Which table: the state's name and whether its entries are under ``(key, namespace)``."""

    name: str
    namespaced: bool


class TimerStore(Protocol):
    """A timer queue, as far as a snapshot needs it."""

    def add(self, time: int, entry: Any) -> None:
        """Register a timer."""
        ...

    def entries(self) -> Iterator[tuple[int, Any]]:
        """All timers."""
        ...


class HashMapBackend:
    """All keyed state of one operator's subtask."""

    __slots__ = ("_clock", "_restored_timers", "_states", "_tables", "_timers", "_ttl_states", "current_key")

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.current_key: Any = BEFORE_FIRST_KEY
        self._clock = clock  # the task's, for time to live
        self._tables: dict[TableId, Table] = {}
        self._timers: dict[TableId, TimerStore] = {}
        self._restored_timers: dict[TableId, list[tuple[int, Any]]] = {}
        self._ttl_states: list[TtlState] = []
        self._states: dict[tuple[TableId, int], tuple[type, Any]] = {}

    # Tables -------------------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """The dictionary from key to value behind one state."""
        return self._tables.setdefault(TableId(name, False), {})

    def namespaced_table(self, name: str) -> Table:
        """The dictionary from ``(key, namespace)`` to value behind one state."""
        return self._tables.setdefault(TableId(name, True), {})

    def tables(self) -> Iterator[tuple[TableId, Table]]:
        """All tables, for snapshots."""
        return iter(self._tables.items())

    # Timers and snapshots -----------------------------------------------------------------------------

    def add_timers(self, name: str, timers: TimerStore, namespaced: bool = False) -> None:
        """Make a timer queue part of this state; its entries are keys, or ``(key, namespace)``.

        What was restored under this name before is registered now.
        """
        timers_id = TableId(name, namespaced)
        self._timers[timers_id] = timers
        for time_, entry in self._restored_timers.pop(timers_id, ()):
            timers.add(time_, entry)

    def timers(self) -> Iterator[tuple[TableId, TimerStore]]:
        """All timer queues, for snapshots."""
        return iter(self._timers.items())

    def restore(
        self, tables: Mapping[TableId, Table], timers: Mapping[TableId, list[tuple[int, Any]]]
    ) -> None:
        """Put state and timers of a snapshot into this backend, before or after states are asked for."""
        for table_id, table in tables.items():
            self._tables.setdefault(table_id, {}).update(table)
        for timers_id, entries in timers.items():
            queue = self._timers.get(timers_id)
            if queue is None:
                self._restored_timers.setdefault(timers_id, []).extend(entries)
            else:
                for time_, entry in entries:
                    queue.add(time_, entry)

    def before_full_snapshot(self) -> None:
        """Let expired values go, where the user wants that with full snapshots."""
        for state in self._ttl_states:
            if state.cleans_full_snapshots:
                state.drop_expired()

    def records_passed(self, count: int) -> None:
        """An operator has processed so many records: let expired values go, where the user wants that per record."""
        for state in self._ttl_states:
            if state.sweeps_for_every_record:
                state.sweep_after(count)

    # State per key ------------------------------------------------------------------------------------

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """A single value per key."""
        state: HeapValueState = self._state(descriptor, self, False)
        return state

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""
        state: HeapListState = self._state(descriptor, self, False)
        return state

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A dictionary per key."""
        state: HeapMapState = self._state(descriptor, self, False)
        return state

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value per key that takes up what is added by a reduce function."""
        state: HeapReducingState = self._state(descriptor, self, False)
        return state

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """An accumulator per key that takes up what is added by an aggregate function."""
        state: HeapAggregatingState = self._state(descriptor, self, False)
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
            table = self._tables.get(TableId(name, True))
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
        table = self._tables.setdefault(table_id, {})
        if descriptor.get_ttl_config() is None:
            return _KINDS[type(descriptor)](keys, table, descriptor)
        state = TTL_KINDS[type(descriptor)](keys, table, descriptor, self._clock)
        self._ttl_states.append(state)
        return state
