"""Restored entries that wait for the operator to ask for its store."""

from __future__ import annotations

from typing import Any

__all__ = ["Entries", "WaitingEntries"]

#: Keys, values, and something about all of them.
Entries = tuple[list[Any], list[Any], Any]


class WaitingEntries:
    """By the name of the store."""

    def __init__(self) -> None:
        self._entries: dict[str, list[Entries]] = {}

    def add(self, name: str, entries: Entries) -> None:
        """Let entries of a store wait behind those that wait for it already."""
        self._entries.setdefault(name, []).append(entries)

    def pop(self, name: str) -> list[Entries]:
        """The entries of a store, which wait no more."""
        return self._entries.pop(name, [])

    def names(self) -> list[str]:
        """Stores that nobody has asked for."""
        return list(self._entries)
