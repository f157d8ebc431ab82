"""Arrow columns, as Spark makes them of a DataFrame, as Python values: work per column, however deep its type is.

Moments (Spark's ``timestamp``) are datetimes in UTC, ``timestamp_ntz`` are datetimes without a zone, structs have the form
that the records have, maps are dicts, arrays are lists, binary values are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from firesteel.spark.frames.record_forms import RecordForm

Values = list[Any]
Reader = Callable[[pa.Array], Values]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def batch_reader(schema: pa.Schema, form: RecordForm) -> Callable[[pa.RecordBatch], Values]:
    """Makes records of the batches of a DataFrame."""
    names = tuple(schema.names)
    readers = [_reader(field.type, form.inner(field.name)) for field in schema]
    make = form.maker(names)

    def read(batch: pa.RecordBatch) -> Values:
        return make([reader(column) for reader, column in zip(readers, batch.columns, strict=True)])

    return read


def _reader(kind: pa.DataType, form: RecordForm) -> Reader:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _moments
    if pa.types.is_struct(kind):
        return _structs(kind, form)
    if pa.types.is_map(kind):
        return _maps(_reader(kind.key_type, form), _reader(kind.item_type, form))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(_reader(kind.value_type, form))
    return _plain


def _plain(column: pa.Array) -> Values:
    values: Values = column.to_pylist()
    return values


def _moments(column: pa.Array) -> Values:
    # The microseconds: Arrow would have to know the zone of Spark's session, and would give another class for each zone.
    micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64()).to_pylist()
    return [None if value is None else _EPOCH + timedelta(microseconds=value) for value in micros]


def _lists(element: Reader) -> Reader:
    if element is _plain:
        return _plain

    def read(column: pa.Array) -> Values:
        elements = element(column.values)
        return [None if span is None else elements[span] for span in _spans(column)]

    return read


def _maps(key: Reader, item: Reader) -> Reader:
    def read(column: pa.Array) -> Values:
        keys, items = key(column.keys), item(column.items)
        return [
            None if span is None else dict(zip(keys[span], items[span], strict=True))
            for span in _spans(column)
        ]

    return read


def _spans(column: pa.Array) -> Sequence[slice | None]:
    """Where the elements of each value are, in the column of all elements."""
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [
        slice(start, end) if is_there else None
        for start, end, is_there in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]


def _structs(kind: pa.StructType, form: RecordForm) -> Reader:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    readers = [_reader(field.type, form.inner(field.name)) for field in fields]
    make = form.maker(tuple(field.name for field in fields))

    def read(column: pa.Array) -> Values:
        columns = [reader(field) for reader, field in zip(readers, column.flatten(), strict=True)]
        if column.null_count == 0:
            return make(columns)
        there = column.is_valid().to_pylist()
        # A class may have a say about its values, so it is not asked about rows that are not there.
        kept = [[value for value, keep in zip(one, there, strict=True) if keep] for one in columns]
        made = iter(make(kept))
        return [next(made) if keep else None for keep in there]

    return read
