"""Messages about changes of tables, as Debezium, Canal and Maxwell write them, and the rows that they stand for.

A message gives one row for an insert or a delete, and two for an update: the row before it and the one after it. The kind
of each row says what it is: +I, -U, +U, -D.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any

import msgspec

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, TypeMismatchError, WrongArgumentError, short_repr
from firesteel.common.serialization import DeserializationSchema, SerializationSchema
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation
from firesteel.common.types import Row, RowKind
from firesteel.formats.json_errors import json_error
from firesteel.formats.json_lenient import LenientRows
from firesteel.formats.json_objects import to_plain
from firesteel.formats.json_row_writer import RowWriter
from firesteel.formats.schema_base import LazyCodec

__all__ = ["CanalJsonSchema", "DebeziumJsonSchema", "MaxwellJsonSchema"]

Change = tuple[RowKind, Any, str]
_OLD = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


class _ChangeSchema(LazyCodec, SerializationSchema, DeserializationSchema):
    """What the three have in common."""

    gives_away = True

    gives_many = True
    _format = ""

    def __init__(self, row_type: TypeInformation | None = None) -> None:
        if row_type is not None and not isinstance(row_type, RowTypeInfo):
            raise WrongArgumentError(
                f"{type(self).__name__} takes a row type such as Types.ROW_NAMED([...], [...]), or none; got {row_type!r}"
            )
        self._row_type = row_type
        self._compiled = self._compile()

    @override
    def _compile(self) -> tuple[LenientRows | None, RowWriter | None, Any]:
        if self._row_type is None:
            return None, None, msgspec.json.Encoder(enc_hook=to_plain)
        return LenientRows(self._row_type, False, None), RowWriter(self._row_type), None

    @override
    def deserialize(self, message: bytes) -> list[Row] | None:
        """Return the rows of a change; None for a message without content, such as a tombstone of Kafka."""
        if not message:
            return None
        rows = self._codec[0]
        try:
            content = msgspec.json.decode(message) if rows is None else rows.parse(message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise json_error(message, error, self._format) from None
        if content is None:
            return None
        if not isinstance(content, dict):
            raise self._error(message, f"expected an object, got {short_repr(content)}")
        return [self._row(message, *change) for change in self._changes(message, content)]

    def _row(self, message: bytes, kind: RowKind, part: Any, path: str) -> Row:
        if not isinstance(part, dict):
            raise self._error(message, f"expected the fields of a row, got {short_repr(part)}", path)
        rows = self._codec[0]
        row = Row._make(part.values(), tuple(part)) if rows is None else rows.convert(message, part, path)
        row.set_row_kind(kind)
        return row

    @abc.abstractmethod
    def _changes(self, message: bytes, content: dict[str, Any]) -> Iterator[Change]:
        """What has changed: the kind, the fields, and where they stand in the message."""

    def _error(self, message: bytes, reason: str, path: str = "") -> DeserializationError:
        return DeserializationError(message, reason, format=self._format, path=path)

    @override
    def serialize(self, value: Any) -> bytes:
        """Return the message of one row; as in Flink, an update is a delete of the old row and an insert of the new one."""
        if not isinstance(value, Row):
            raise TypeMismatchError("a Row, whose kind says what has changed", value)
        _, writer, encoder = self._codec
        row: bytes = encoder.encode(value) if writer is None else writer.encode_all([value])[0]
        return self._message(row, value.get_row_kind() in _OLD)

    @abc.abstractmethod
    def _message(self, row: bytes, is_old: bool) -> bytes:
        """The message about a row that is gone, or that is new."""

    @override
    def get_produced_type(self) -> TypeInformation:
        """Return the row type, if it has one."""
        return super().get_produced_type() if self._row_type is None else self._row_type


class DebeziumJsonSchema(_ChangeSchema):
    """Changes as Debezium writes them, with or without the schema that Kafka Connect puts around them.

    >>> schema = DebeziumJsonSchema()
    >>> for row in schema.deserialize(b'{"op": "u", "before": {"id": 1, "n": 2}, "after": {"id": 1, "n": 3}}'):
    ...     print(row.get_row_kind(), row)
    -U Row(id=1, n=2)
    +U Row(id=1, n=3)
    """

    _format = "change of Debezium"

    @override
    def _changes(self, message: bytes, content: dict[str, Any]) -> Iterator[Change]:
        if "payload" in content and "op" not in content:
            content = content["payload"]
            if content is None:
                return
        match content.get("op"):
            case "c" | "r":
                yield RowKind.INSERT, content.get("after"), "after"
            case "d":
                yield RowKind.DELETE, self._before(message, content, "delete"), "before"
            case "u":
                yield RowKind.UPDATE_BEFORE, self._before(message, content, "update"), "before"
                yield RowKind.UPDATE_AFTER, content.get("after"), "after"
            case other:
                raise self._error(message, f"expected one of c, r, u and d, got {other!r}", "op")

    def _before(self, message: bytes, content: dict[str, Any], what: str) -> Any:
        if content.get("before") is None:
            reason = f"the {what} does not have the row from before it; for PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL"
            raise self._error(message, reason, "before")
        return content["before"]

    @override
    def _message(self, row: bytes, is_old: bool) -> bytes:
        if is_old:
            return b'{"before":' + row + b',"after":null,"op":"d"}'
        return b'{"before":null,"after":' + row + b',"op":"c"}'


class CanalJsonSchema(_ChangeSchema):
    """Changes as Canal writes them; a message may be about many rows. Changes of the table itself give nothing."""

    _format = "change of Canal"

    @override
    def _changes(self, message: bytes, content: dict[str, Any]) -> Iterator[Change]:
        kind = content.get("type")
        if kind == "CREATE" or content.get("isDdl") is True:
            return
        rows = content.get("data")
        if kind not in ("INSERT", "UPDATE", "DELETE"):
            raise self._error(message, f"expected INSERT, UPDATE, DELETE or CREATE, got {kind!r}", "type")
        if not isinstance(rows, list):
            raise self._error(message, f"expected a list of rows, got {short_repr(rows)}", "data")
        olds = content.get("old") or []
        for index, row in enumerate(rows):
            path = f"data[{index}]"
            if kind != "UPDATE":
                yield RowKind.INSERT if kind == "INSERT" else RowKind.DELETE, row, path
                continue
            if index >= len(olds) or not isinstance(olds[index], dict) or not isinstance(row, dict):
                raise self._error(
                    message, "the update does not have the old values of the row", f"old[{index}]"
                )
            yield RowKind.UPDATE_BEFORE, {**row, **olds[index]}, f"old[{index}]"
            yield RowKind.UPDATE_AFTER, row, path

    @override
    def _message(self, row: bytes, is_old: bool) -> bytes:
        return b'{"data":[' + row + b'],"type":"' + (b"DELETE" if is_old else b"INSERT") + b'"}'


class MaxwellJsonSchema(_ChangeSchema):
    """Changes as Maxwell writes them."""

    _format = "change of Maxwell"

    @override
    def _changes(self, message: bytes, content: dict[str, Any]) -> Iterator[Change]:
        kind, row, old = content.get("type"), content.get("data"), content.get("old")
        match kind:
            case "insert" | "bootstrap-insert":
                yield RowKind.INSERT, row, "data"
            case "delete":
                yield RowKind.DELETE, row, "data"
            case "update":
                if not isinstance(old, dict) or not isinstance(row, dict):
                    raise self._error(message, "the update does not have the old values of the row", "old")
                yield RowKind.UPDATE_BEFORE, {**row, **old}, "old"
                yield RowKind.UPDATE_AFTER, row, "data"
            case "bootstrap-start" | "bootstrap-complete":
                return
            case other:
                raise self._error(message, f"expected insert, update or delete, got {other!r}", "type")

    @override
    def _message(self, row: bytes, is_old: bool) -> bytes:
        return b'{"data":' + row + b',"type":"' + (b"delete" if is_old else b"insert") + b'"}'
