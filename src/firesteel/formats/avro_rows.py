"""PyFlink's schemas for Avro and rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, TypeMismatchError, UnsupportedOperationError
from firesteel.common.serialization import DeserializationSchema, SerializationSchema
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation, Types
from firesteel.common.types import Row
from firesteel.formats.avro_codec import AvroCodec, schema_source
from firesteel.formats.row_values import row_converter
from firesteel.formats.schema_base import LazyCodec

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"]

_PRIMITIVES: dict[str, Callable[[], TypeInformation]] = {
    "string": Types.STRING,
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "enum": Types.STRING,
}
_LOGICAL: dict[str, Callable[[], TypeInformation]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "decimal": Types.BIG_DEC,
}


class _AvroRows(LazyCodec):
    """What both share: the schema, and the row type that Flink makes of it."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        if record_class is not None:
            raise UnsupportedOperationError(
                f"record_class names a class of Java, {record_class!r}, and there is no Java here; give the schema: "
                "avro_schema_string='{...}'"
            )
        if not isinstance(avro_schema_string, str):
            raise InvalidArgumentError(
                f"avro_schema_string must be an Avro schema as a text of JSON, got {avro_schema_string!r}"
            )
        self._text = avro_schema_string
        self._compiled = self._compile()

    @override
    def _compile(self) -> tuple[AvroCodec, RowTypeInfo, _Shape]:
        source = schema_source(self._text)
        codec = AvroCodec(source)
        shape = _Shapes().of(source)
        if not isinstance(shape.type, RowTypeInfo):
            raise InvalidArgumentError("the Avro schema of rows must be one of a record")
        return codec, shape.type, shape


class AvroRowDeserializationSchema(_AvroRows, DeserializationSchema):
    """Rows from Avro records, of the types that Flink has for the schema's."""

    gives_away = True

    @override
    def deserialize(self, message: bytes) -> Any:
        if message is None:
            return None
        codec, _, shape = self._codec
        return shape.read(codec.decode(message))

    @override
    def get_produced_type(self) -> TypeInformation:
        """Return the row type of the schema."""
        row_type: RowTypeInfo = self._codec[1]
        return row_type


class AvroRowSerializationSchema(_AvroRows, SerializationSchema):
    """Avro records from rows, or from tuples, dicts and objects that can stand for one."""

    @override
    def serialize(self, value: Any) -> bytes:
        return self.serialize_batch([value])[0]

    @override
    def serialize_batch(self, elements: list[Any]) -> list[bytes]:
        codec, row_type, shape = self._codec
        for index, element in enumerate(elements):
            if element is None:
                raise TypeMismatchError("a row", element, index=index)
        convert = row_converter(row_type)
        messages = []
        for index, row in enumerate(convert(elements)):
            try:
                messages.append(codec.encode(shape.write(row)))
            except TypeMismatchError as error:
                raise error.at(None, index) from None
        return messages


class _Shape:
    """A part of a schema: its declared type, and how its values come and go; None: as they are."""

    def __init__(
        self,
        type: TypeInformation,
        read: Callable[[Any], Any] | None = None,
        write: Callable[[Any], Any] | None = None,
    ) -> None:
        self.type = type
        self.read = read or _same
        self.write = write or _same


def _same(value: Any) -> Any:
    return value


class _Shapes:
    """The shapes of a schema's parts; remembers the named ones, which may be mentioned again."""

    def __init__(self) -> None:
        self._named: dict[str, _Shape] = {}

    def of(self, schema: Any) -> _Shape:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._primitive(schema)
        logical = schema.get("logicalType")
        if logical in _LOGICAL:
            return _logical_shape(logical)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind)
        match kind:
            case "record":
                return self._record(schema)
            case "array":
                return self._array(self.of(schema["items"]))
            case "map":
                return self._map(self.of(schema["values"]))
            case "enum" | "fixed":
                self._named[schema["name"]] = self._primitive("bytes" if kind == "fixed" else "enum")
                return self._named[schema["name"]]
        return self._primitive(kind)

    def _primitive(self, name: str) -> _Shape:
        if name in self._named:
            return self._named[name]
        if name in ("bytes", "fixed"):
            return _Shape(Types.PRIMITIVE_ARRAY(Types.BYTE()))
        if name not in _PRIMITIVES:
            raise InvalidArgumentError(
                f"rows have no type for Avro's {name!r}; a record inside of itself has none, either"
            )
        return _Shape(_PRIMITIVES[name]())

    def _union(self, branches: list[Any]) -> _Shape:
        real = [branch for branch in branches if branch != "null"]
        if len(real) != 1:
            return _Shape(Types.PICKLED_BYTE_ARRAY())
        shape = self.of(real[0])
        return _Shape(shape.type, _nullable(shape.read), _nullable(shape.write))

    def _record(self, schema: dict[str, Any]) -> _Shape:
        names = tuple(field["name"] for field in schema["fields"])
        shapes = [self.of(field["type"]) for field in schema["fields"]]

        def read(record: dict[str, Any]) -> Row:
            return Row._make(
                [shape.read(record[name]) for name, shape in zip(names, shapes, strict=True)], names
            )

        def write(row: Row) -> dict[str, Any]:
            return {name: shape.write(part) for name, shape, part in zip(names, shapes, row, strict=True)}

        row_shape = _Shape(RowTypeInfo([shape.type for shape in shapes], list(names)), read, write)
        self._named[schema["name"]] = row_shape
        return row_shape

    @staticmethod
    def _array(element: _Shape) -> _Shape:
        return _Shape(
            Types.OBJECT_ARRAY(element.type),
            lambda value: [element.read(part) for part in value],
            lambda value: [element.write(part) for part in value],
        )

    @staticmethod
    def _map(item: _Shape) -> _Shape:
        return _Shape(
            Types.MAP(Types.STRING(), item.type),
            lambda value: {key: item.read(part) for key, part in value.items()},
            lambda value: {key: item.write(part) for key, part in value.items()},
        )


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _logical_shape(logical: str) -> _Shape:
    declared = _LOGICAL[logical]()
    if not logical.startswith("timestamp"):
        return _Shape(declared)
    # Rows have times without a zone; Flink means UTC.
    return _Shape(
        declared,
        lambda value: value.replace(tzinfo=None),
        lambda value: value.replace(tzinfo=datetime.UTC),
    )
