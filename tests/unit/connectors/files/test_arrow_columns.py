"""Declared types as types of Parquet and ORC files, and what happens to values that do not fit."""

from __future__ import annotations

import io
import time as clock
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from firesteel.common.errors import ProgramError, TypeMismatchError
from firesteel.common.serialization import BulkWriterFactory
from firesteel.common.time import Instant
from firesteel.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, Types
from firesteel.common.types import Row
from firesteel.connectors.files.arrow_writers import OrcWriterFactory, ParquetWriterFactory


def written(factory: BulkWriterFactory, records: list[Any]) -> bytes:
    stream = io.BytesIO()
    writer = factory.create(stream)
    writer.add_elements(records)
    writer.flush()
    writer.finish()
    return stream.getvalue()


def in_parquet(row_type: Any, *records: Any, local_zone: bool = False) -> pa.Table:
    factory = ParquetWriterFactory(row_type, local_zone)
    return parquet.read_table(io.BytesIO(written(factory, list(records))))


def in_orc(row_type: Any, *records: Any) -> pa.Table:
    return orc.read_table(io.BytesIO(written(OrcWriterFactory(row_type), list(records))))


def one_field(kind: Any) -> Any:
    return Types.ROW_NAMED(["it"], [kind])


LOCAL = LocalTimeTypeInfo.TimeType
MOMENT = datetime(2020, 2, 29, 1, 2, 3, 4000)

#: Declared type, a value, type in Arrow, what is read when it is not the value.
CASES: list[tuple[Any, Any, Any, Any]] = [
    (Types.STRING(), "ä", pa.string(), None),
    (Types.BYTE(), -128, pa.int8(), None),
    (Types.SHORT(), 32767, pa.int16(), None),
    (Types.INT(), -(2**31), pa.int32(), None),
    (Types.LONG(), 2**63 - 1, pa.int64(), None),
    (Types.FLOAT(), 0.5, pa.float32(), None),
    (Types.DOUBLE(), 0.1, pa.float64(), None),
    (Types.DOUBLE(), 7, pa.float64(), 7.0),
    (Types.BOOLEAN(), True, pa.bool_(), None),
    (Types.CHAR(), "c", pa.string(), None),
    (Types.BIG_INT(), 10**37, pa.decimal128(38, 0), Decimal(10**37)),
    (Types.BIG_DEC(), Decimal("-1.25"), pa.decimal128(38, 18), None),
    (Types.BIG_DEC(), 3, pa.decimal128(38, 18), Decimal(3)),
    (
        Types.INSTANT(),
        Instant(5, 6_789),
        pa.timestamp("us", "UTC"),
        datetime(1970, 1, 1, 0, 0, 5, 6, tzinfo=UTC),
    ),
    (Types.SQL_DATE(), date(1, 1, 1), pa.date32(), None),
    (Types.SQL_TIME(), time(23, 59, 59, 999_000), pa.time32("ms"), None),
    (Types.SQL_TIMESTAMP(), MOMENT, pa.timestamp("ms"), None),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), date(2020, 1, 1), pa.date32(), None),
    (LocalTimeTypeInfo(LOCAL.LOCAL_TIME), time(1, 2, 3, 4), pa.time64("us"), None),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), datetime(2020, 1, 1, 1, 1, 1, 1), pa.timestamp("us"), None),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0\xff", pa.binary(), None),
    (Types.LIST(Types.LONG()), [1, None, 2], pa.list_(pa.field("element", pa.int64())), None),
    (Types.LIST(Types.LONG()), (1, 2), pa.list_(pa.field("element", pa.int64())), [1, 2]),
    (Types.BASIC_ARRAY(Types.STRING()), ["a", None], pa.list_(pa.field("element", pa.string())), None),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], pa.list_(pa.field("element", pa.int32(), False)), None),
    (
        Types.OBJECT_ARRAY(Types.ROW([Types.INT()])),
        [Row(1), None],
        pa.list_(pa.field("element", pa.struct([("f0", pa.int32())]))),
        [{"f0": 1}, None],
    ),
    (
        Types.LIST(Types.ROW([Types.INT()])),
        [],
        pa.list_(pa.field("element", pa.struct([("f0", pa.int32())]))),
        None,
    ),
    (
        Types.MAP(Types.STRING(), Types.LIST(Types.INT())),
        {"a": [1], "b": None, "c": []},
        pa.map_(pa.string(), pa.list_(pa.field("element", pa.int32()))),
        [("a", [1]), ("b", None), ("c", [])],
    ),
    (
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.TUPLE([Types.STRING()])]),
        Row(y=("t",), x=1),
        pa.struct([("x", pa.int32()), ("y", pa.struct([("f0", pa.string())]))]),
        {"x": 1, "y": {"f0": "t"}},
    ),
    (ExternalTypeInfo(Types.INT()), 4, pa.int32(), None),
]


