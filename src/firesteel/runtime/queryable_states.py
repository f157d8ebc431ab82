"""The states of a task that others may ask for, and what they hold for a key.

States register themselves when a function asks for them. A query is answered between two batches, so it never sees one that is half
processed; what it gets is JSON, made here, because values need not leave the task in any other form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
)
from firesteel.formats.json_values import writer
from firesteel.plan.messages import QueryableStateRegistered, QueryState, StateAnswered
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.state_registry import StateKind

__all__ = ["TaskQueryableStates"]

#: Larger answers are refused: they would hold up the task, and the driver with it.
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _State:
    backend: KeyedBackend
    name: str
    write: Callable[[Any], Any]


class TaskQueryableStates:
    """Those of one task, by the name that others know them by."""

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}
        self._new: list[QueryableStateRegistered] = []

    def watch(self, backend: KeyedBackend, vertex: int, subtask: int, operator_id: str) -> None:
        """Hear of the states that an operator's functions make queryable."""
        backend.on_queryable = partial(self._register, backend, vertex, subtask, operator_id)

    def _register(
        self, backend: KeyedBackend, vertex: int, subtask: int, operator_id: str, descriptor: StateDescriptor
    ) -> None:
        name = descriptor.get_queryable_state_name()
        assert name is not None
        state = _State(backend, descriptor.get_name(), _writer_of(descriptor))
        self._states.setdefault(name, state)  # a second one of the name is refused by the job master
        kind = StateKind.of(descriptor).base
        declared = descriptor.type_info
        self._new.append(
            QueryableStateRegistered(
                name,
                vertex,
                subtask,
                operator_id,
                descriptor.get_name(),
                kind,
                "" if declared is None else str(declared),
            )
        )

    def take_new(self) -> list[QueryableStateRegistered]:
        """What the job master does not know yet."""
        new, self._new = self._new, []
        return new

    def in_memory(self, name: str) -> bool:
        """Whether a state may be read in any thread while the task itself waits: then it is in memory only."""
        state = self._states.get(name)
        return state is not None and state.backend.is_in_memory

    def answer(self, query: QueryState) -> StateAnswered:
        """What a state holds for a key; whatever goes wrong is the answer, for a query must not harm the task."""
        state = self._states.get(query.name)
        if state is None:
            return StateAnswered(query.question, problem="the task that owns the key does not have the state")
        try:
            held = state.backend.peek(state.name, query.key)
            value = None if held is None else json.dumps(state.write(held), separators=(",", ":")).encode()
        except Exception as error:  # noqa: BLE001 - classes in state and aggregate functions are the user's
            return StateAnswered(query.question, problem=f"{type(error).__name__}: {error}")
        if value is not None and len(value) > MOST_BYTES:
            problem = f"it holds {len(value):,} bytes of JSON, and at most {MOST_BYTES:,} are sent"
            return StateAnswered(query.question, problem=problem)
        return StateAnswered(query.question, value)


def _writer_of(descriptor: StateDescriptor) -> Callable[[Any], Any]:
    """What makes JSON of what a state holds."""
    if isinstance(descriptor, AggregatingStateDescriptor):
        return writer(None)  # its result, of which no type is declared
    if isinstance(descriptor, ListStateDescriptor):
        return partial(_list, writer(descriptor.element_type_info))
    if isinstance(descriptor, MapStateDescriptor):
        return partial(_map, writer(_declared_map(descriptor)))
    return writer(descriptor.type_info)


def _declared_map(descriptor: MapStateDescriptor) -> TypeInformation | None:
    parts = (descriptor.key_type_info, descriptor.value_type_info)
    return None if None in parts else descriptor.type_info


def _list(write: Callable[[Any], Any], held: Any) -> list[Any]:
    return [write(each) for each in held]


def _map(write: Callable[[Any], Any], held: Any) -> Any:
    return write(dict(held.items()))  # a large one is a map of its own kind
