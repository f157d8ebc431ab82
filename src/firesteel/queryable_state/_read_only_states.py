"""What a state held when somebody asked for it: Flink's ``Immutable...State``. It can be read, and not changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from firesteel.common._override import override
from firesteel.common.errors import UnsupportedOperationError
from firesteel.common.typeinfo import TypeInformation
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
from firesteel.formats.json_values import reader

__all__ = [
    "ImmutableAggregatingState",
    "ImmutableListState",
    "ImmutableMapState",
    "ImmutableReducingState",
    "ImmutableValueState",
    "state_of",
]


def _refuse(method: str) -> NoReturn:
    raise UnsupportedOperationError(
        f"{method}: the state of another program can only be read; its own functions change it"
    )


class _Immutable(State):
    @override
    def clear(self) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("clear()")


class ImmutableValueState(_Immutable, ValueState[Any]):
    """One value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @override
    def value(self) -> Any:
        return self._value

    @override
    def update(self, value: Any) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("update()")


class ImmutableReducingState(_Immutable, ReducingState[Any]):
    """What values were reduced to."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @override
    def get(self) -> Any:
        return self._value

    @override
    def add(self, value: Any) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("add()")


class ImmutableAggregatingState(_Immutable, AggregatingState[Any, Any]):
    """What an aggregate function made of the values; the task has called it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @override
    def get(self) -> Any:
        return self._value

    @override
    def add(self, value: Any) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("add()")


class ImmutableListState(_Immutable, ListState[Any]):
    """A list of values."""

    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements

    @override
    def get(self) -> list[Any]:
        return list(self._elements)

    @override
    def add(self, value: Any) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("add()")

    @override
    def add_all(self, values: list[Any]) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("add_all()")

    @override
    def update(self, values: list[Any]) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("update()")


class ImmutableMapState(_Immutable, MapState[Any, Any]):
    """A map."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    @override
    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    @override
    def contains(self, key: Any) -> bool:
        return key in self._entries

    @override
    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self._entries.items())

    @override
    def keys(self) -> Iterable[Any]:
        return list(self._entries)

    @override
    def values(self) -> Iterable[Any]:
        return list(self._entries.values())

    @override
    def is_empty(self) -> bool:
        return not self._entries

    @override
    def put(self, key: Any, value: Any) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("put()")

    @override
    def put_all(self, dict_value: dict[Any, Any]) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("put_all()")

    @override
    def remove(self, key: Any) -> NoReturn:
        """Refuse: it belongs to the job."""
        _refuse("remove()")


_KINDS: dict[type[StateDescriptor], Callable[[Any], State]] = {
    ValueStateDescriptor: ImmutableValueState,
    ListStateDescriptor: ImmutableListState,
    MapStateDescriptor: ImmutableMapState,
    ReducingStateDescriptor: ImmutableReducingState,
    AggregatingStateDescriptor: ImmutableAggregatingState,
}


def state_of(descriptor: StateDescriptor, value: Any) -> State:
    """The state that a descriptor describes, of what came as JSON; raises TypeMismatchError for what does not fit."""
    return _KINDS[type(descriptor)](reader(_type_of(descriptor))(value))


def _type_of(descriptor: StateDescriptor) -> TypeInformation | None:
    # The declared type of an aggregating state is that of its accumulator, and what comes is the result.
    return None if isinstance(descriptor, AggregatingStateDescriptor) else descriptor.type_info
