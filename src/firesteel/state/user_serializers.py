"""Values that go into checkpoints in the form that a serializer of the user gives them.

Such a value is written as the serializer and the bytes that it made, and becomes the value again when its block is
read. So whoever reads a block needs no descriptor, and old bytes meet the serializer that made them. The name
`value_of_state` is part of the durable format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

from firesteel.common._override import override
from firesteel.common._serialized_type import SerializedTypeInfo
from firesteel.common._type_basics import TypeInformation
from firesteel.common.serializer import TypeSerializer
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor

__all__ = [
    "Encode",
    "encoding",
    "evolution",
    "item_encoding",
    "map_key_encoding",
    "value_of_state",
    "without_fingerprints",
]

#: A serializer that can read values of other versions of itself shows its own version like this in its name.
_FINGERPRINT = re.compile(r"#[0-9a-f]{16}\b")

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

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        stream = BytesIO()
        self.serializer.serialize(self.value, stream)
        return value_of_state, (self.serializer, stream.getvalue())


def encoding(descriptor: StateDescriptor) -> Encode | None:
    """What makes the form for a block of all that a key has in a keyed state; None when it is written as it is."""
    encode_item = item_encoding(descriptor, descriptor.get_ttl_config() is not None)
    if encode_item is None:
        return None
    if isinstance(descriptor, MapStateDescriptor):
        return lambda stored: dict(map(encode_item, stored.items()))
    if isinstance(descriptor, ListStateDescriptor):
        return lambda stored: list(map(encode_item, stored))
    return encode_item


def item_encoding(descriptor: StateDescriptor, has_ttl: bool = False) -> Encode | None:
    """The same for a value, an element of a list, or a pair of key and value of a map."""
    if isinstance(descriptor, ListStateDescriptor):
        return _value_encoding(descriptor.element_type_info, has_ttl)
    if not isinstance(descriptor, MapStateDescriptor):
        return _value_encoding(descriptor.type_info, has_ttl)
    key = _value_encoding(descriptor.key_type_info)
    value = _value_encoding(descriptor.value_type_info, has_ttl)
    if key is None and value is None:
        return None
    encode_key, encode_value = key or _same, value or _same
    return lambda pair: (encode_key(pair[0]), encode_value(pair[1]))


def map_key_encoding(descriptor: StateDescriptor) -> Encode | None:
    """The same for a key of a map; None for other states."""
    return _value_encoding(descriptor.key_type_info) if isinstance(descriptor, MapStateDescriptor) else None


def without_fingerprints(type_text: str) -> str:
    """The text of a type, alike for all versions of a serializer that reads what the others have written.

    >>> without_fingerprints("SerializedTypeInfo<AvroSerializer(Order#0123456789abcdef)>")
    'SerializedTypeInfo<AvroSerializer(Order)>'
    """
    return _FINGERPRINT.sub("", type_text)


def evolution(descriptor: StateDescriptor, saved_type: str) -> Callable[[Any], Any] | None:
    """What brings saved values into the form of today's serializer; None when they have it."""
    if saved_type == str(descriptor.type_info) or without_fingerprints(saved_type) == saved_type:
        return None
    if isinstance(descriptor, ListStateDescriptor):
        type_info = descriptor.element_type_info
    else:
        type_info = getattr(descriptor, "value_type_info", descriptor.type_info)
    return (
        getattr(type_info.serializer, "evolved", None) if isinstance(type_info, SerializedTypeInfo) else None
    )


def _value_encoding(type_info: TypeInformation, has_ttl: bool = False) -> Encode | None:
    if not isinstance(type_info, SerializedTypeInfo):
        return None
    serializer = type_info.serializer
    if has_ttl:
        return lambda stored: (_Written(serializer, stored[0]), stored[1])
    return lambda value: _Written(serializer, value)


def _same(value: Any) -> Any:
    return value
