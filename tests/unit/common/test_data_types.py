"""The types of the Table API: what they print, compare and refuse."""

from __future__ import annotations

import pickle

import pytest

from firesteel.common.errors import InvalidArgumentError, MissingModuleError
from firesteel.common.typeinfo import Types
from firesteel.connectors.files.data_type_columns import type_info_of
from firesteel.table import DataTypes
from firesteel.table.types import DataType, NumericType, RowField, RowType

ALL = [
    DataTypes.NULL(),
    DataTypes.CHAR(3),
    DataTypes.VARCHAR(3),
    DataTypes.STRING(),
    DataTypes.BOOLEAN(),
    DataTypes.BINARY(3),
    DataTypes.VARBINARY(3),
    DataTypes.BYTES(),
    DataTypes.DECIMAL(10, 2),
    DataTypes.TINYINT(),
    DataTypes.SMALLINT(),
    DataTypes.INT(),
    DataTypes.BIGINT(),
    DataTypes.FLOAT(),
    DataTypes.DOUBLE(),
    DataTypes.DATE(),
    DataTypes.TIME(),
    DataTypes.TIMESTAMP(),
    DataTypes.TIMESTAMP_LTZ(3),
    DataTypes.ARRAY(DataTypes.INT()),
    DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()),
    DataTypes.ROW([("a", DataTypes.INT())]),
]


@pytest.mark.parametrize("data_type", ALL, ids=str)
def test_types_are_values(data_type: DataType) -> None:
    copy = pickle.loads(pickle.dumps(data_type))
    assert (copy, hash(copy), repr(copy)) == (data_type, hash(data_type), repr(data_type))
    assert data_type.not_null() != data_type == data_type.not_null().nullable()
    assert [other for other in ALL if other == data_type] == [data_type]


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (DataTypes.INT(), "IntType(true)"),
        (DataTypes.STRING().not_null(), "VarCharType(2147483647, false)"),
        (DataTypes.DECIMAL(10, 2), "DecimalType(10, 2, true)"),
        (DataTypes.TIMESTAMP(3), "TimestampType(3, true)"),
        (DataTypes.ARRAY(DataTypes.INT()), "ArrayType(IntType(true), true)"),
        (
            DataTypes.ROW([DataTypes.FIELD("a", DataTypes.DATE())]),
            "RowType(RowField(a, DateType(true), ...))",
        ),
    ],
)
def test_types_print_as_in_pyflink(data_type: DataType, text: str) -> None:
    assert repr(data_type) == text


def test_rows_have_fields_by_name_and_position() -> None:
    row = RowType().add("a", DataTypes.INT()).add(RowField("b", DataTypes.DATE()))
    assert row["b"] == row[1] == DataTypes.FIELD("b", DataTypes.DATE())
    assert (row[:1].field_names(), len(row), row.field_types()[0]) == (["a"], 2, DataTypes.INT())
    with pytest.raises(KeyError, match="no field named 'c'; there are a, b"):
        row["c"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DataTypes.ARRAY(int),  # type: ignore[arg-type]
        lambda: DataTypes.FIELD("a", Types.INT()),  # type: ignore[arg-type]
        lambda: DataTypes.DECIMAL(39, 0),
        lambda: DataTypes.DECIMAL(3, 4),
        lambda: DataTypes.TIME(10),
        lambda: DataTypes.CHAR(0),
        lambda: RowType(["a"]),  # type: ignore[list-item]
        lambda: RowType().add("a"),
    ],
)
def test_what_is_no_type_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError):
        wrong()  # type: ignore[operator]


def test_numbers_are_numbers() -> None:
    assert isinstance(DataTypes.DECIMAL(3, 1), NumericType)
    assert not isinstance(DataTypes.DATE(), NumericType)


def test_rows_of_streams_have_the_type_that_pyflink_gives_them() -> None:
    row = DataTypes.ROW(
        [
            DataTypes.FIELD("id", DataTypes.INT()),
            DataTypes.FIELD("name", DataTypes.STRING()),
            DataTypes.FIELD("list", DataTypes.ARRAY(DataTypes.STRING())),
        ]
    )
    expected = Types.ROW_NAMED(
        ["id", "name", "list"], [Types.INT(), Types.STRING(), Types.LIST(Types.STRING())]
    )
    assert type_info_of(row) == expected


def test_the_rest_of_the_table_api_is_missed_with_a_sentence() -> None:
    with pytest.raises(MissingModuleError, match="only their types"):
        from firesteel.table import TableEnvironment  # type: ignore[attr-defined]  # noqa: F401
