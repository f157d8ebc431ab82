"""CSV as rows and as objects; the cases of rows were compared with PyFlink 2.3."""

from __future__ import annotations

import datetime
import pickle
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common import Row, Types
from firesteel.common.errors import DeserializationError, InvalidArgumentError, TypeMismatchError
from firesteel.datastream.formats.csv import (
    CsvRecordSchema,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)

ABC = Types.ROW_NAMED(["a", "b", "c"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
REFUSED = object()


def reading(row_type: Any = ABC, **settings: Any) -> CsvRowDeserializationSchema:
    builder = CsvRowDeserializationSchema.Builder(row_type)
    for name, value in settings.items():
        getattr(builder, name)(value)
    return pickle.loads(pickle.dumps(builder.build()))  # type: ignore[no-any-return]


def abc(*values: Any) -> Row:
    return Row(a=values[0], b=values[1], c=values[2])


@pytest.mark.parametrize(
    ("settings", "line", "expected"),
    [
        ({}, "1,x,2.5", abc(1, "x", 2.5)),
        ({}, "1,x,2.5\n", abc(1, "x", 2.5)),
        ({}, "1,x", REFUSED),
        ({}, "1,x,2.5,9", REFUSED),
        ({}, '1,"x,y",2.5', abc(1, "x,y", 2.5)),
        ({}, '1,"x""y",2.5', abc(1, 'x"y', 2.5)),
        ({}, '1,x"y,2.5', abc(1, 'x"y', 2.5)),
        ({}, '1,"x\ny",2.5', abc(1, "x\ny", 2.5)),
        ({}, '1,"x', REFUSED),
        ({}, "1,,2.5", abc(1, "", 2.5)),
        ({}, ",x,2.5", REFUSED),
        ({}, " 1 , x , 2.5 ", abc(1, " x ", 2.5)),
        ({}, "", REFUSED),
        ({}, "1.5,x,2", REFUSED),
        ({}, "3000000000,x,2", REFUSED),
        ({}, "# c\n1,x,2.5", REFUSED),
        ({"set_allow_comments": True}, "# c\n1,x,2.5", abc(1, "x", 2.5)),
        ({"set_null_literal": "NULL"}, "NULL,NULL,NULL", abc(None, None, None)),
        ({"set_field_delimiter": ";"}, "1;x;2.5", abc(1, "x", 2.5)),
        ({"set_quote_character": "'"}, "1,'x,y',2.5", abc(1, "x,y", 2.5)),
        ({"set_quote_character": "'"}, '1,"x",2.5', abc(1, '"x"', 2.5)),
        ({"set_escape_character": "\\"}, "1,x\\,y,2.5", abc(1, "x,y", 2.5)),
        ({"set_ignore_parse_errors": True}, "1,x", abc(1, "x", None)),
        ({"set_ignore_parse_errors": True}, "x,x,2.5", abc(None, "x", 2.5)),
        ({"set_ignore_parse_errors": True}, "1,x,2.5,9", None),
        ({"set_ignore_parse_errors": True}, '1,"x', None),
    ],
)
def test_lines_are_read_as_pyflink_does(settings: dict[str, Any], line: str, expected: Any) -> None:
    schema = reading(**settings)
    if expected is REFUSED:
        with pytest.raises(DeserializationError):
            schema.deserialize(line.encode())
    else:
        assert schema.deserialize_batch([line.encode()]) == [expected]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Types.BOOLEAN(), "TRUE", True),
        (Types.BOOLEAN(), "1", False),
        (Types.BIG_DEC(), "0.10", Decimal("0.10")),
        (Types.SQL_DATE(), "2026-1-2", datetime.date(2026, 1, 2)),
        (Types.SQL_TIME(), "10:11:12", datetime.time(10, 11, 12)),
        (Types.SQL_TIMESTAMP(), "2026-01-02 10:11:12.5", datetime.datetime(2026, 1, 2, 10, 11, 12, 500000)),
        (Types.OBJECT_ARRAY(Types.INT()), "1;2", [1, 2]),
        (Types.OBJECT_ARRAY(Types.INT()), "", []),
        (Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), "1;2", Row(x=1, y="2")),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "AQI=", b"\1\2"),
    ],
)
def test_fields_are_read_as_pyflink_does(kind: Any, text: str, expected: Any) -> None:
    row_type = Types.ROW_NAMED(["a", "z"], [kind, Types.STRING()])
    assert reading(row_type).deserialize(f"{text},z".encode()) == Row(a=expected, z="z")


def test_two_lines_in_a_message_are_an_error_where_flink_loses_the_second() -> None:
    with pytest.raises(DeserializationError, match="more than one line"):
        reading().deserialize(b"1,x,2.5\n2,y,3.5")


