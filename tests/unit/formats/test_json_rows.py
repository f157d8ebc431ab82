"""JSON as rows: what Flink's JSON format converts, and what it refuses; compared with PyFlink 2.3 where a case is marked."""

from __future__ import annotations

import datetime
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common import Row, Types
from firesteel.common.errors import (
    DeserializationError,
    InvalidArgumentError,
    TypeMismatchError,
    WrongArgumentError,
)
from firesteel.common.time import Instant
from firesteel.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from firesteel.formats.json_fast_rows import FastRows
from firesteel.formats.json_lenient import LenientRows


def row_of(kind: Any) -> Any:
    return Types.ROW_NAMED(["a"], [kind])


def reading(row_type: Any, how: str = "") -> JsonRowDeserializationSchema:
    builder = JsonRowDeserializationSchema.builder().type_info(row_type)
    if how:
        getattr(builder, how)()
    return pickle.loads(pickle.dumps(builder.build()))  # type: ignore[no-any-return]


REFUSED = object()
NAMED = Types.ROW_NAMED(["b"], [Types.INT()])
#: Declared type, what stands in the message, and what PyFlink 2.3 makes of it.
CASES = [
    (Types.STRING(), '"x"', "x"),
    (Types.STRING(), "1", "1"),
    (Types.STRING(), "1.50", "1.5"),
    (Types.STRING(), "true", "true"),
    (Types.STRING(), "null", None),
    (Types.STRING(), '{"b":1}', '{"b":1}'),
    (Types.STRING(), "[1, 2]", "[1,2]"),
    (Types.INT(), "1", 1),
    (Types.INT(), '"7"', 7),
    (Types.INT(), '" 7 "', 7),
    (Types.INT(), "1.9", 1),
    (Types.INT(), "1e2", 100),
    (Types.INT(), "3000000000", REFUSED),
    (Types.INT(), "true", REFUSED),
    (Types.INT(), '""', REFUSED),
    (Types.INT(), "{}", REFUSED),
    (Types.LONG(), "9223372036854775808", REFUSED),
    (Types.SHORT(), "40000", REFUSED),
    (Types.BYTE(), "300", REFUSED),
    (Types.DOUBLE(), '"0.5"', 0.5),
    (Types.DOUBLE(), "1", 1.0),
    (Types.DOUBLE(), "NaN", REFUSED),
    (Types.DOUBLE(), '"x"', REFUSED),
    (Types.BOOLEAN(), '"TRUE"', True),
    (Types.BOOLEAN(), '"yes"', False),
    (Types.BOOLEAN(), "1", False),
    (Types.BIG_DEC(), "0.1", Decimal("0.1")),
    (Types.BIG_DEC(), '"0.10"', Decimal("0.10")),
    (Types.BIG_DEC(), "12345678901234567890.123", Decimal("12345678901234567890.123")),
    (Types.BIG_DEC(), '"x"', REFUSED),
    (Types.BIG_INT(), "123456789012345678901234567890", 123456789012345678901234567890),
    (Types.BIG_INT(), "1.9", REFUSED),
    (Types.SQL_DATE(), '"2026-01-02"', datetime.date(2026, 1, 2)),
    (Types.SQL_DATE(), '"2026-1-2"', REFUSED),
    (Types.SQL_TIME(), '"10:11:12Z"', datetime.time(10, 11, 12)),
    (Types.SQL_TIME(), '"10:11:12"', REFUSED),
    (Types.SQL_TIME(), '"10:11:12.345Z"', REFUSED),
    (Types.SQL_TIMESTAMP(), '"2026-01-02T10:11:12.123Z"', datetime.datetime(2026, 1, 2, 10, 11, 12, 123000)),
    (Types.SQL_TIMESTAMP(), '"2026-01-02 10:11:12"', REFUSED),
    (Types.SQL_TIMESTAMP(), '"2026-01-02T10:11:12+02:00"', REFUSED),
    (Types.INSTANT(), '"2026-01-02T10:11:12Z"', Instant(1767348672, 0)),
    (Types.CHAR(), '"x"', "x"),
    (Types.CHAR(), '"xy"', REFUSED),
    (Types.LIST(Types.INT()), '[1,"2",null]', [1, 2, None]),
    (Types.LIST(Types.INT()), "3", REFUSED),
    (Types.OBJECT_ARRAY(Types.STRING()), '["x",1,null]', ["x", "1", None]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), "[1,2]", [1, 2]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"AQI="', b"\1\2"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"?"', REFUSED),
    (Types.MAP(Types.STRING(), Types.INT()), '{"x":1,"y":null}', {"x": 1, "y": None}),
    (Types.MAP(Types.INT(), Types.INT()), '{"1":1}', {1: 1}),
    (NAMED, '{"b":1}', Row(b=1)),
    (NAMED, "{}", Row(b=None)),
    (NAMED, "5", REFUSED),
    (Types.TUPLE([Types.INT(), Types.STRING()]), '{"f0":1,"f1":"x"}', (1, "x")),
]


