"""Old values of a state in the form that the program wants now: converted by the user's function, with or without times.

Values of a state with a time to live are stored with the time of their last access (see `state_ttl`). When the program
has given a state a time to live, or taken it away, old values get a time, or lose it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.contracts.state import StateDescriptor
from firesteel.plan.state_handles import StateMeta
from firesteel.state.state_registry import StateKind

__all__ = ["conversion"]

Convert = Callable[[Any], Any]


def conversion(descriptor: StateDescriptor, found: StateMeta, migrates: bool, now: int) -> Convert | None:
    """From a stored value as it was found to one as it is wanted; None when nothing has to be done."""
    had_ttl = StateKind.parse(found.kind).has_ttl
    has_ttl = descriptor.get_ttl_config() is not None
    migrate = descriptor.get_migration() if migrates else None
    if migrate is None and had_ttl == has_ttl:
        return None
    version = found.version

    def one(stored: Any) -> Any:
        value, time = stored if had_ttl else (stored, now)
        if migrate is not None:
            value = migrate(value, version)
        return (value, time) if has_ttl else value

    match StateKind.parse(found.kind).base:
        case "list":
            return lambda stored: [one(each) for each in stored]
        case "map":
            return lambda stored: {key: one(each) for key, each in stored.items()}
    return one
