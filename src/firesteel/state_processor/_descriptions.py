"""What a reader of saved state hands out: operators, states, entries and timers as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.state_registry import StateKind, is_internal

__all__ = ["OperatorInfo", "StateEntry", "StateInfo", "TimerEntry", "shown_name"]


@dataclass(frozen=True, slots=True)
class StateInfo:
    """One state of an operator.

    ``kind`` is ``value``, ``list``, ``map``, ``reducing`` or ``aggregating``; ``internal`` for what an operator keeps
    for itself. ``per_window``: there is a value for every key and window. ``version`` is that of the descriptor.
    """

    name: str
    mode: StateMode
    kind: str
    type: str = ""
    version: int = 0
    per_window: bool = False
    has_ttl: bool = False
    is_internal: bool = False

    @classmethod
    def of(cls, meta: StateMeta) -> StateInfo:
        """From what a manifest says."""
        kind = StateKind.parse(meta.kind)
        return cls(
            shown_name(meta.name),
            meta.mode,
            kind.base,
            meta.type,
            meta.version,
            kind.namespaced,
            kind.has_ttl,
            is_internal(meta.name),
        )


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator. ``uid`` is None when the program gave it none; ``id`` is always there."""

    id: str
    uid: str | None
    name: str
    parallelism: int
    max_parallelism: int
    states: tuple[StateInfo, ...]


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One value. ``namespace`` is the window it belongs to, if any; ``subtask`` the one that had saved it.

    Elements of list states have no key; those of broadcast states have the key in the map.
    """

    key: Any
    value: Any
    namespace: Any = None
    subtask: int = 0


@dataclass(frozen=True, slots=True)
class TimerEntry:
    """A timer that was registered: ``time`` in milliseconds, ``queue`` such as ``event-time``."""

    key: Any
    time: int
    queue: str
    namespace: Any = None
    subtask: int = 0


def shown_name(name: str) -> str:
    """The name of a state or queue for people: names of an operator's own begin with a character nobody can type."""
    return name.removeprefix("\0")
