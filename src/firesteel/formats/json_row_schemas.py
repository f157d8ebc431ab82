"""PyFlink's schemas for JSON and rows, with their builders."""

from __future__ import annotations

from typing import Any

import msgspec

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, WrongArgumentError
from firesteel.common.serialization import DeserializationSchema
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation, Types
from firesteel.formats.json_rows import JsonRowCodec
from firesteel.formats.schema_base import EncodesBatches, Ignored, LazyCodec

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema", "row_type_argument"]


def row_type_argument(name: str, type_info: Any) -> RowTypeInfo:
    """The argument of a builder, which must be a row type."""
    if not isinstance(type_info, RowTypeInfo):
        raise WrongArgumentError(
            f"{name} needs a row type such as Types.ROW_NAMED(['id'], [Types.INT()]), got {type_info!r}"
        )
    return type_info


class JsonRowDeserializationSchema(LazyCodec, DeserializationSchema):
    """Rows from JSON objects, with Flink's conversions; see `builder`."""

    gives_away = True

    def __init__(self, row_type: RowTypeInfo, fail_on_missing_field: bool, ignore_parse_errors: bool) -> None:
        self._row_type = row_type
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors
        self._compiled = self._compile()

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begin to make one."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Says what is in the messages and what becomes of those that are otherwise."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Rows of this type."""
            self._type_info = row_type_argument("type_info()", type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Rows of the type that a JSON schema describes; its numbers become decimals, as in Flink."""
            if not isinstance(json_schema, str):
                raise WrongArgumentError(f"json_schema() needs a text, got {json_schema!r}")
            self._type_info = row_type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """A field that a message does not have is an error; otherwise it is None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """A field that does not fit is None, and a message that is no JSON gives no row; both are counted."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Make the schema; needs a row type, from `type_info` or `json_schema`."""
            if self._type_info is None:
                raise InvalidArgumentError("call type_info() or json_schema() before build()")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise InvalidArgumentError(
                    "fail_on_missing_field() and ignore_parse_errors() contradict each other: take one of them"
                )
            return JsonRowDeserializationSchema(
                self._type_info, self._fail_on_missing_field, self._ignore_parse_errors
            )

    @override
    def _compile(self) -> tuple[JsonRowCodec, Ignored | None]:
        ignored = Ignored() if self._ignore_parse_errors else None
        return JsonRowCodec(self._row_type, self._fail_on_missing_field, ignored), ignored

    @override
    def deserialize(self, message: bytes) -> Any:
        """Return the row; None for a message that says null, or whose errors are passed over."""
        return self._codec[0].decode(message)

    @override
    def deserialize_batch(self, messages: list[bytes]) -> list[Any]:
        """Deserialize many messages at a time."""
        rows: list[Any] | None = self._codec[0].decode_all(messages)
        return super().deserialize_batch(messages) if rows is None else rows

    @override
    def take_ignored(self) -> int:
        ignored: Ignored | None = self._codec[1]
        return 0 if ignored is None else ignored.take()

    @override
    def get_produced_type(self) -> TypeInformation:
        return self._row_type


class JsonRowSerializationSchema(EncodesBatches):
    """JSON objects from rows, or from tuples, dicts and objects that can stand for one; see `builder`."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._row_type = row_type
        self._compiled = self._compile()

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begin to make one."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Says what the rows are."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Rows of this type."""
            self._type_info = row_type_argument("with_type_info()", type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Make the schema; needs `with_type_info` before."""
            if self._type_info is None:
                raise InvalidArgumentError("call with_type_info() before build()")
            return JsonRowSerializationSchema(self._type_info)

    @override
    def _compile(self) -> JsonRowCodec:
        return JsonRowCodec(self._row_type)


# JSON schemas -------------------------------------------------------------------------------------------

_FORMATS = {"date-time": Types.SQL_TIMESTAMP, "date": Types.SQL_DATE, "time": Types.SQL_TIME}


def row_type_of_json_schema(text: str) -> RowTypeInfo:
    """The row type that Flink makes of a JSON schema.

    >>> row_type_of_json_schema('{"type": "object", "properties": {"n": {"type": "integer"}}}')
    RowTypeInfo(n: BigDecimal)
    """
    try:
        schema = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidArgumentError(f"the JSON schema is no JSON: {error}") from None
    row_type = _type_of(schema, "$")
    if not isinstance(row_type, RowTypeInfo):
        raise InvalidArgumentError(f"the JSON schema must describe an object, and describes {row_type}")
    return row_type


def _type_of(schema: Any, path: str) -> TypeInformation:
    if not isinstance(schema, dict) or "type" not in schema:
        raise InvalidArgumentError(
            f"the JSON schema has no type at {path}; $ref, oneOf, anyOf and allOf are not part of this version"
        )
    kinds = [schema["type"]] if isinstance(schema["type"], str) else [*schema["type"]]
    named = [kind for kind in kinds if kind != "null"]
    if len(named) != 1:
        raise InvalidArgumentError(f"the JSON schema has several types at {path}: {kinds}; name one")
    match named[0]:
        case "object":
            parts = schema.get("properties", {})
            return RowTypeInfo([_type_of(part, f"{path}.{name}") for name, part in parts.items()], [*parts])
        case "array":
            return _array_type(schema.get("items"), path)
        case "string":
            return _text_type(schema)
        case "number" | "integer":
            return Types.BIG_DEC()
        case "boolean":
            return Types.BOOLEAN()
    raise InvalidArgumentError(f"the JSON schema has the unknown type {named[0]!r} at {path}")


def _array_type(items: Any, path: str) -> TypeInformation:
    if isinstance(items, list):
        raise InvalidArgumentError(
            f"the JSON schema has an array with a type for each element at {path}; Flink cannot read those, either: name one "
            "type for all"
        )
    return Types.OBJECT_ARRAY(_type_of(items, f"{path}[]"))


def _text_type(schema: dict[str, Any]) -> TypeInformation:
    if schema.get("contentEncoding") == "base64":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    return _FORMATS.get(schema.get("format", ""), Types.STRING)()
