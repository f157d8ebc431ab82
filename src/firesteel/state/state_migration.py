"""Old values of a state in the form that the program wants now: converted by the user's function, with or without times.

Values of a state with a time to live are stored with the time of their last access (see `state_ttl`). When the program
has given a state a time to live, or taken it away, old values get a time, or lose it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from firesteel.common.errors import IncompatibleStateError, short_repr
from firesteel.contracts.state import StateDescriptor
from firesteel.plan.state_handles import StateMeta
from firesteel.state.state_registry import StateKind
from firesteel.state.user_serializers import evolution

__all__ = ["conversion", "migration"]

Convert = Callable[[Any], Any]


def migration(operator: str, descriptor: StateDescriptor, version: int) -> Convert | None:
    """The user's function for values of that version, with failures that say whose value it was; None without one."""
    migrate = descriptor.get_migration()
    if migrate is None:
        return None

    def migrate_value(value: Any) -> Any:
        try:
            return migrate(value, version)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            of_operator = f" of operator {operator!r}" if operator else ""
            # Incompatible, and so the end of the job: the next attempt would meet the same value.
            raise IncompatibleStateError(
                f"state {descriptor.get_name()!r}{of_operator} cannot be converted to version "
                f"{descriptor.get_version()}: its migration function got the saved value {short_repr(value)} of "
                f"version {version} and raised {type(error).__name__}: {error} (line {frame.lineno} of "
                f"{frame.filename}); let it handle every value that was saved with that version"
            ) from error

    return migrate_value


def conversion(
    operator: str, descriptor: StateDescriptor, saved: StateMeta, migrates: bool, now: int
) -> Convert | None:
    """From a stored value as it was found to one as it is wanted; None when nothing has to be done."""
    had_ttl = StateKind.parse(saved.kind).has_ttl
    has_ttl = descriptor.get_ttl_config() is not None
    migrate = (
        migration(operator, descriptor, saved.version) if migrates else evolution(descriptor, saved.type)
    )
    if migrate is None and had_ttl == has_ttl:
        return None

    def convert_value(stored: Any) -> Any:
        value, time = stored if had_ttl else (stored, now)
        if migrate is not None:
            value = migrate(value)
        return (value, time) if has_ttl else value

    match StateKind.parse(saved.kind).base:
        case "list":
            return lambda stored: [convert_value(item) for item in stored]
        case "map":
            return lambda stored: {key: convert_value(item) for key, item in stored.items()}
    return convert_value
