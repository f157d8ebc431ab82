"""Keyed state as live Python objects in dictionaries: one per state name, from key to value.

The current key is set by the operator before it calls user code; the state objects handed to user
functions read it at every access, so an access costs about a dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from firesteel.state.keyed_state import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapValueState,
)


class HashMapBackend:
    """All keyed state of one operator's subtask."""

    __slots__ = ("_states", "_tables", "current_key")

    def __init__(self) -> None:
        self.current_key: Any = None
        self._tables: dict[str, dict[Any, Any]] = {}
        self._states: dict[str, tuple[type, State]] = {}

    def table(self, name: str) -> dict[Any, Any]:
        """The dictionary from key to value behind one state."""
        return self._tables.setdefault(name, {})

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """A single value per key."""
        state: HeapValueState = self._state(descriptor, HeapValueState)
        return state

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""
        state: HeapListState = self._state(descriptor, HeapListState)
        return state

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A dictionary per key."""
        state: HeapMapState = self._state(descriptor, HeapMapState)
        return state

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value per key that takes up what is added by a reduce function."""
        state: HeapReducingState = self._state(descriptor, HeapReducingState)
        return state

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """An accumulator per key that takes up what is added by an aggregate function."""
        state: HeapAggregatingState = self._state(descriptor, HeapAggregatingState)
        return state

    def _state(self, descriptor: StateDescriptor, make: Callable[..., Any]) -> Any:
        name = descriptor.get_name()
        known = self._states.get(name)
        if known is None:
            ttl = descriptor.get_ttl_config()
            if ttl is not None and ttl.is_enabled():
                raise NotImplementedError(f"state {name!r} asks for a time to live, which does not exist yet")
            known = self._states[name] = (type(descriptor), make(self, self.table(name), descriptor))
        if known[0] is not type(descriptor):
            raise ProgramError(
                f"state {name!r} is declared twice in one function: as {known[0].__name__} and as "
                f"{type(descriptor).__name__}; give each state a name of its own"
            )
        return known[1]
