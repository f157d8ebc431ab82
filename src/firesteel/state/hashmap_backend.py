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
        return self._state(descriptor, HeapValueState)

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""
        return self._state(descriptor, HeapListState)

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A dictionary per key."""
        return self._state(descriptor, HeapMapState)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value per key that takes up what is added by a reduce function."""
        return self._state(descriptor, HeapReducingState)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """An accumulator per key that takes up what is added by an aggregate function."""
        return self._state(descriptor, HeapAggregatingState)

    def _state(self, descriptor: StateDescriptor, make: Callable[..., Any]) -> Any:
        name = descriptor.get_name()
        known = self._states.get(name)
        if known is None:
            if descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled():
                raise NotImplementedError(f"state {name!r} asks for a time to live, which does not exist yet")
            known = self._states[name] = (type(descriptor), make(self, self.table(name), descriptor))
        if known[0] is not type(descriptor):
            raise ProgramError(
                f"state {name!r} is declared twice in one function: as {known[0].__name__} and as "
                f"{type(descriptor).__name__}; give each state a name of its own"
            )
        return known[1]
