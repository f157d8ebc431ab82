"""Values that go into checkpoints in the form that a serializer of the user gives them.

Such a value is written as the serializer and the bytes that it made, and becomes the value again when its block is
read. So whoever reads a block needs no descriptor, and old bytes meet the serializer that made them. The name
`value_of_state` is part of the durable format.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from firesteel.common.serialized_type import SerializedTypeInfo
from firesteel.common.serializer import TypeSerializer
from firesteel.common.type_basics import TypeInformation
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor

__all__ = ["Encode", "encoding", "item_encoding", "value_of_state"]

Encode = Callable[[Any], Any]


def value_of_state(serializer: TypeSerializer[Any], data: bytes) -> Any:
    """The value of some bytes."""
    return serializer.deserialize(BytesIO(data))


class _Written:
    """Stands for a value in a block."""

    __slots__ = ("serializer", "value")

    def __init__(self, serializer: TypeSerializer[Any], value: Any) -> None:
        self.serializer = serializer
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        stream = BytesIO()
        self.serializer.serialize(self.value, stream)
        return value_of_state, (self.serializer, stream.getvalue())


def encoding(descriptor: StateDescriptor) -> Encode | None:
    """What makes the form for a block of all that a key has in a keyed state; None when it is written as it is."""
    one = item_encoding(descriptor, descriptor.get_ttl_config() is not None)
    if one is None:
        return None
    if isinstance(descriptor, MapStateDescriptor):
        return lambda stored: dict(map(one, stored.items()))
    if isinstance(descriptor, ListStateDescriptor):
        return lambda stored: list(map(one, stored))
    return one


def item_encoding(descriptor: StateDescriptor, has_ttl: bool = False) -> Encode | None:
    """The same for a value, an element of a list, or a pair of key and value of a map."""
    if isinstance(descriptor, ListStateDescriptor):
        return _one(descriptor.element_type_info, has_ttl)
    if not isinstance(descriptor, MapStateDescriptor):
        return _one(descriptor.type_info, has_ttl)
    key, value = _one(descriptor.key_type_info), _one(descriptor.value_type_info, has_ttl)
    if key is None and value is None:
        return None
    encode_key, encode_value = key or _same, value or _same
    return lambda pair: (encode_key(pair[0]), encode_value(pair[1]))


def _one(type_info: TypeInformation, has_ttl: bool = False) -> Encode | None:
    if not isinstance(type_info, SerializedTypeInfo):
        return None
    serializer = type_info.serializer
    if has_ttl:
        return lambda stored: (_Written(serializer, stored[0]), stored[1])
    return lambda value: _Written(serializer, value)


def _same(value: Any) -> Any:
    return value
