"""What ``key_by`` is given - functions, positions, field names, nested paths, several of them - as one selector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from firesteel.common.errors import InvalidKeyError
from firesteel.common.typeinfo import ListTypeInfo, MapTypeInfo, TupleTypeInfo, TypeInformation
from firesteel.contracts.functions import KeySelector
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.datastream.fields import getter, resolve
from firesteel.datastream.user_functions import check_callable, refuse_checkpointed, wrong_argument
from firesteel.plan.shipped import Shipped

__all__ = ["Key", "KeyLike", "key_of"]

#: One part of a key, as programs write it.
KeyLike = KeySelector | Callable[[Any], Any] | int | str

_EXPECTED = "a KeySelector, a function of one value, a field position or a field name"


class Key(NamedTuple):
    """A selector, fit to travel, and the type of its keys when it is known."""

    selector: Shipped
    type: TypeInformation | None


class _Part(NamedTuple):
    selector: KeySelector | Callable[[Any], Any]
    type: TypeInformation | None
    position: int | None
    is_field: bool


def key_of(
    parts: Sequence[KeyLike],
    record_type: TypeInformation | None,
    key_type: TypeInformation | None,
    used_by: str = "key_by()",
) -> Key:
    """The selector for all ``parts`` together; several of them make a tuple."""
    if not parts:
        raise wrong_argument(used_by, _EXPECTED, None)
    if key_type is not None and not isinstance(key_type, TypeInformation):
        raise wrong_argument(used_by, "a TypeInformation as its key type", key_type)
    found = [_part(part, record_type, used_by) for part in parts]
    known_type = key_type if key_type is not None else _type_of(found)
    _refuse_unhashable(known_type, used_by)
    shipped = Shipped.of(_selector_of(found), used_by)
    if all(part.is_field for part in found):
        shipped = replace(shipped, description=f"key field {', '.join(map(repr, parts))}")
    return Key(shipped, known_type)


def _part(part: KeyLike, record_type: TypeInformation | None, used_by: str) -> _Part:
    if isinstance(part, bool):
        raise wrong_argument(used_by, _EXPECTED, part)
    if isinstance(part, (int, str)):
        name = f"{used_by.removesuffix('()')}({part!r})"
        steps, field_type = resolve(part, record_type, name)
        position = steps[0] if len(steps) == 1 and isinstance(steps[0], int) else None
        return _Part(getter(steps), field_type, position, True)
    if not callable(part) and not isinstance(part, KeySelector):
        raise wrong_argument(used_by, _EXPECTED, part)
    check_callable(part, used_by, KeySelector)
    refuse_checkpointed(part, used_by, "a key must be the same whenever and wherever it is asked for")
    return _Part(part, None, None, False)


def _type_of(parts: list[_Part]) -> TypeInformation | None:
    types = [part.type for part in parts if part.type is not None]
    if len(types) != len(parts):
        return None
    return types[0] if len(types) == 1 else TupleTypeInfo(types)


def _refuse_unhashable(key_type: TypeInformation | None, used_by: str) -> None:
    if isinstance(key_type, (ListTypeInfo, MapTypeInfo)):
        raise InvalidKeyError(
            f"{used_by}: keys of type {key_type} cannot be compared and hashed; "
            "use single values, or tuples and rows of them"
        )


def _selector_of(parts: list[_Part]) -> KeySelector | Callable[[Any], Any]:
    if len(parts) == 1:
        return parts[0].selector
    positions = [part.position for part in parts if part.position is not None]
    if len(positions) == len(parts):
        return itemgetter(*positions)
    selectors = tuple(part.selector for part in parts)
    plain = [selector for selector in selectors if not isinstance(selector, KeySelector)]
    if len(plain) == len(selectors):
        return partial(_composite, tuple(plain))
    return _CompositeKeySelector(selectors)


def _composite(readers: tuple[Callable[[Any], Any], ...], value: Any) -> tuple[Any, ...]:
    return tuple([read(value) for read in readers])


class _CompositeKeySelector(KeySelector):
    """Several selectors of which some want to be opened."""

    def __init__(self, parts: tuple[KeySelector | Callable[[Any], Any], ...]) -> None:
        self._rich = [part for part in parts if isinstance(part, KeySelector)]
        self._readers = tuple(part.get_key if isinstance(part, KeySelector) else part for part in parts)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open those that want it."""
        for part in self._rich:
            part.open(runtime_context)

    def close(self) -> None:
        """Close those that were opened."""
        for part in self._rich:
            part.close()

    def get_key(self, value: Any) -> tuple[Any, ...]:
        """The keys of all parts."""
        return _composite(self._readers, value)
