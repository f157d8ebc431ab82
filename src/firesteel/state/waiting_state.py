"""Restored timers and entries that wait for the operator to ask for its queue or store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firesteel.state.key_space import TableId

__all__ = ["WaitingState"]

Entries = tuple[list[Any], list[Any], Any]


class WaitingState:
    """By the name of the queue or store."""

    def __init__(self) -> None:
        self._timers: dict[TableId, dict[tuple[int, Any], None]] = {}
        self._entries: dict[str, list[Entries]] = {}

    def add_timers(self, timers_id: TableId, timers: Iterable[tuple[int, Any]]) -> None:
        """Timers that were there."""
        self._timers.setdefault(timers_id, {}).update(dict.fromkeys(timers))

    def remove_timers(self, timers_id: TableId, timers: Iterable[tuple[int, Any]]) -> None:
        """Timers that were gone."""
        waiting = self._timers.get(timers_id, {})
        for timer in timers:
            waiting.pop(timer, None)

    def take_timers(self, timers_id: TableId) -> list[tuple[int, Any]]:
        """The timers of a queue, which wait no more."""
        return list(self._timers.pop(timers_id, ()))

    def add_entries(self, name: str, entries: Entries) -> None:
        """Entries of a store."""
        self._entries.setdefault(name, []).append(entries)

    def take_entries(self, name: str) -> list[Entries]:
        """The entries of a store, which wait no more."""
        return self._entries.pop(name, [])

    def names(self) -> list[str]:
        """Queues and stores that nobody has asked for."""
        return [*(timers_id.name for timers_id, found in self._timers.items() if found), *self._entries]

    def drop(self, name: str) -> None:
        """Forget what waits under a name."""
        self._entries.pop(name, None)
        for namespaced in (False, True):
            self._timers.pop(TableId(name, namespaced), None)