def test_errors_name_the_field() -> None:
    with pytest.raises(
        DeserializationError, match="at a: expected Integer, got 'x'; the message is b'x,y,1'"
    ) as failure:
        reading().deserialize_batch([b"1,x,2", b"x,y,1"])
    assert (failure.value.index, failure.value.path) == (1, "a")
    with pytest.raises(DeserializationError, match=r"not UTF-8 .byte 2."):
        reading().deserialize(b"1,\xff,2")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, "x", 2.5), "1,x,2.5\n"),
        ((1, "x,y", 2.5), '1,"x,y",2.5\n'),
        ((1, 'x"y', 2.5), '1,"x""y",2.5\n'),
        ((1, None, None), "1,,\n"),
        ((1, "", 2.0), "1,,2.0\n"),
        ((1, " x ", 1e20), '1," x ",1.0E20\n'),
        ((1, "é", 1.0), "1,é,1.0\n"),
        ((1, "x;y", 1.0), "1,x;y,1.0\n"),
        ((1, "x\\y", 1.0), '1,"x\\y",1.0\n'),
        ((1, "a" * 30, 1.0), f'1,"{"a" * 30}",1.0\n'),
        ((1, "x:y/z", 0.1), "1,x:y/z,0.1\n"),
        ((1, "+1", 1.0), '1,"+1",1.0\n'),
    ],
)
def test_rows_are_written_as_pyflink_writes_them(values: Any, expected: str) -> None:
    assert CsvRowSerializationSchema.Builder(ABC).build().serialize(Row(*values)).decode() == expected


def test_settings_of_writing() -> None:
    def write(row: Row, *calls: Any) -> bytes:
        builder = CsvRowSerializationSchema.Builder(ABC)
        for name, *arguments in calls:
            getattr(builder, name)(*arguments)
        return builder.build().serialize(row)

    assert write(Row(1, None, 2.5), ("set_null_literal", "NULL")) == b"1,NULL,2.5\n"
    assert write(Row(1, "x", 2.5), ("set_line_delimiter", "")) == b"1,x,2.5"
    assert write(Row(1, "x,y", 2.5), ("disable_quote_character",)) == b"1,x,y,2.5\n"
    assert write(Row(1, "x'y", 2.5), ("set_quote_character", "'")) == b"1,'x''y',2.5\n"
    assert write(Row(1, "x", 2.5), ("set_field_delimiter", ";")) == b"1;x;2.5\n"
    with pytest.raises(InvalidArgumentError, match="one character"):
        write(Row(1, "x", 2.5), ("set_field_delimiter", "ab"))
    with pytest.raises(TypeMismatchError, match="field 'a'"):
        write(Row("x", "x", 2.5))
    with pytest.raises(InvalidArgumentError, match="CSV has no form"):
        CsvRowSerializationSchema.Builder(Types.ROW([Types.MAP(Types.INT(), Types.INT())])).build()


@given(
    rows=st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1),
            st.text(st.characters(exclude_categories=["Cs"])),
            st.floats(allow_nan=False),
        ),
        max_size=3,
    ),
    delimiter=st.sampled_from(",;\t|"),
    escape=st.sampled_from([None, "\\"]),
)
def test_rows_come_back(rows: list[Any], delimiter: str, escape: str | None) -> None:
    write, read = CsvRowSerializationSchema.Builder(ABC), CsvRowDeserializationSchema.Builder(ABC)
    for builder in (write, read):
        builder.set_field_delimiter(delimiter)
        if escape is not None:
            builder.set_escape_character(escape)
    assert read.build().deserialize_batch(write.build().serialize_batch(rows)) == [abc(*row) for row in rows]


@dataclass
class Reading:
    sensor: str
    celsius: float | None
    day: datetime.date


class Pair(NamedTuple):
    x: int
    y: str


def test_lines_become_objects_and_lines_again() -> None:
    schema = pickle.loads(pickle.dumps(CsvRecordSchema(Reading)))
    for reading_, line in [
        (Reading("north", 21.5, datetime.date(2026, 1, 2)), b"north,21.5,2026-01-02"),
        (Reading("a,b", None, datetime.date(2026, 1, 2)), b'"a,b",,2026-01-02'),
    ]:
        assert schema.deserialize(line) == reading_
        assert schema.serialize(reading_) == line
    assert CsvRecordSchema(Pair).deserialize(b"1,x") == Pair(1, "x")
    assert CsvRecordSchema().deserialize(b'1,"x,y"') == ["1", "x,y"]
    assert CsvRecordSchema().serialize(["1", "x,y"]) == b'1,"x,y"'


@pytest.mark.parametrize(
    ("kind", "line", "text"),
    [
        (Reading, b"north,warm,2026-01-02", "at celsius: expected float"),
        (Reading, b"north", "expected 3 fields, got 1"),
        (Pair, b"x,y", "at x: expected int"),
    ],
)
def test_objects_that_do_not_fit_are_named(kind: Any, line: bytes, text: str) -> None:
    with pytest.raises(DeserializationError, match=text):
        CsvRecordSchema(kind).deserialize(line)
