"""State in Avro's form, which a program with another version of the schema can resume from.

Every block of a checkpoint has the schema that its values were written with. When the program's schema is another one,
values are read by Avro's rules for two schemas: added fields get their defaults, removed ones are left out, renamed ones are
found by their aliases, small numbers become larger ones.
"""

from __future__ import annotations

import hashlib
import json
from io import BytesIO
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import FiresteelError, IncompatibleStateError
from firesteel.common.serializer import TypeSerializer
from firesteel.formats.avro_codec import AvroCodec
from firesteel.formats.schema_base import LazyCodec

__all__ = ["AvroSerializer"]

#: The schemas of saved values by their fingerprints; each value that may have to be converted knows its own.
_SCHEMAS: dict[str, Any] = {}


class AvroSerializer(LazyCodec, TypeSerializer[Any]):
    """Values of a state as Avro records: dicts of a ``schema``, or objects of a class, whose schema is made from it.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Total:
    ...     orders: int
    ...     euros: float = 0.0
    >>> str(AvroSerializer(Total)).partition("#")[0]  # what follows stands for the schema
    'AvroSerializer(Total'
    """

    def __init__(self, type: Any = None, *, schema: Any = None) -> None:
        codec = AvroCodec(schema, type)
        self._type = type
        self._source = codec.source
        self._compiled = self._compile()

    @override
    def _compile(self) -> _StateCodec:
        return _StateCodec(self._source, self._type)

    @override
    def serialize(self, element: Any, stream: BytesIO) -> None:
        stream.write(self._codec.encode(element))

    @override
    def deserialize(self, stream: BytesIO) -> Any:
        return self._codec.decode(stream.read())

    def evolved(self, value: Any) -> Any:
        """A saved value in the form of this schema."""
        return self._codec.evolved(value)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSerializer) and repr(self) == repr(other)

    @override
    def __hash__(self) -> int:
        return hash(repr(self))

    @override
    def __repr__(self) -> str:
        return f"AvroSerializer({self._codec.name}#{self._codec.fingerprint})"


class _SavedRecord(dict[str, Any]):
    """A record that has just been read from a checkpoint, and may have been written with another schema."""

    __slots__ = ("fingerprint",)
    fingerprint: str

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _saved, (dict(self), self.fingerprint)


def _saved(record: dict[str, Any], fingerprint: str) -> _SavedRecord:
    saved = _SavedRecord(record)
    saved.fingerprint = fingerprint
    return saved


class _StateCodec:
    """``source`` is the schema that values were written with; a class that has changed since has another one."""

    def __init__(self, source: Any, kind: Any) -> None:
        self._kind = kind
        self._writer = AvroCodec(source, kind)
        self._reader = self._writer if kind is None else _todays(kind, self._writer)
        self.name = source.get("name", source) if isinstance(source, dict) else str(source)
        self.fingerprint = _fingerprint(source)
        _SCHEMAS[self.fingerprint] = source

    def encode(self, value: Any) -> bytes:
        return self._writer.encode(value)

    def decode(self, data: bytes) -> Any:
        if self._kind is not None:
            return _resolved(self._reader, data, self._writer)
        value = self._writer.decode(data)
        return _saved(value, self.fingerprint) if isinstance(value, dict) else value

    def evolved(self, value: Any) -> Any:
        if type(value) is not _SavedRecord:
            return value
        if value.fingerprint == self.fingerprint:
            return dict(value)
        writer = AvroCodec(_SCHEMAS[value.fingerprint])
        return _resolved(self._writer, writer.encode(dict(value)), writer)


def _todays(kind: Any, writer: AvroCodec) -> AvroCodec:
    """The codec of today's class; the writer's own when the class has not changed."""
    today = AvroCodec(None, kind)
    return writer if today.source == writer.source else today


def _resolved(reader: AvroCodec, data: bytes, writer: AvroCodec) -> Any:
    try:
        return reader.decode(data, 0, writer.schema)
    except FiresteelError as error:
        raise IncompatibleStateError(
            f"state that was written with another Avro schema cannot be read with the one of today: {error}; an added field "
            "needs a default, a renamed one an alias"
        ) from error


def _fingerprint(source: Any) -> str:
    return hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:16]
