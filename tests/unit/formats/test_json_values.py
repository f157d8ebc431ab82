"""Values of declared types as JSON, and back as they were."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common import Instant, Row, Types
from firesteel.common.errors import TypeMismatchError
from firesteel.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation
from firesteel.formats.json_values import reader, writer

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
NAMED = Types.ROW_NAMED(["name", "ages"], [Types.STRING(), Types.LIST(Types.INT())])
TIMES = LocalTimeTypeInfo.TimeType

ROUND_TRIPS: list[tuple[TypeInformation, Any, Any]] = [
    (Types.STRING(), "ä", "ä"),
    (Types.CHAR(), "x", "x"),
    (Types.BOOLEAN(), True, True),
    (Types.BYTE(), -128, -128),
    (Types.LONG(), 2**63 - 1, 2**63 - 1),
    (Types.BIG_INT(), 2**80, 2**80),
    (Types.DOUBLE(), 1.5, 1.5),
    (Types.DOUBLE(), math.inf, "Infinity"),
    (Types.FLOAT(), -math.inf, "-Infinity"),
    (Types.BIG_DEC(), Decimal("1.10"), "1.10"),
    (Types.INSTANT(), Instant(1, 5_000_000), "1970-01-01T00:00:01.005Z"),
    (Types.SQL_DATE(), datetime.date(2026, 1, 31), "2026-01-31"),
    (Types.SQL_TIME(), datetime.time(12, 30, 1), "12:30:01"),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2026, 1, 31, 12), "2026-01-31T12:00:00"),
    (LocalTimeTypeInfo(TIMES.LOCAL_DATE), datetime.date(2026, 1, 31), "2026-01-31"),
    (LocalTimeTypeInfo(TIMES.LOCAL_TIME), datetime.time(1, 2, 3, 4), "01:02:03.000004"),
    (LocalTimeTypeInfo(TIMES.LOCAL_DATE_TIME), datetime.datetime(2026, 1, 31, 1), "2026-01-31T01:00:00"),
    (BYTES, b"\x00\xff", "AP8="),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], [1, 2]),
    (Types.LIST(Types.BIG_DEC()), [Decimal("1"), None], ["1", None]),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), ("a", 1), ["a", 1]),
    (NAMED, Row(name="ada", ages=[1]), {"name": "ada", "ages": [1]}),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}, {"a": 1}),
    (Types.MAP(Types.LONG(), BYTES), {1: b"x"}, [[1, "eA=="]]),
    (ExternalTypeInfo(Types.STRING()), "x", "x"),
    (Types.PICKLED_BYTE_ARRAY(), {"a": [1, None, True, "x", 1.5]}, {"a": [1, None, True, "x", 1.5]}),
]


@pytest.mark.parametrize(("type_info", "value", "shown"), ROUND_TRIPS, ids=lambda each: str(each)[:40])
def test_a_value_comes_back_as_it_was(type_info: TypeInformation, value: Any, shown: Any) -> None:
    written = writer(type_info)(value)
    assert written == shown
    back = reader(type_info)(json.loads(json.dumps(written, allow_nan=False)))
    assert back == value
    assert type(back) is type(value)
    assert reader(type_info)(writer(type_info)(None)) is None


def test_nan_is_no_number_in_json() -> None:
    assert writer(Types.DOUBLE())(math.nan) == writer(None)(math.nan) == "NaN"
    assert math.isnan(reader(Types.DOUBLE())("NaN"))


@given(st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.tuples(st.text(), st.floats(allow_nan=False))))
def test_maps_of_tuples_come_back(value: dict[int, tuple[str, float]]) -> None:
    kind = Types.MAP(Types.INT(), Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    assert reader(kind)(json.loads(json.dumps(writer(kind)(value), allow_nan=False))) == value


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.date


def test_without_a_declared_type_a_value_is_what_it_looks_like() -> None:
    number = uuid.UUID(int=1)
    plain = [
        (1, 2),
        {3},
        Colour.RED,
        Point(1, datetime.date(2026, 1, 31)),
        b"x",
        Decimal("1.0"),
        number,
        Row(1, "a"),
    ]
    assert writer(None)(plain) == [
        [1, 2],
        [3],
        "RED",
        {"x": 1, "at": "2026-01-31"},
        "eA==",
        "1.0",
        str(number),
        [1, "a"],
    ]
    assert writer(None)({1: "one"}) == [[1, "one"]]
    assert json.dumps(writer(None)([np.int64(3), np.float32(0.5)])) == "[3, 0.5]"
    assert writer(None)(Row(a=1)) == {"a": 1}
    with pytest.raises(
        TypeMismatchError, match=r"expected a value that has a form in JSON, got <object.*declare the type"
    ):
        writer(None)([object()])


@pytest.mark.parametrize(
    ("type_info", "shown", "problem"),
    [
        (Types.STRING(), 3, "expected String, got 3"),
        (Types.LONG(), "3", "expected Long, got '3'"),
        (Types.LONG(), True, "expected Long, got True"),
        (Types.LONG(), 1.5, "expected Long, got 1.5"),
        (Types.INT(), 2**31, "expected Integer, got 2147483648"),
        (Types.BOOLEAN(), 1, "expected Boolean, got 1"),
        (Types.DOUBLE(), "x", "expected Double, got 'x'"),
        (Types.CHAR(), "xy", "got 'xy'"),
        (BYTES, "?", "expected bytes in Base64"),
        (Types.SQL_DATE(), "31.1.2026", "expected a date such as 2026-01-31"),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), ["a"], "expected an array of 2"),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), ["a", "b"], "field 1: expected Long, got 'b'"),
        (NAMED, {"nome": "x"}, "expected an object with name, ages"),
        (NAMED, {"name": "x", "ages": [1, "y"]}, "field 'ages': element 1: expected Integer, got 'y'"),
        (Types.MAP(Types.LONG(), Types.LONG()), {"1": 2}, "expected an array of pairs"),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}, "entry 'a': expected Long"),
        (Types.LIST(Types.LONG()), 3, "expected an array, got 3"),
    ],
    ids=str,
)
def test_what_does_not_fit_says_where(type_info: TypeInformation, shown: Any, problem: str) -> None:
    with pytest.raises(TypeMismatchError) as raised:
        reader(type_info)(shown)
    assert problem in str(raised.value)


def test_what_a_state_holds_against_its_declaration_is_refused() -> None:
    with pytest.raises(TypeMismatchError, match="expected Long, got 'x'"):
        writer(Types.LONG())("x")
