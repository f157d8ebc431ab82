"""Bytes of Avro records, by fastavro: with a reader's schema beside the writer's, and as objects of a class."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import Any

import msgspec

from firesteel.common.errors import DeserializationError, InvalidArgumentError, TypeMismatchError
from firesteel.formats.avro_types import avro_schema_of, field_names
from firesteel.formats.class_decoders import plain_converter
from firesteel.formats.dataclass_defaults import filler
from firesteel.formats.json_objects import to_plain
from firesteel.formats.schema_base import library

__all__ = ["AvroCodec", "AvroRecordShape", "parsed", "schema_source"]

#: What fastavro gives and takes as it is.
_NATIVE = (bytes, datetime.datetime, datetime.date, datetime.time, Decimal, uuid.UUID)


def _fastavro() -> Any:
    return library("fastavro", "avro", "Avro")


def schema_source(schema: Any) -> Any:
    """A schema as JSON has it: from a text, a dict or list, or something that prints as such a text."""
    if isinstance(schema, dict | list):
        return schema
    try:
        return json.loads(str(schema))
    except json.JSONDecodeError:
        if isinstance(schema, str) and schema.isidentifier():
            return schema  # the name of a primitive type
        raise InvalidArgumentError(f"an Avro schema is a text of JSON or a dict, got {schema!r}") from None


def parsed(source: Any) -> Any:
    """A schema that fastavro can work with."""
    fastavro = _fastavro()
    try:
        return fastavro.parse_schema(source)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as error:
        raise InvalidArgumentError(
            f"not an Avro schema: {type(error).__name__}: {error}: {source!r}"
        ) from None


class AvroRecordShape:
    """Records as objects of a class; without a class they are dicts."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._is_tuple = isinstance(kind, type) and issubclass(kind, tuple)
        self.name = "" if kind is None else f" of {kind.__name__}"
        self._names = [] if kind is None else field_names(kind)
        self._fill = None if kind is None else filler(kind)
        self._convert: Any = None if kind is None else plain_converter(kind)

    def of_record(self, record: Any) -> Any:
        """The object of what fastavro gives."""
        if self.kind is None:
            return record
        plain = [record[name] for name in self._names] if self._is_tuple else record
        instance = self._convert(plain)
        if self._fill is not None:
            self._fill(instance)
        return instance

    def to_record(self, value: Any) -> Any:
        """What fastavro takes; `TypeMismatchError` for a value that is not of the class."""
        if self.kind is None:
            return value
        wanted: Any = self.kind if not issubclass(self.kind, dict) else dict
        if not isinstance(value, wanted):
            raise TypeMismatchError(self.kind.__name__, value)
        plain: Any = value
        if self._is_tuple:
            plain = plain._asdict()
        return msgspec.to_builtins(plain, builtin_types=_NATIVE, enc_hook=to_plain)


class AvroCodec:
    """Records of one reader's schema."""

    def __init__(self, schema: Any, kind: Any = None) -> None:
        if schema is None and kind is None:
            raise InvalidArgumentError("Avro needs a schema, or a class from which one can be made")
        self.source = avro_schema_of(kind) if schema is None else schema_source(schema)
        self.schema = parsed(self.source)
        self.shape = AvroRecordShape(kind)
        self._read = _fastavro().schemaless_reader
        self._write = _fastavro().schemaless_writer
        self._check = _zone_check(self.source)

    def decode(self, message: bytes, start: int = 0, writer: Any = None) -> Any:
        """The record in a message from a byte on; ``writer``: the schema that it was written with, if it is another."""
        stream = BytesIO(message)
        stream.seek(start)
        try:
            record = self._read(stream, self.schema if writer is None else writer, self.schema)
            value = self.shape.of_record(record)
        except Exception as error:  # noqa: BLE001 - whatever broken bytes lead fastavro to
            raise self._explained(message, error, stream.tell()) from None
        if stream.tell() != len(message):
            extra = len(message) - stream.tell()
            raise DeserializationError(
                message, f"{extra} bytes are left over behind the record", format=self._format,
                position=stream.tell(),
            )  # fmt: skip
        return value

    @property
    def _format(self) -> str:
        return f"Avro{self.shape.name}"

    def _explained(self, message: bytes, error: Exception, position: int) -> Exception:
        if isinstance(error, MemoryError):
            return error
        if isinstance(error, msgspec.ValidationError):
            from firesteel.formats.json_errors import json_error

            return json_error(message, error, self._format)
        reason = str(error) or type(error).__name__
        if isinstance(error, EOFError | IndexError):
            reason = "the message ends too early"
        return DeserializationError(message, reason, format=self._format, position=position)

    def encode(self, value: Any, before: bytes = b"") -> bytes:
        """The bytes of a record."""
        record = self.shape.to_record(value)
        if self._check is not None:
            self._check(record)
        stream = BytesIO()
        stream.write(before)
        try:
            self._write(stream, self.schema, record)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            hint = f"{type(error).__name__}: {error}"
            raise TypeMismatchError(f"Avro{self.shape.name}", value, hint=hint) from None
        return stream.getvalue()


# Timestamps without a zone ------------------------------------------------------------------------------

Check = Callable[[Any], None]


def _zone_check(schema: Any) -> Check | None:
    """Refuses datetimes without a zone where a point in time is wanted: it would depend on the machine which one it is."""
    if isinstance(schema, list):
        checks = [check for check in map(_zone_check, schema) if check]
        return None if not checks else lambda value: _check_branches(checks, value)
    if not isinstance(schema, dict):
        return None
    if schema.get("logicalType") in ("timestamp-millis", "timestamp-micros"):
        return _check_zone
    if schema["type"] == "record":
        fields = [(field["name"], _zone_check(field["type"])) for field in schema["fields"]]
        return _check_fields([(name, check) for name, check in fields if check])
    items = _zone_check(schema.get("items")) or _zone_check(schema.get("values"))
    if items is None:
        return _zone_check(schema["type"]) if isinstance(schema["type"], dict | list) else None
    return lambda value: _check_parts(items, value)


def _check_parts(check: Check, value: Any) -> None:
    for part in _parts(value):
        check(part)


def _parts(value: Any) -> list[Any]:
    return (
        list(value.values())
        if isinstance(value, dict)
        else list(value)
        if isinstance(value, list | tuple)
        else []
    )


def _check_branches(checks: list[Check], value: Any) -> None:
    for check in checks:
        check(value)


def _check_fields(fields: list[tuple[str, Check]]) -> Check | None:
    def check_all(record: Any) -> None:
        if isinstance(record, dict):
            for name, check in fields:
                check(record.get(name))

    return check_all if fields else None


def _check_zone(value: Any) -> None:
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        raise TypeMismatchError(
            "a datetime with a time zone", value,
            hint="Avro's timestamps are points in time; give it a tzinfo, or use local-timestamp-micros in a schema of your own",
        )  # fmt: skip
