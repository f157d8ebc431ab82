"""Avro schemas, and what Avro's types are in Arrow; for files only, so that fastavro is asked for when a file needs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, ProgramError, SetupError


def fastavro() -> Any:
    """The library for Avro, which is an extra."""
    try:
        import fastavro
    except ImportError as error:
        raise SetupError("Avro needs the package fastavro: pip install 'firesteel[avro]'") from error
    return fastavro


class AvroSchema:
    """A schema of Avro, checked."""

    def __init__(self, definition: Any) -> None:
        self._definition = definition
        try:
            self.parsed = fastavro().parse_schema(definition)
        except SetupError:
            raise
        except Exception as error:  # fastavro has several kinds, and passes on those of Python
            raise InvalidArgumentError(
                f"not an Avro schema: {error!r}; it is {str(definition)[:200]}"
            ) from error

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Parse a schema in JSON."""
        try:
            return AvroSchema(json.loads(json_schema))
        except json.JSONDecodeError as error:
            raise InvalidArgumentError(f"not an Avro schema, because it is no JSON: {error}") from error

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Parse a file that has a schema in JSON."""
        return AvroSchema.parse_string(Path(file_path).read_text(encoding="utf-8"))

    @override
    def __str__(self) -> str:
        return json.dumps(self._definition)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self._definition == other._definition

    @override
    def __hash__(self) -> int:
        return hash(str(self))

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (self._definition,)


# Arrow ------------------------------------------------------------------------------------------------

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: dict[str, Callable[[dict[str, Any]], pa.DataType]] = {
    "date": lambda schema: pa.date32(),
    "time-millis": lambda schema: pa.time32("ms"),
    "time-micros": lambda schema: pa.time64("us"),
    "timestamp-millis": lambda schema: pa.timestamp("ms", "UTC"),
    "timestamp-micros": lambda schema: pa.timestamp("us", "UTC"),
    "local-timestamp-millis": lambda schema: pa.timestamp("ms"),
    "local-timestamp-micros": lambda schema: pa.timestamp("us"),
    "decimal": lambda schema: pa.decimal128(schema["precision"], schema.get("scale", 0)),
    "uuid": lambda schema: pa.string(),
}


def arrow_schema(schema: AvroSchema) -> pa.Schema:
    """The columns that records of a schema have in a Parquet file."""
    definition = schema._definition
    if not isinstance(definition, dict) or definition.get("type") != "record":
        raise ProgramError(
            f"a Parquet file has records, and the Avro schema must be one of records, got {schema}"
        )
    return pa.schema(list(_Arrow().kind(definition)), {"parquet.avro.schema": str(schema)})


class _Arrow:
    """Translates, and remembers named types."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def kind(self, schema: Any) -> pa.DataType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in _PLAIN:
                return _PLAIN[schema]
            if schema in self._named:
                return self._named[schema]
            raise ProgramError(
                f"Parquet files have no type for Avro's {schema!r}: it is unknown, or contains itself"
            )
        logical = _LOGICAL.get(schema.get("logicalType", ""))
        if logical is not None:
            return logical(schema)
        return self._complex(schema)

    def _complex(self, schema: dict[str, Any]) -> pa.DataType:
        match schema["type"]:
            case "record":
                kind = pa.struct([self._field(field["name"], field["type"]) for field in schema["fields"]])
            case "array":
                return pa.list_(self._field("element", schema["items"]))
            case "map":
                return pa.map_(pa.string(), self._field("value", schema["values"]))
            case "enum":
                kind = pa.string()
            case "fixed":
                kind = pa.binary(schema["size"])
            case inner:
                return self.kind(inner)
        self._named[schema["name"]] = kind
        if "namespace" in schema:
            self._named[f"{schema['namespace']}.{schema['name']}"] = kind
        return kind

    def _field(self, name: str, schema: Any) -> pa.Field:
        nullable = schema == "null" or (isinstance(schema, list) and "null" in schema)
        return pa.field(name, self.kind(schema), nullable)

    def _union(self, schemas: list[Any]) -> pa.DataType:
        others = [each for each in schemas if each != "null"]
        if len(others) == 1:
            return self.kind(others[0])
        raise ProgramError(f"Parquet files have no type for a union of several types: {json.dumps(schemas)}")
