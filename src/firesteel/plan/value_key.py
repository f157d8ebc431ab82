"""Stand-ins for keys that Python cannot hash: lists, dicts, sets and what contains them, compared by value.

State finds its entries by hash and equality. A key that has no hash is replaced by a `ValueKey` where it is computed
(`firesteel.plan.keys`), travels through state, timers and snapshots as such, and user code is shown what it stands
for (`shown`).
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import private
from firesteel.common.errors import InvalidKeyError, short_repr
from firesteel.common.types import Row

__all__ = ["ValueKey", "shown"]


class ValueKey:
    """A key that cannot be hashed, by its value.

    >>> ValueKey({"a": [1], "b": 2}) == ValueKey({"b": 2, "a": [1]})
    True
    >>> ValueKey([1]) == ValueKey((1, []))
    False
    """

    __slots__ = ("_hash", "image", "value")

    def __init__(self, value: Any) -> None:
        #: What it stands for. Nobody else must be able to change it.
        self.value = value
        #: The same value made of tuples and frozen sets.
        self.image = _image(value)
        self._hash = hash(self.image)

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is ValueKey and self.image == other.image

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return ValueKey, (self.value,)  # hashes of text differ from process to process

    @override
    def __repr__(self) -> str:
        return repr(self.value)


def shown(key: Any) -> Any:
    """A key as user code sees it, which may do with it what it wants.

    >>> shown(ValueKey([1, 2])), shown("a")
    ([1, 2], 'a')
    """
    return private(key.value if type(key) is ValueKey else key)


def _image(value: Any) -> Any:
    """Something that can be hashed and is equal for equal values of one kind; see `_TAGS` for what that is."""
    try:
        hash(value)
    except TypeError:
        return _image_of_unhashable(value)
    return value


def _image_of_unhashable(value: Any) -> Any:
    tag = next((tag for kind, tag in _TAGS.items() if isinstance(value, kind)), None)
    if tag is not None:
        return tag, *map(_image, value)
    if isinstance(value, dict):
        return "dict", frozenset((key, _image(item)) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return "set", frozenset(value)
    if isinstance(value, bytearray):
        return "bytearray", bytes(value)
    if isinstance(value, Row):
        return "row", value._row_kind.name, *map(_image, value)
    if dataclasses.is_dataclass(value) and type(value).__eq__ is not object.__eq__:
        fields = [getattr(value, field.name) for field in dataclasses.fields(value) if field.compare]
        return type(value).__qualname__, *map(_image, fields)
    raise InvalidKeyError(
        f"{short_repr(value)} cannot be a key: {type(value).__name__} objects cannot be hashed, and what makes two of "
        f"them equal is not known; write @dataclass(frozen=True) above class {type(value).__name__}, or let the key "
        "selector return what identifies it, such as a tuple, list or text"
    )


#: Sequences are equal to others of their kind only: a list is not a tuple.
_TAGS: dict[type, str] = {list: "list", tuple: "tuple", deque: "deque"}
