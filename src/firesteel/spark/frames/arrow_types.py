"""Which declared type rows of an Arrow schema have."""

from __future__ import annotations

import pyarrow as pa

from firesteel.common.typeinfo import LocalTimeTypeInfo, TypeInformation, Types
from firesteel.common.types import Row
from firesteel.spark.frames.record_forms import RecordForm

_PLAIN = {
    pa.bool_(): Types.BOOLEAN,
    pa.int8(): Types.BYTE,
    pa.int16(): Types.SHORT,
    pa.int32(): Types.INT,
    pa.int64(): Types.LONG,
    pa.float32(): Types.FLOAT,
    pa.float64(): Types.DOUBLE,
    pa.string(): Types.STRING,
    pa.large_string(): Types.STRING,
    pa.date32(): Types.SQL_DATE,
}


def row_type_of(schema: pa.Schema, form: RecordForm) -> TypeInformation | None:
    """The type of records of a form: rows and tuples have one."""
    types = [_type_of(field.type, form) for field in schema]
    if form.kind is Row:
        return Types.ROW_NAMED(list(schema.names), types)
    return Types.TUPLE(types) if form.kind is tuple else None


def _type_of(kind: pa.DataType, form: RecordForm) -> TypeInformation:
    if kind in _PLAIN:
        return _PLAIN[kind]()
    if pa.types.is_decimal(kind):
        return Types.BIG_DEC()
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME)
    if pa.types.is_time(kind):
        return Types.SQL_TIME()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Types.LIST(_type_of(kind.value_type, form))
    if pa.types.is_map(kind):
        return Types.MAP(_type_of(kind.key_type, form), _type_of(kind.item_type, form))
    if pa.types.is_struct(kind):
        return row_type_of(pa.schema(list(kind)), form) or Types.PICKLED_BYTE_ARRAY()
    # Such as durations and moments: declared types of times would take the zone away.
    return Types.PICKLED_BYTE_ARRAY()