@pytest.mark.parametrize(
    ("kind", "text", "expected"), CASES, ids=lambda case: "refused" if case is REFUSED else str(case)[:30]
)
def test_values_are_converted_as_pyflink_does(kind: Any, text: str, expected: Any) -> None:
    message = f'{{"a":{text}}}'.encode()
    if expected is REFUSED:
        with pytest.raises(DeserializationError):
            reading(row_of(kind)).deserialize(message)
        return
    for schema in (reading(row_of(kind)), reading(row_of(kind), "ignore_parse_errors")):
        (found,) = schema.deserialize_batch([message])
        assert found == Row(a=expected)
        assert type(found[0]) is type(expected)


TWO = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])


@pytest.mark.parametrize(
    ("message", "plain", "strict", "ignoring"),
    [
        (b'{"a":1,"b":"x"}', Row(a=1, b="x"), Row(a=1, b="x"), Row(a=1, b="x")),
        (b'{"a":1}', Row(a=1, b=None), REFUSED, Row(a=1, b=None)),
        (b'{"a":1,"b":null}', Row(a=1, b=None), Row(a=1, b=None), Row(a=1, b=None)),
        (b'{"a":"bad","b":"x"}', REFUSED, REFUSED, Row(a=None, b="x")),
        (b'{"a":1,"a":2,"b":"y"}', Row(a=2, b="y"), Row(a=2, b="y"), Row(a=2, b="y")),
        (b"null", None, None, None),
        *[
            (bad, REFUSED, REFUSED, None)
            for bad in (b"not json", b"[1,2]", b"5", b"", b'{"a":1,}', b'{"b":"\xff"}')
        ],
    ],
)
def test_messages_are_taken_as_pyflink_does(message: bytes, plain: Any, strict: Any, ignoring: Any) -> None:
    for how, expected in (("", plain), ("fail_on_missing_field", strict), ("ignore_parse_errors", ignoring)):
        if expected is REFUSED:
            with pytest.raises(DeserializationError):
                reading(TWO, how).deserialize(message)
        else:
            assert reading(TWO, how).deserialize(message) == expected


def test_what_flink_would_lose_is_an_error_here() -> None:
    for message in (b'{"a":1,"b":"x"} trailing', b'{"a":1}{"a":2}'):
        with pytest.raises(DeserializationError, match="trailing"):
            reading(TWO).deserialize(message)


def test_an_error_names_field_expected_got_and_message() -> None:
    kind = Types.ROW_NAMED(["items"], [Types.LIST(NAMED)])
    with pytest.raises(DeserializationError) as failure:
        reading(kind).deserialize_batch([b'{"items":[]}', b'{"items":[{"b":1},{"b":"x"}]}'])
    error = failure.value
    assert (error.index, error.path) == (1, "items[1].b")
    assert "at items[1].b: expected Integer, got 'x'; the message is b'{\"items\"" in str(error)


