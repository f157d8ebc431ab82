"""Objects of dataclasses as their constructors would have made them.

msgspec leaves a field out of an object when the message does not have it and the class has a plain default: the object seems to
have it, but it is the class that does. Written again, or after the default has changed, it would be another object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import msgspec

from firesteel.formats.avro_types import field_names

__all__ = ["filler"]

Fill = Callable[[Any], None]
_GROUPS = (list, tuple, set, frozenset)


def filler(hint: Any) -> Fill | None:
    """What gives objects of a type, and those inside of them, the fields that they lack; None when nothing can be lacking."""
    defaults: dict[type, dict[str, Any]] = {}
    _collect(hint, defaults, set())
    return _filling(defaults) if any(defaults.values()) else None


def _collect(hint: Any, defaults: dict[type, dict[str, Any]], seen: set[Any]) -> None:
    """The dataclasses that a type is made of, with the plain defaults of each."""
    for part in get_args(hint):
        _collect(part, defaults, seen)
    if hint in seen or not isinstance(hint, type) or not field_names(hint):
        return
    seen.add(hint)
    if dataclasses.is_dataclass(hint) and hint.__dictoffset__:
        defaults[hint] = {
            field.name: field.default
            for field in dataclasses.fields(hint)
            if not isinstance(field.default, type(dataclasses.MISSING))
        }
    for part in get_type_hints(hint).values():
        _collect(part, defaults, seen)


def _filling(defaults: dict[type, dict[str, Any]]) -> Fill:
    def fill(value: Any) -> None:
        kind = type(value)
        if kind in defaults:
            own = value.__dict__
            lacking = [name for name in defaults[kind] if name not in own]
            if lacking:
                own.update({name: defaults[kind][name] for name in lacking})
                _reorder(own, [name for name in field_names(kind) if name in own])
            parts: Any = own.values()
        elif kind in _GROUPS or isinstance(value, tuple):
            parts = value
        elif kind is dict:
            parts = value.values()
        elif isinstance(value, msgspec.Struct):
            parts = [getattr(value, name) for name in kind.__struct_fields__]
        else:
            return
        for part in parts:
            fill(part)

    return fill


def _reorder(own: dict[str, Any], names: list[str]) -> None:
    """Fields in the order of the class, as its constructor sets them."""
    for name in names:
        own[name] = own.pop(name)
