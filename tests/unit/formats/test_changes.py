"""Messages of Debezium, Canal and Maxwell as rows with their kinds."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from firesteel.common import Row, RowKind, Types
from firesteel.common.errors import DeserializationError, TypeMismatchError, WrongArgumentError
from firesteel.datastream.formats.changes import CanalJsonSchema, DebeziumJsonSchema, MaxwellJsonSchema

TYPE = Types.ROW_NAMED(["id", "n"], [Types.INT(), Types.STRING()])


def kinds_and_rows(schema: Any, message: bytes) -> list[tuple[str, Any]]:
    rows = pickle.loads(pickle.dumps(schema)).deserialize(message)
    return [(str(row.get_row_kind()), tuple(row)) for row in rows or []]


@pytest.mark.parametrize(
    ("schema", "message", "expected"),
    [
        (DebeziumJsonSchema, b'{"op":"c","before":null,"after":{"id":1,"n":"a"}}', [("+I", (1, "a"))]),
        (DebeziumJsonSchema, b'{"op":"r","after":{"id":1,"n":"a"}}', [("+I", (1, "a"))]),
        (
            DebeziumJsonSchema,
            b'{"schema":{},"payload":{"op":"u","before":{"id":1,"n":"a"},"after":{"id":1,"n":"b"}}}',
            [("-U", (1, "a")), ("+U", (1, "b"))],
        ),
        (DebeziumJsonSchema, b'{"op":"d","before":{"id":1,"n":"a"},"after":null}', [("-D", (1, "a"))]),
        (DebeziumJsonSchema, b"", []),
        (DebeziumJsonSchema, b"null", []),
        (DebeziumJsonSchema, b'{"schema":null,"payload":null}', []),
        (
            CanalJsonSchema,
            b'{"type":"INSERT","data":[{"id":"1","n":"a"},{"id":"2","n":"b"}],"old":null}',
            [("+I", (1, "a")), ("+I", (2, "b"))],
        ),
        (
            CanalJsonSchema,
            b'{"type":"UPDATE","data":[{"id":"1","n":"b"}],"old":[{"n":"a"}]}',
            [("-U", (1, "a")), ("+U", (1, "b"))],
        ),
        (CanalJsonSchema, b'{"type":"DELETE","data":[{"id":"1","n":"b"}]}', [("-D", (1, "b"))]),
        (CanalJsonSchema, b'{"type":"CREATE","isDdl":true,"data":null}', []),
        (MaxwellJsonSchema, b'{"type":"insert","data":{"id":1,"n":"a"}}', [("+I", (1, "a"))]),
        (
            MaxwellJsonSchema,
            b'{"type":"update","data":{"id":1,"n":"b"},"old":{"n":"a"}}',
            [("-U", (1, "a")), ("+U", (1, "b"))],
        ),
        (MaxwellJsonSchema, b'{"type":"delete","data":{"id":1,"n":"a"}}', [("-D", (1, "a"))]),
    ],
)
def test_changes_become_rows_of_their_kinds(schema: Any, message: bytes, expected: Any) -> None:
    assert kinds_and_rows(schema(TYPE), message) == expected


def test_without_a_type_rows_have_what_the_message_has() -> None:
    (row,) = DebeziumJsonSchema().deserialize(b'{"op":"c","after":{"id":1,"x":[1.5]}}') or []
    assert row == Row(id=1, x=[1.5])


@pytest.mark.parametrize(
    ("schema", "message", "text"),
    [
        (
            DebeziumJsonSchema,
            b'{"op":"u","after":{"id":1,"n":"b"}}',
            "at before: the update.*REPLICA IDENTITY FULL",
        ),
        (DebeziumJsonSchema, b'{"op":"x"}', "at op: expected one of c, r, u and d, got 'x'"),
        (DebeziumJsonSchema, b'{"op":"c","after":5}', "at after: expected the fields of a row, got 5"),
        (DebeziumJsonSchema, b'{"op":"c","after":{"id":"q"}}', "at after.id: expected Integer, got 'q'"),
        (DebeziumJsonSchema, b"[1]", "expected an object"),
        (DebeziumJsonSchema, b"{", "no valid change of Debezium: the message ends too early"),
        (CanalJsonSchema, b'{"type":"UPDATE","data":[{"id":1}]}', r"at old\[0\]: the update does not have"),
        (CanalJsonSchema, b'{"type":"INSERT","data":{}}', "at data: expected a list of rows"),
        (CanalJsonSchema, b'{"type":"TRUNCATE"}', "got 'TRUNCATE'"),
        (MaxwellJsonSchema, b'{"type":"update","data":{"id":1}}', "at old: "),
        (MaxwellJsonSchema, b"{}", "at type: expected insert, update or delete, got None"),
    ],
)
def test_messages_that_do_not_fit_say_what_and_where(schema: Any, message: bytes, text: str) -> None:
    with pytest.raises(DeserializationError, match=text):
        schema(TYPE).deserialize(message)


@pytest.mark.parametrize("schema", [DebeziumJsonSchema, CanalJsonSchema, MaxwellJsonSchema])
@pytest.mark.parametrize("row_type", [TYPE, None])
def test_rows_come_back_as_inserts_and_deletes(schema: Any, row_type: Any) -> None:
    made = schema(row_type)
    for kind, expected in zip(RowKind, ("+I", "-D", "+I", "-D"), strict=True):
        message = made.serialize(Row.of_kind(kind, id=1, n="a"))
        assert kinds_and_rows(made, message) == [(expected, (1, "a"))]


def test_only_rows_are_changes() -> None:
    with pytest.raises(TypeMismatchError, match="a Row"):
        DebeziumJsonSchema().serialize({"id": 1})
    with pytest.raises(WrongArgumentError, match="row type"):
        DebeziumJsonSchema(Types.INT())
