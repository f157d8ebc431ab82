"""Avro messages as dicts or objects of a class, with a schema of their own or one of a registry."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, InvalidArgumentError
from firesteel.common.serialization import DeserializationSchema, SerializationSchema
from firesteel.formats.avro_codec import AvroCodec, parsed
from firesteel.formats.schema_base import LazyCodec
from firesteel.formats.schema_registry import (
    HEADER,
    SchemaRegistry,
    SchemaRegistryError,
    read_header,
    write_header,
)

__all__ = ["AvroRecordSchema"]


class AvroRecordSchema(LazyCodec, SerializationSchema, DeserializationSchema):
    r"""One message is one Avro record, both ways.

    ``type`` is the class of the records: dataclass, ``TypedDict``, ``NamedTuple`` or ``msgspec.Struct``; without it they are
    dicts. ``schema`` is an Avro schema; without it one is made from the class. ``writer_schema`` is the one that messages
    were written with, if it is another: fields are matched by Avro's rules.

    With ``registry`` every message begins with the number of its writer's schema, which is asked of the registry. Without
    class and schema records are then what their writer wrote. To write, ``subject`` says under which name the schema stands there (for Kafka
    usually the topic and ``-value``); ``register=False``: it has to be there already.

    >>> schema = AvroRecordSchema(schema='{"type": "record", "name": "Reading", "fields": [{"name": "n", "type": "int"}]}')
    >>> schema.serialize({"n": 3}), schema.deserialize(b"\x06")
    (b'\x06', {'n': 3})
    """

    gives_away = True

    def __init__(
        self,
        type: Any = None,
        *,
        schema: Any = None,
        writer_schema: Any = None,
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        if writer_schema is not None and registry is not None:
            raise InvalidArgumentError(
                "with a registry every message names its writer's schema: leave writer_schema out"
            )
        self._type = type
        self._schema = schema if isinstance(schema, dict | list) or schema is None else str(schema)
        self._writer_schema = writer_schema
        self._registry = registry
        self._subject = subject
        self._register = register
        self._compiled = self._compile()

    @override
    def _compile(self) -> _Local | _Registered:
        known = self._type is not None or self._schema is not None
        codec = AvroCodec(self._schema, self._type) if known or self._registry is None else None
        if self._registry is None:
            assert codec is not None
            return _Local(codec, self._writer_schema)
        return _Registered(codec, self._registry, self._subject, self._register)

    @override
    def deserialize(self, message: bytes) -> Any:
        return None if message is None else self._codec.decode(message)

    @override
    def serialize(self, value: Any) -> bytes:
        encoded: bytes = self._codec.encode(value)
        return encoded


class _Local:
    """Messages of nothing but the record."""

    def __init__(self, codec: AvroCodec, writer_schema: Any) -> None:
        self._codec = codec
        self._writer = None if writer_schema is None else AvroCodec(writer_schema).schema
        self.encode = codec.encode

    def decode(self, message: bytes) -> Any:
        return self._codec.decode(message, 0, self._writer)


class _Registered:
    """Messages that begin with the number of their schema."""

    def __init__(
        self, codec: AvroCodec | None, registry: SchemaRegistry, subject: str | None, register: bool
    ) -> None:
        self._codec = codec
        self._registry = registry
        self._subject = subject
        self._register = register
        self._writers: dict[int, Any] = {}
        self._header: bytes | None = None

    def decode(self, message: bytes) -> Any:
        schema_id = read_header(message)
        if schema_id not in self._writers:
            source = self._source(message, schema_id)
            self._writers[schema_id] = AvroCodec(source) if self._codec is None else parsed(source)
        writer = self._writers[schema_id]
        if self._codec is None:
            return writer.decode(message, HEADER.size)
        return self._codec.decode(message, HEADER.size, writer)

    def _source(self, message: bytes, schema_id: int) -> Any:
        try:
            return self._registry.schema(schema_id)
        except SchemaRegistryError as error:
            if error.code != 404:
                raise
            reason = f"its schema has the number {schema_id}, which {self._registry} does not know"
            raise DeserializationError(message, reason, format="Avro message of a schema registry") from error

    def encode(self, value: Any) -> bytes:
        if self._codec is None or self._subject is None:
            raise InvalidArgumentError(
                "to write Avro with a registry, say what and where: AvroRecordSchema(Order, registry=..., "
                "subject='orders-value')"
            )
        if self._header is None:
            self._header = write_header(
                self._registry.id_of(self._subject, self._codec.source, register=self._register)
            )
        return self._codec.encode(value, self._header)
