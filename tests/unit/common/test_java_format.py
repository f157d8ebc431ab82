from datetime import date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common import Instant, Row, RowKind, Types
from firesteel.common._java_format import java_to_string, print_to_string
from firesteel.common._java_numbers import format_float32, format_float64
from firesteel.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo

PAIR = Types.ROW([Types.STRING(), Types.INT()])
LOCAL = LocalTimeTypeInfo.TimeType


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("a", Types.STRING(), "a"),
        (None, Types.STRING(), "null"),
        (True, Types.BOOLEAN(), "true"),
        (5, Types.LONG(), "5"),
        (1e10, Types.DOUBLE(), "1.0E10"),
        (0.10000000149011612, Types.FLOAT(), "0.1"),
        (Decimal("1.50"), Types.BIG_DEC(), "1.50"),
        (datetime(2018, 3, 11, 3, 0, 0, 123000), Types.SQL_TIMESTAMP(), "2018-03-11 03:00:00.123"),
        (datetime(2018, 3, 11, 3), Types.SQL_TIMESTAMP(), "2018-03-11 03:00:00.0"),
        (date(2018, 3, 11), Types.SQL_DATE(), "2018-03-11"),
        (time(3, 4, 5, 6000), Types.SQL_TIME(), "03:04:05"),
        (Instant(5, 6_000), Types.INSTANT(), "1970-01-01T00:00:05.000006Z"),
        (Instant(-1, 500_000_000), Types.INSTANT(), "1969-12-31T23:59:59.500Z"),
        (datetime(2018, 3, 11, 3), LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), "2018-03-11T03:00"),
        (time(3, 4, 5, 6000), LocalTimeTypeInfo(LOCAL.LOCAL_TIME), "03:04:05.006"),
        (date(2018, 3, 11), LocalTimeTypeInfo(LOCAL.LOCAL_DATE), "2018-03-11"),
        (b"fl\xc8", Types.PRIMITIVE_ARRAY(Types.BYTE()), "[102, 108, -56]"),
        ([1, None], Types.LIST(Types.INT()), "[1, null]"),
        ({"k": 1.0}, Types.MAP(Types.STRING(), Types.DOUBLE()), "{k=1.0}"),
        (("a", 1), Types.TUPLE([Types.STRING(), Types.INT()]), "(a,1)"),
        (Row("a", 1), PAIR, "+I[a, 1]"),
        (Row.of_kind(RowKind.DELETE, "a", None), PAIR, "-D[a, null]"),
        (Row(Row("a", 1)), Types.ROW([PAIR]), "+I[+I[a, 1]]"),
        (Row("a", 1), ExternalTypeInfo(PAIR), "+I[a, 1]"),
        ([1, "a"], Types.PICKLED_BYTE_ARRAY(), "[1, 'a']"),
    ],
)
def test_value_prints_as_in_java(value, kind, text):
    assert java_to_string(value, kind) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (Row("a", 1), PAIR, "+I[a,1]"),
        (Row(None, True), Types.ROW([Types.STRING(), Types.BOOLEAN()]), "+I[None,True]"),
        (Row("a", 1), ExternalTypeInfo(PAIR), "+I[a,1]"),
        (("a", True), Types.TUPLE([Types.STRING(), Types.BOOLEAN()]), "(a,true)"),
        (("a", True), None, "('a', True)"),
        ("a", Types.PICKLED_BYTE_ARRAY(), "a"),
        (1e10, Types.DOUBLE(), "1.0E10"),
    ],
)
def test_print_shows_rows_and_untyped_values_as_python_does(value, kind, text):
    assert print_to_string(value, kind) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-1.5, "-1.5"), (0.001, "0.001"), (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (1.25e-7, "1.25E-7"), (123456789.125, "1.23456789125E8"),
        (1e300, "1.0E300"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_double_prints_as_in_java(number, text):
    assert format_float64(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_can_be_read_back(number):
    assert float(format_float64(number)) == number


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_can_be_read_back_as_32_bits(number):
    (seen,) = Types.FLOAT().batch_converter()([float(format_float32(number))])
    assert seen == number
