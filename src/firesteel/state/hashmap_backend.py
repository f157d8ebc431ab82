"""Keyed state that is all in memory."""

from __future__ import annotations

from firesteel.state.keyed_backend import KeyedBackend

__all__ = ["HashMapBackend"]


class HashMapBackend(KeyedBackend):
    """All keyed state of one operator's subtask, as live objects in dictionaries."""
