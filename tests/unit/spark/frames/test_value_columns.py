"""Values of state become columns: a type for all of a column, or text."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from firesteel.common.types import Row
from firesteel.contracts.windows import CountWindow, TimeWindow
from firesteel.spark.frames.value_columns import table_of


@dataclass
class Reading:
    sensor: str
    values: list[int]


class Point(NamedTuple):
    x: int
    y: float


class Colour(enum.Enum):
    RED = 1


UTC = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
NAIVE = datetime.datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("values", "converted", "kind"),
    [
        ([1, None], [1, None], "bigint"),
        ([1, 2.5], [1.0, 2.5], "double"),
        ([True], [True], "boolean"),
        ([None], [None], "string"),
        ([2**70], ["1180591620717411303424"], "string"),
        ([b"x"], [bytearray(b"x")], "binary"),
        ([UTC], [UTC], "timestamp"),
        ([NAIVE], [NAIVE], "timestamp_ntz"),
        ([NAIVE.date()], [NAIVE.date()], "date"),
        ([Decimal("1.5"), Decimal("100")], [Decimal("1.5"), Decimal("100")], "decimal(4, 1)"),
        ([Decimal("1E+5")], [Decimal("1E+5")], "decimal(6, 0)"),
        ([Decimal("NaN")], ["Decimal('NaN')"], "string"),
        ([[], [1], [None]], [[], [1], [None]], "array<bigint>"),
        ([{1}], [[1]], "array<bigint>"),
        ([{"a": 1}, {"b": 2.5}], [{"a": 1.0}, {"b": 2.5}], "map<string, double>"),
        ([{1: "x", "1": "y"}], ['{"1": "x", "1": "y"}'], "string"),
        ([{None: 1}], ['{"null": 1}'], "string"),
        ([Reading("a", [1])], [("a", [1])], "struct<`sensor`: string, `values`: array<bigint>>"),
        ([Point(1, 2.0), None], [(1, 2.0), None], "struct<`x`: bigint, `y`: double>"),
        ([(1, "a")], [(1, "a")], "struct<`_1`: bigint, `_2`: string>"),
        ([(1, "a"), (1,)], ['[1, "a"]', "[1]"], "string"),
        ([Row(a=1)], [(1,)], "struct<`a`: bigint>"),
        ([Row(1)], [(1,)], "struct<`_1`: bigint>"),
        ([Row(a=1, A=2)], ["Row(a=1, A=2)"], "string"),
        ([TimeWindow(0, 5)], [(0, 5)], "struct<`start`: bigint, `end`: bigint>"),
        ([CountWindow(7)], [repr(CountWindow(7))], "string"),
        ([Colour.RED], ["RED"], "string"),
        ([1, "a"], ["1", "a"], "string"),
        ([[1], ["a"]], [["1"], ["a"]], "array<string>"),
        ([()], ["[]"], "string"),
    ],
)
def test_a_column_gets_a_type_that_fits_all(values: list[Any], converted: list[Any], kind: str) -> None:
    data, schema = table_of([(value,) for value in values], ["value"])
    assert schema == f"`value` {kind}"
    assert [value for (value,) in data] == converted
    assert [type(value) for (value,) in data] == [type(value) for value in converted]


def test_numpy_values_become_python_values() -> None:
    numpy = pytest.importorskip("numpy")
    data, schema = table_of([(numpy.int64(1), numpy.array([1.5]))], ["a", "b"])
    assert (data, schema) == ([(1, [1.5])], "`a` bigint, `b` array<double>")


def test_no_rows() -> None:
    assert table_of([], ["key", "value"]) == ([], "`key` string, `value` string")