def test_long_messages_are_shortened_in_errors() -> None:
    with pytest.raises(DeserializationError) as failure:
        reading(TWO).deserialize(b'{"a":"x","b":"' + b"y" * 10_000 + b'"}')
    assert len(str(failure.value)) < 500
    assert "(10,016 bytes)" in str(failure.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["x", "5", " 5 ", "0.5", "true", "2026-01-02", "10:11:12Z", "2026-01-02T10:11:12.5Z", "AQI="]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
TYPES = st.recursive(
    st.sampled_from([
        Types.STRING(), Types.INT(), Types.BYTE(), Types.LONG(), Types.DOUBLE(), Types.FLOAT(), Types.BOOLEAN(),
        Types.BIG_DEC(), Types.BIG_INT(), Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.CHAR(),
    ]),
    lambda inner: inner.map(Types.LIST) | st.builds(Types.MAP, st.just(Types.STRING()), inner)
    | st.lists(inner, min_size=1, max_size=2).map(lambda kinds: Types.ROW_NAMED(["a", "b"][: len(kinds)], kinds)),
    max_leaves=3,
)  # fmt: skip


@given(kind=TYPES, value=JSON, required=st.booleans())
def test_the_fast_way_gives_what_the_lenient_one_gives(kind: Any, value: Any, required: bool) -> None:
    message = json.dumps({"a": value}).encode()
    fast = FastRows.of(row_of(kind), required)
    assert fast is not None
    found = fast.decode_all([message])
    if found is not None:
        assert found == [LenientRows(row_of(kind), required, None).decode(message)]
        assert repr(found[0]) == repr(LenientRows(row_of(kind), required, None).decode(message))


def writing(row_type: Any) -> JsonRowSerializationSchema:
    schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    return pickle.loads(pickle.dumps(schema))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Types.STRING(), 'é"\n/<', '"é\\"\\n/<"'),
        (Types.INT(), None, "null"),
        (Types.DOUBLE(), 1.0, "1.0"),
        (Types.DOUBLE(), math.nan, '"NaN"'),
        (Types.DOUBLE(), -math.inf, '"-Infinity"'),
        (Types.BIG_DEC(), Decimal("0.10"), "0.10"),
        (Types.BIG_INT(), 10**29, "100000000000000000000000000000"),
        (Types.SQL_DATE(), datetime.date(2026, 1, 2), '"2026-01-02"'),
        (Types.SQL_TIME(), datetime.time(10, 11, 12), '"10:11:12Z"'),
        (
            Types.SQL_TIMESTAMP(),
            datetime.datetime(2026, 1, 2, 10, 11, 12, 120000),
            '"2026-01-02T10:11:12.12Z"',
        ),
        (Types.INSTANT(), Instant(1767348672, 0), '"2026-01-02T10:11:12Z"'),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\1\2", '"AQI="'),
        (Types.OBJECT_ARRAY(Types.STRING()), ["x", None], '["x",null]'),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), {"k": math.nan}, '{"k":"NaN"}'),
        (NAMED, Row(b=1), '{"b":1}'),
        (NAMED, None, "null"),
    ],
)
def test_values_are_written_as_pyflink_writes_them(kind: Any, value: Any, expected: str) -> None:
    assert writing(row_of(kind)).serialize(Row(value)).decode() == f'{{"a":{expected}}}'


def test_whatever_can_stand_for_a_row_is_written_alike() -> None:
    schema = writing(TWO)
    assert set(schema.serialize_batch([Row(1, "x"), (1, "x"), {"b": "x", "a": 1}])) == {b'{"a":1,"b":"x"}'}
    assert schema.serialize_batch([]) == []


def test_rows_that_do_not_fit_are_named() -> None:
    with pytest.raises(TypeMismatchError, match=r"field 'a'.*expected Integer, got 'x'") as failure:
        writing(TWO).serialize_batch([Row(1, "x"), Row("x", "y")])
    assert failure.value.index == 1
    with pytest.raises(TypeMismatchError, match="a row"):
        writing(TWO).serialize(None)


def test_builders_refuse_what_makes_no_sense() -> None:
    builder = JsonRowDeserializationSchema.builder()
    with pytest.raises(InvalidArgumentError, match="type_info"):
        builder.build()
    with pytest.raises(InvalidArgumentError, match="contradict"):
        builder.type_info(TWO).fail_on_missing_field().ignore_parse_errors().build()
    with pytest.raises(WrongArgumentError, match="row type"):
        builder.type_info(Types.INT())
    with pytest.raises(InvalidArgumentError, match="no form for a field"):
        reading(row_of(Types.PICKLED_BYTE_ARRAY()))


def test_a_json_schema_makes_the_row_type_that_flink_makes() -> None:
    schema = {
        "type": "object",
        "properties": {
            "s": {"type": "string"}, "n": {"type": "number"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
            "d": {"type": "string", "format": "date-time"}, "y": {"type": "string", "contentEncoding": "base64"},
            "arr": {"type": "array", "items": {"type": "integer"}}, "o": {"type": ["object", "null"], "properties": {}},
        },
    }  # fmt: skip
    built = JsonRowDeserializationSchema.builder().json_schema(json.dumps(schema)).build()
    assert str(built.get_produced_type()) == (
        "RowTypeInfo(s: String, n: BigDecimal, i: BigDecimal, b: Boolean, d: TimestampTypeInfo, "
        "y: PrimitiveArrayTypeInfo<Byte>, arr: ObjectArrayTypeInfo<BigDecimal>, o: RowTypeInfo())"
    )
    with pytest.raises(InvalidArgumentError, match="several types at"):
        JsonRowDeserializationSchema.builder().json_schema('{"type": ["object", "string"]}')
