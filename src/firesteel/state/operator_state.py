"""State that belongs to a subtask rather than to a key: broadcast state, a map that is the same in every subtask.

The broadcast side of a function writes it, the other side gets a view that refuses to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from firesteel.common.errors import ProgramError, UnsupportedOperationError
from firesteel.contracts.state import (
    BroadcastState,
    MapStateDescriptor,
    OperatorStateStore,
    ReadOnlyBroadcastState,
)

__all__ = ["HeapBroadcastState", "OperatorStateBackend", "ReadOnlyView"]


class ReadOnlyView(ReadOnlyBroadcastState[Any, Any]):
    """Broadcast state as the side that is not broadcast sees it."""

    def __init__(self, name: str, table: dict[Any, Any]) -> None:
        self._name = name
        self._table = table

    def get(self, key: Any) -> Any:
        """The value under ``key``, None when there is none."""
        return self._table.get(key)

    def contains(self, key: Any) -> bool:
        """Whether there is a value under ``key``."""
        return key in self._table

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Pairs of key and value; a copy."""
        return list(self._table.items())

    def keys(self) -> Iterable[Any]:
        """The keys; a copy."""
        return list(self._table)

    def values(self) -> Iterable[Any]:
        """The values; a copy."""
        return list(self._table.values())

    def is_empty(self) -> bool:
        """Whether nothing is stored."""
        return not self._table

    def clear(self) -> None:
        """Only the broadcast side may."""
        self._refuse("clear()")

    def put(self, key: Any, value: Any) -> None:
        """Only the broadcast side may."""
        self._refuse("put()")

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Only the broadcast side may."""
        self._refuse("put_all()")

    def remove(self, key: Any) -> None:
        """Only the broadcast side may."""
        self._refuse("remove()")

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse("assignment")

    def __delitem__(self, key: Any) -> None:
        self._refuse("del")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedOperationError(
            f"{what} on broadcast state {self._name!r}: it is read only here, because only what arrives in every "
            "subtask may change it; change it in process_broadcast_element()"
        )


class HeapBroadcastState(ReadOnlyView, BroadcastState[Any, Any]):
    """Broadcast state as the broadcast side sees it."""

    def clear(self) -> None:
        """Forget everything."""
        self._table.clear()

    def put(self, key: Any, value: Any) -> None:
        """Store ``value`` under ``key``."""
        self._table[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Store all pairs of a dict."""
        self._table.update(dict_value)

    def remove(self, key: Any) -> None:
        """Forget the value under ``key``; nothing happens when there is none."""
        self._table.pop(key, None)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)


class OperatorStateBackend(OperatorStateStore):
    """The broadcast states of one operator's subtask: those whose descriptors were given to ``broadcast()``."""

    def __init__(self, descriptors: Iterable[MapStateDescriptor]) -> None:
        self.tables: dict[str, dict[Any, Any]] = {descriptor.get_name(): {} for descriptor in descriptors}
        self._states = {name: HeapBroadcastState(name, table) for name, table in self.tables.items()}
        self._views = {name: ReadOnlyView(name, table) for name, table in self.tables.items()}

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The state, writable."""
        return self._states[self._checked(state_descriptor)]

    def get_read_only_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """The state, read only."""
        return self._views[self._checked(state_descriptor)]

    def _checked(self, descriptor: MapStateDescriptor) -> str:
        name = descriptor.get_name()
        if name not in self.tables:
            raise ProgramError(
                f"there is no broadcast state {name!r}, only {', '.join(map(repr, self.tables))}; "
                "give its descriptor to broadcast() as well"
            )
        return name