@pytest.mark.parametrize(("declared", "value", "arrow", "read"), CASES, ids=lambda case: str(case)[:40])
def test_every_declared_type_has_a_type_in_files(declared: Any, value: Any, arrow: Any, read: Any) -> None:
    table = in_parquet(one_field(declared), (value,), (None,), (value,))
    expected = value if read is None else read
    assert table.schema.field("it").type == arrow
    assert table.column("it").to_pylist() == [expected, None, expected]


@pytest.mark.parametrize(
    ("declared", "value", "read"),
    [
        (declared, value, value if read is None else read)
        for declared, value, arrow, read in CASES
        if not pa.types.is_time(arrow) and not (isinstance(read, dict) and "y" in read)
    ],
    ids=lambda case: str(case)[:40],
)
def test_orc_has_all_of_them_but_times_of_day(declared: Any, value: Any, read: Any) -> None:
    values = in_orc(one_field(declared), (value,), (None,), (value,)).column("it")
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz))  # ORC counts nanoseconds, which Python lacks
    assert values.to_pylist() == [read, None, read]


def test_a_type_that_a_format_lacks_is_refused_when_the_program_is_built() -> None:
    with pytest.raises(ProgramError, match=r"ORC files have no type for field 'it', which is time32\[ms\]"):
        OrcWriterFactory(one_field(Types.SQL_TIME()))
    with pytest.raises(ProgramError, match=r"files have no type for PickledByteArrayTypeInfo; declare what"):
        ParquetWriterFactory(one_field(Types.PICKLED_BYTE_ARRAY()))


def test_rows_in_rows_are_refused_for_orc_because_values_would_be_lost() -> None:
    inner = Types.ROW([Types.INT()])
    for outer in (Types.ROW([inner]), Types.LIST(Types.ROW([Types.LIST(inner)]))):
        with pytest.raises(
            ProgramError, match="ORC files cannot have rows inside of rows, as field 'it' has"
        ):
            OrcWriterFactory(one_field(outer))
    records = [(None,), ({"a": (None,)},), ({"b": None, "c": (7,)},)]
    found = in_orc(one_field(Types.MAP(Types.STRING(), inner)), *records).column("it").to_pylist()
    assert found == [None, [("a", {"f0": None})], [("b", None), ("c", {"f0": 7})]]


def test_row_types_that_are_none_are_refused() -> None:
    with pytest.raises(
        ProgramError, match=r"must be Types.ROW_NAMED\(names, types\), .* or a pyarrow.Schema, got"
    ):
        ParquetWriterFactory(Types.INT())
    with pytest.raises(ProgramError, match="at least one field"):
        ParquetWriterFactory(Types.ROW([]))
    with pytest.raises(ProgramError, match="must have different names, but 'a' comes twice"):
        ParquetWriterFactory(Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()]))


# Records ----------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    name: str
    age: int


@dataclass
class Person:
    name: str
    age: int


PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    "record",
    [
        ("Ann", 5),
        ["Ann", 5],
        Row("Ann", 5),
        Row(name="Ann", age=5),
        Row(age=5, name="Ann"),
        {"age": 5, "name": "Ann"},
        Pair("Ann", 5),
        Person("Ann", 5),
    ],
    ids=repr,
)
def test_anything_that_can_stand_for_a_row_is_a_record(record: Any) -> None:
    assert in_parquet(PERSON, record, ("Bob", 6)).to_pylist() == [
        {"name": "Ann", "age": 5},
        {"name": "Bob", "age": 6},
    ]


def test_a_schema_of_arrow_says_exactly_how_the_file_is() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.uint16(), nullable=False),
            pa.field("price", pa.decimal128(6, 2)),
            pa.field("at", pa.timestamp("ms")),
            pa.field("tags", pa.large_list(pa.dictionary(pa.int8(), pa.string()))),
            pa.field("place", pa.struct([pa.field("x", pa.float32(), nullable=False)])),
        ]
    )
    table = in_parquet(
        schema, (1, Decimal("9.99"), MOMENT, ["a", "b", "a"], {"x": 0.5}), (2, None, 0, None, None)
    )
    assert table.schema.equals(schema)
    assert table.to_pylist() == [
        {"id": 1, "price": Decimal("9.99"), "at": MOMENT, "tags": ["a", "b", "a"], "place": {"x": 0.5}},
        {"id": 2, "price": None, "at": datetime(1970, 1, 1), "tags": None, "place": None},
    ]


def test_rows_that_are_all_missing_may_have_fields_that_must_not_be() -> None:
    required = [
        pa.field(name, kind, nullable=False)
        for name, kind in [
            ("whole", pa.int32()),
            ("text", pa.string()),
            ("list", pa.list_(pa.int32())),
            ("map", pa.map_(pa.string(), pa.int32())),
            ("row", pa.struct([pa.field("x", pa.decimal128(5, 2), nullable=False)])),
        ]
    ]
    schema = pa.schema([pa.field("it", pa.struct(required))])
    assert in_parquet(schema, (None,), (None,)).column("it").to_pylist() == [None, None]


# Misfits ----------------------------------------------------------------------------------------------

