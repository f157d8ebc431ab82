"""Between a value as users see it and a value as it is stored: with the time of the last access, if it expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from firesteel.common.errors import WrongArgumentError, short_repr
from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.state_registry import INTERNAL, StateKind
from firesteel.state.tracked_state import TableId

__all__ = ["RAW", "Kinds", "bare", "kinds_of", "newest_time", "stored"]

Kinds = Mapping[TableId, StateKind]

#: For what operators keep for themselves: nothing is known of it.
RAW = StateKind(INTERNAL)


def kinds_of(metas: Iterable[StateMeta]) -> Kinds:
    """The kinds of keyed states by table."""
    kinds = [(meta.name, StateKind.parse(meta.kind)) for meta in metas if meta.mode is StateMode.KEYED]
    return {TableId(name, kind.namespaced): kind for name, kind in kinds}


def bare(kind: StateKind, value: Any) -> Any:
    """A stored value as users see it."""
    if not kind.has_ttl:
        return value
    match kind.base:
        case "list":
            return [each for each, _ in value]
        case "map":
            return {key: each for key, (each, _) in value.items()}
    return value[0]


def stored(kind: StateKind, value: Any, time: int) -> Any:
    """A value as it is stored; ``time`` is the last access, in milliseconds."""
    if value is None and kind.base in ("value", "reducing", "list", "map"):
        raise WrongArgumentError(
            f"None cannot be what a {kind} state holds for a key; remove the entry instead"
        )
    match kind.base:
        case "list":
            items = _list(value)
            return [(each, time) for each in items] if kind.has_ttl else items
        case "map":
            pairs = _dict(value)
            return {key: (each, time) for key, each in pairs.items()} if kind.has_ttl else pairs
    return (value, time) if kind.has_ttl else value


def newest_time(kind: StateKind, value: Any) -> int:
    """The last access to a stored value that expires."""
    match kind.base:
        case "list":
            return max((time for _, time in value), default=0)
        case "map":
            return max((time for _, time in value.values()), default=0)
    time: int = value[1]
    return time


def _list(value: Any) -> list[Any]:
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        raise WrongArgumentError(
            f"what a list state holds for a key is a list, got {short_repr(value)} ({type(value).__name__})"
        )
    return list(value)


def _dict(value: Any) -> dict[Any, Any]:
    if not hasattr(value, "keys"):
        raise WrongArgumentError(
            f"what a map state holds for a key is a dict, got {short_repr(value)} ({type(value).__name__})"
        )
    return dict(value)
