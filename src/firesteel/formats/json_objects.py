"""JSON as dicts and lists, or as objects of a class: dataclass, TypedDict, named tuple, msgspec struct, Row type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, TypeMismatchError
from firesteel.common.serialization import DeserializationSchema
from firesteel.common.time import Instant
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation
from firesteel.common.types import Row
from firesteel.formats.class_decoders import json_decoder
from firesteel.formats.dataclass_defaults import filler
from firesteel.formats.json_errors import json_error
from firesteel.formats.json_rows import JsonRowCodec
from firesteel.formats.schema_base import EncodesBatches
from firesteel.formats.text_values import instant_text

__all__ = ["JsonSchema", "to_plain"]


class JsonSchema(EncodesBatches, DeserializationSchema):
    """Messages of JSON, both ways.

    Without a class records are dicts, lists, texts and numbers. With one, messages are checked against its annotations, and records are its
    objects: a dataclass, ``TypedDict``, ``NamedTuple`` or ``msgspec.Struct``, or anything else that msgspec knows
    (``list[int]``). ``Types.ROW_NAMED(...)`` gives rows. Fields that the class does not have are passed over, missing ones
    need a default.

    ``strict=False`` takes ``"5"`` for a number, and the like.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Click:
    ...     user: str
    ...     ms: int = 0
    >>> schema = JsonSchema(Click)
    >>> schema.deserialize(b'{"user": "ada"}'), schema.serialize(Click("alan", 3))
    (Click(user='ada', ms=0), b'{"user":"alan","ms":3}')
    >>> JsonSchema().deserialize(b"[1, 2]")
    [1, 2]
    """

    gives_away = True

    def __init__(self, type: Any = None, *, strict: bool = True) -> None:
        if isinstance(type, TypeInformation) and not isinstance(type, RowTypeInfo):
            raise InvalidArgumentError(
                f"JsonSchema takes a class or a row type such as Types.ROW_NAMED([...], [...]), got {type!r}"
            )
        self._type = type
        self._strict = strict
        self._compiled = self._compile()  # what is wrong with the class shows at once

    @override
    def _compile(self) -> Any:
        if isinstance(self._type, RowTypeInfo):
            return JsonRowCodec(self._type)
        try:
            return _ObjectCodec(self._type, self._strict)
        except (TypeError, NameError) as error:
            raise InvalidArgumentError(
                f"JsonSchema cannot read the class {_name(self._type)}: {error}; its fields need types that JSON can have"
            ) from error

    @override
    def deserialize(self, message: bytes) -> Any:
        return self._codec.decode(message)

    @override
    def deserialize_batch(self, messages: list[bytes]) -> list[Any]:
        """Deserialize many messages at a time."""
        records: list[Any] | None = self._codec.decode_all(messages)
        return super().deserialize_batch(messages) if records is None else records

    @override
    def get_produced_type(self) -> TypeInformation:
        """Return the row type, if it has one."""
        return self._type if isinstance(self._type, RowTypeInfo) else super().get_produced_type()

    @override
    def __repr__(self) -> str:
        return f"JsonSchema({'' if self._type is None else _name(self._type)})"


class _ObjectCodec:
    """Decoder and encoder of msgspec, with its errors in our words."""

    def __init__(self, kind: Any, strict: bool) -> None:
        self._format = "JSON" if kind is None else f"JSON of {_name(kind)}"
        is_tuple = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
        wanted = Any if kind is None else _struct_of(kind) if is_tuple else kind
        self._decoder = json_decoder(wanted, strict)
        self._finish: Callable[[Any], Any] | None = _tuple_maker(kind) if is_tuple else None
        self._fill = None if kind is None else filler(kind)
        self._encoder = msgspec.json.Encoder(enc_hook=to_plain)
        self._kind = kind
        self._accepted = _accepted(kind)
        self._is_tuple = is_tuple

    def decode(self, message: bytes | str) -> Any:
        if message is None:
            return None
        try:
            value = self._decoder.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise json_error(message, error, self._format) from None
        if self._fill is not None:
            self._fill(value)
        return value if self._finish is None else self._finish(value)

    def decode_all(self, messages: list[bytes]) -> list[Any] | None:
        """All of them, or None when one of them does not fit."""
        try:
            values = list(map(self._decoder.decode, messages))
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            return None
        if self._fill is not None:
            self._fill(values)
        return values if self._finish is None else list(map(self._finish, values))

    def encode_all(self, elements: list[Any]) -> list[bytes]:
        accepted = self._accepted
        if accepted is not None and not all(issubclass(kind, accepted) for kind in set(map(type, elements))):
            index = next(i for i, element in enumerate(elements) if not isinstance(element, accepted))
            raise TypeMismatchError(_name(self._kind), elements[index], index=index)
        if self._is_tuple:
            elements = [element._asdict() for element in elements]
        try:
            return list(map(self._encoder.encode, elements))
        except (TypeError, ValueError, OverflowError):
            return [self._encode(index, element) for index, element in enumerate(elements)]

    def _encode(self, index: int, element: Any) -> bytes:
        try:
            return self._encoder.encode(element)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeMismatchError("what JSON can have", element, index=index, hint=str(error)) from None


def to_plain(value: Any) -> Any:
    """What stands in JSON for a value that msgspec does not know: rows, numbers and arrays of numpy, instants."""
    if isinstance(value, Row):
        return value.as_dict() if value._fields is not None else list(value)
    if isinstance(value, Instant):
        return instant_text(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} objects have no form in JSON")


def _struct_of(kind: Any) -> type[msgspec.Struct]:
    """A named tuple is an object of its fields in JSON, though msgspec makes it an array."""
    hints = get_type_hints(kind, include_extras=True)
    defaults = kind._field_defaults
    fields: list[Any] = [
        (f"f{index}", hints.get(name, Any), *((defaults[name],) if name in defaults else ()))
        for index, name in enumerate(kind._fields)
    ]
    names = {f"f{index}": name for index, name in enumerate(kind._fields)}
    return msgspec.defstruct(kind.__name__, fields, rename=names)


def _tuple_maker(kind: Any) -> Callable[[Any], Any]:
    make, fields = kind._make, msgspec.structs.astuple
    return lambda record: make(fields(record))


def _accepted(kind: Any) -> type | None:
    """The class whose objects are written; None when that cannot be told by a class."""
    if not isinstance(kind, type) or getattr(kind, "__origin__", None) is not None:
        return None
    if getattr(kind, "__total__", None) is not None and issubclass(kind, dict):
        return dict  # a TypedDict
    is_own = dataclasses.is_dataclass(kind) or issubclass(kind, tuple | msgspec.Struct)
    return kind if is_own else None


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