FULL = Types.ROW_NAMED(
    [
        "whole",
        "text",
        "decimal",
        "big",
        "bytes",
        "day",
        "moment",
        "list",
        "ints",
        "map",
        "row",
        "char",
        "truth",
    ],
    [
        Types.INT(),
        Types.STRING(),
        Types.BIG_DEC(),
        Types.BIG_INT(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        Types.LIST(Types.LONG()),
        Types.PRIMITIVE_ARRAY(Types.INT()),
        Types.MAP(Types.STRING(), Types.LIST(Types.INT())),
        PERSON,
        Types.CHAR(),
        Types.BOOLEAN(),
    ],
)
GOOD = {"whole": 1, "list": [1], "map": {"k": [1, 2]}, "row": ("Ann", 5)}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("whole", 2**31, "field 'whole' (index 0): expected Integer, got 2147483648 (int)"),
        ("whole", 1.5, "field 'whole' (index 0): expected Integer, got 1.5 (float)"),
        ("whole", True, "field 'whole' (index 0): expected Integer, got True (bool)"),
        ("whole", "1", "field 'whole' (index 0): expected Integer, got '1' (str)"),
        ("text", b"x", "field 'text' (index 1): expected String, got b'x' (bytes)"),
        ("text", "\ud800", r"field 'text' (index 1): expected String, got '\ud800' (str)"),
        ("decimal", 1.5, "at most 20 digits before and 18 behind the point, got 1.5 (float)"),
        ("decimal", Decimal("1e-19"), "18 behind the point, got Decimal('1E-19') (Decimal)"),
        ("decimal", Decimal("NaN"), "18 behind the point, got Decimal('NaN') (Decimal)"),
        ("big", 10**38, "field 'big' (index 3): expected BigInteger of at most 38 digits, got 1000"),
        ("bytes", "x", "field 'bytes' (index 4): expected PrimitiveArrayTypeInfo<Byte>, got 'x' (str)"),
        ("day", 5, "field 'day' (index 5): expected Date, got 5 (int)"),
        ("moment", date(2020, 1, 1), "expected Timestamp, got datetime.date(2020, 1, 1) (date)"),
        ("list", "ab", "field 'list' (index 7): expected ListTypeInfo<Long>, got 'ab' (str)"),
        ("list", [1, "x"], "field 'list' (index 7): element 1: expected Long, got 'x' (str)"),
        ("ints", [1, None], "element 1: expected Integer, got None (NoneType); None is not allowed there"),
        ("map", {None: [1]}, "field 'map' (index 9): key: expected String, got None (NoneType)"),
        (
            "map",
            {"a": [], "b": [0, 2**40]},
            "value of key 'b': element 1: expected Integer, got 1099511627776",
        ),
        ("map", [1], "expected MapTypeInfo<String, ListTypeInfo<Integer>>, got [1] (list)"),
        (
            "row",
            ("Bob", "x"),
            "field 'row' (index 10): field 'age' (index 1): expected Integer, got 'x' (str)",
        ),
        ("row", ("Bob",), "got ('Bob',) (tuple); it has 1 fields instead of 2"),
        ("row", Row(z=1), "no such field: ['name', 'age']; the row has ['z']"),
        ("row", 5, "expected RowTypeInfo(name: String, age: Integer), got 5 (int)"),
        ("char", "ab", "field 'char' (index 11): expected Char, got 'ab' (str)"),
        ("truth", 1, "field 'truth' (index 12): expected Boolean, got 1 (int)"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_position(field: str, value: Any, message: str) -> None:
    writer = ParquetWriterFactory(FULL).create(io.BytesIO())
    bad = GOOD | {field: value, "text": "this one"} if field != "text" else {"text": value}
    with pytest.raises(TypeMismatchError) as caught:
        writer.add_elements([GOOD, {}, bad, GOOD])
    assert message in str(caught.value)
    assert f"it is in the record {bad!r}"[:150] in str(caught.value)


def test_the_right_record_is_named_behind_others_without_a_row() -> None:
    with pytest.raises(TypeMismatchError, match=r"it is in the record \(\('Bob', 'x'\),\)"):
        in_parquet(one_field(PERSON), (None,), (("Bob", "x"),), (("Ann", 5),))


def test_none_is_no_record() -> None:
    with pytest.raises(
        TypeMismatchError, match=r"expected RowTypeInfo\(name: String, age: Integer\), got None"
    ):
        in_parquet(PERSON, ("Ann", 5), None)


def test_what_arrow_would_change_silently_is_refused_for_its_schemas_too() -> None:
    for kind, value in [(pa.int32(), 1.5), (pa.string(), b"x"), (pa.binary(), "x")]:
        with pytest.raises(TypeMismatchError, match=rf"field 'it' \(index 0\): expected {kind}, got"):
            in_parquet(pa.schema([("it", kind)]), (value,))
    with pytest.raises(TypeMismatchError, match="None is not allowed there"):
        in_parquet(pa.schema([pa.field("it", pa.int32(), nullable=False)]), (None,))


# Zones ------------------------------------------------------------------------------------------------


@pytest.fixture
def _tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    clock.tzset()
    yield
    monkeypatch.undo()
    clock.tzset()


@pytest.mark.usefixtures("_tokyo")
def test_timestamps_are_moments_of_the_machines_zone_or_what_the_clock_shows() -> None:
    noon = datetime(2020, 1, 1, 12)
    paris = datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=1)))
    for kind in (Types.SQL_TIMESTAMP(), LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME)):
        moments = in_parquet(one_field(kind), (noon,), (paris,), local_zone=True).column("it").to_pylist()
        assert moments == [datetime(2020, 1, 1, 3, tzinfo=UTC), datetime(2020, 1, 1, 11, tzinfo=UTC)]
        assert in_parquet(one_field(kind), (noon,), (paris,)).column("it").to_pylist() == [noon, noon]
