"""Rows of any type, written to Parquet or ORC in any batches, are read as they were."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc, parquet

from firesteel.common.errors import ProgramError, TypeMismatchError
from firesteel.common.serialization import BulkWriterFactory
from firesteel.common.time import Instant
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.common.types import Row
from firesteel.datastream.formats.orc import OrcBulkWriters
from firesteel.datastream.formats.parquet import ParquetBulkWriters

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Kind:
    """A declared type and its values, each with what is read from the file."""

    declared: TypeInformation
    pairs: st.SearchStrategy[Pair]

    @property
    def optional(self) -> st.SearchStrategy[Pair]:
        return st.one_of(st.just((None, None)), self.pairs)


def same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Pair]:
    return values.map(lambda value: (value, value))


def whole(bits: int) -> st.SearchStrategy[Pair]:
    return same(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1))


def to_millis(value: datetime) -> datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


#: ORC is read with nanoseconds, which end in 2262.
MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(value: datetime) -> Pair:
    moment = value.replace(tzinfo=UTC)
    since = moment - EPOCH
    seconds = since // timedelta(seconds=1)
    nanos = (since - timedelta(seconds=seconds)) // timedelta(microseconds=1) * 1000 + 7
    return Instant(seconds, nanos), moment


LEAVES = st.sampled_from(
    [
        Kind(Types.STRING(), same(st.text(max_size=6))),
        Kind(Types.CHAR(), same(st.text(min_size=1, max_size=1))),
        Kind(Types.BYTE(), whole(8)),
        Kind(Types.SHORT(), whole(16)),
        Kind(Types.INT(), whole(32)),
        Kind(Types.LONG(), whole(64)),
        Kind(Types.BOOLEAN(), same(st.booleans())),
        Kind(Types.FLOAT(), same(st.floats(width=32, allow_nan=False))),
        Kind(Types.DOUBLE(), same(st.floats(allow_nan=False))),
        Kind(Types.BIG_INT(), st.integers(1 - 10**38, 10**38 - 1).map(lambda value: (value, Decimal(value)))),
        Kind(Types.BIG_DEC(), same(st.decimals(-(10**19), 10**19, places=18))),
        Kind(Types.INSTANT(), MOMENTS.map(instant)),
        Kind(Types.SQL_DATE(), same(st.dates(date(1700, 1, 1)))),
        Kind(Types.SQL_TIMESTAMP(), MOMENTS.map(lambda value: (value, to_millis(value)))),
        Kind(Types.PRIMITIVE_ARRAY(Types.BYTE()), same(st.binary(max_size=4))),
        Kind(Types.PRIMITIVE_ARRAY(Types.INT()), same(st.lists(st.integers(-9, 9), max_size=3))),
    ]
)


def unzipped(pairs: list[Pair]) -> Pair:
    return [given for given, _ in pairs], [read for _, read in pairs]


def lists_of(kind: Kind) -> st.SearchStrategy[Kind]:
    values = st.lists(kind.optional, max_size=3).map(unzipped)
    makers: list[Callable[[TypeInformation], TypeInformation]] = [Types.LIST, Types.OBJECT_ARRAY]
    return st.sampled_from(makers).map(lambda make: Kind(make(kind.declared), values))


def maps_of(kinds: tuple[Kind, Kind]) -> Kind:
    entries = st.lists(
        st.tuples(kinds[0].pairs, kinds[1].optional), max_size=3, unique_by=lambda entry: entry[0][0]
    )
    return Kind(
        Types.MAP(kinds[0].declared, kinds[1].declared),
        entries.map(
            lambda found: (
                {key[0]: value[0] for key, value in found},
                [(key[1], value[1]) for key, value in found],
            )
        ),
    )


KEYS = st.sampled_from([Kind(Types.STRING(), same(st.text(max_size=4))), Kind(Types.LONG(), whole(64))])


def rows_of(kinds: list[Kind]) -> Kind:
    names = [f"field {index}" for index in range(len(kinds))]

    def row(pairs: tuple[Pair, ...]) -> Pair:
        values = tuple(value for value, _ in pairs)
        return Row._make(values, tuple(names)), dict(zip(names, [read for _, read in pairs], strict=True))

    fields = st.tuples(*(kind.optional for kind in kinds)).map(row)
    return Kind(Types.ROW_NAMED(names, [kind.declared for kind in kinds]), fields)


KINDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.flatmap(lists_of),
        st.tuples(KEYS, inner).map(maps_of),
        st.lists(inner, min_size=1, max_size=3).map(rows_of),
    ),
    max_leaves=4,
)
TABLES = st.lists(KINDS, min_size=1, max_size=4).map(rows_of)


def written(factory: BulkWriterFactory, batches: list[list[Any]]) -> io.BytesIO:
    stream = io.BytesIO()
    writer = factory.create(stream)
    for batch in batches:
        writer.add_elements(batch)
    writer.flush()
    writer.finish()
    return io.BytesIO(stream.getvalue())


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Python's values; nanoseconds, which ORC gives, become microseconds."""
    return column.cast(in_micros(column.type)).to_pylist()


def in_micros(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(in_micros(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(in_micros(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_micros(field.type)) for field in kind])
    return kind


@given(data=st.data())
def test_rows_of_any_type_are_read_as_they_were(data: st.DataObject) -> None:
    table = data.draw(TABLES)
    batches = data.draw(st.lists(st.lists(table.pairs, min_size=1, max_size=4), min_size=1, max_size=3))
    given = [[value for value, _ in batch] for batch in batches]
    expected = [read for batch in batches for _, read in batch]
    group = data.draw(st.sampled_from([1, 100, 1 << 20]))
    factory = ParquetBulkWriters.for_row_type(table.declared, None, True, row_group_bytes=group)
    assert rows_in(parquet.read_table(written(factory, given))) == expected
    try:
        factory = OrcBulkWriters.for_row_type(table.declared)
    except ProgramError as error:
        if "rows inside of rows" not in str(error):
            raise
    else:
        assert rows_in(orc.read_table(written(factory, given))) == expected


def rows_in(table: pa.Table) -> list[dict[str, Any]]:
    columns = [plain(table.column(name)) for name in table.column_names]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


class Misfit:
    """Fits nothing."""


@given(data=st.data())
def test_a_value_that_fits_nothing_is_found_in_any_row(data: st.DataObject) -> None:
    table = data.draw(TABLES)
    rows = [value for value, _ in data.draw(st.lists(table.pairs, min_size=1, max_size=6))]
    row = data.draw(st.sampled_from(rows))
    index = data.draw(st.integers(0, len(row) - 1))
    row[index] = Misfit()
    writer = ParquetBulkWriters.for_row_type(table.declared).create(io.BytesIO())
    with pytest.raises(TypeMismatchError) as caught:
        writer.add_elements(rows)
    assert caught.value.path == (f"field 'field {index}' (index {index})",)
    assert "Misfit" in caught.value.got
