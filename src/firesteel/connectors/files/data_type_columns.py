"""What the Table API's types are in Arrow, and as type information."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from firesteel.common._data_types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from firesteel.common.errors import ProgramError
from firesteel.common.time import Instant
from firesteel.common.typeinfo import LocalTimeTypeInfo, TypeInformation, Types
from firesteel.connectors.files.arrow_columns import Column, Lists, Maps, Plain, Structs
from firesteel.connectors.files.timestamps import micros, moment, without_zone

_PLAIN: dict[type[DataType], tuple[pa.DataType, tuple[type, ...], Callable[[], TypeInformation]]] = {
    CharType: (pa.string(), (str,), Types.STRING),
    VarCharType: (pa.string(), (str,), Types.STRING),
    BinaryType: (pa.binary(), (bytes, bytearray, memoryview), lambda: Types.PRIMITIVE_ARRAY(Types.BYTE())),
    VarBinaryType: (pa.binary(), (bytes, bytearray, memoryview), lambda: Types.PRIMITIVE_ARRAY(Types.BYTE())),
    BooleanType: (pa.bool_(), (object,), Types.BOOLEAN),
    TinyIntType: (pa.int8(), (Integral,), Types.BYTE),
    SmallIntType: (pa.int16(), (Integral,), Types.SHORT),
    IntType: (pa.int32(), (Integral,), Types.INT),
    BigIntType: (pa.int64(), (Integral,), Types.LONG),
    FloatType: (pa.float32(), (Real,), Types.FLOAT),
    DoubleType: (pa.float64(), (Real,), Types.DOUBLE),
    DateType: (pa.date32(), (date,), Types.SQL_DATE),
}

#: Digits behind the second that milliseconds have; beyond it is microseconds.
_MILLIS = 3


def column_of(data_type: DataType, local_zone: bool) -> Column:
    """The column of a file for values of a type; ``local_zone`` as for `arrow_types.columns_of`."""
    if type(data_type) in _PLAIN:
        kind, accepts, _ = _PLAIN[type(data_type)]
        return Plain(kind, data_type.type_name(), accepts)
    match data_type:
        case DecimalType():
            kind = pa.decimal128(data_type.precision, data_type.scale)
            expected = f"DECIMAL({data_type.precision}, {data_type.scale})"
            return Plain(kind, expected, (Decimal, Integral))
        case TimeType():
            unit = pa.time32("ms") if data_type.precision <= _MILLIS else pa.time64("us")
            return Plain(unit, "TIME", (time,))
        case TimestampType():
            unit = "ms" if data_type.precision <= _MILLIS else "us"
            if local_zone:
                return Plain(pa.timestamp(unit, "UTC"), "TIMESTAMP", (datetime,), moment)
            return Plain(pa.timestamp(unit), "TIMESTAMP", (datetime,), without_zone)
        case LocalZonedTimestampType():
            return Plain(pa.timestamp("us", "UTC"), "TIMESTAMP_LTZ", (Instant,), micros)
    return _nested(data_type, local_zone)


def _nested(data_type: DataType, local_zone: bool) -> Column:
    match data_type:
        case ArrayType():
            element = column_of(data_type.element_type, local_zone)
            field = pa.field("element", element.kind, data_type.element_type._nullable)
            return Lists(pa.list_(field), "ARRAY", element)
        case MapType():
            key, item = column_of(data_type.key_type, local_zone), column_of(data_type.value_type, local_zone)
            field = pa.field("value", item.kind, data_type.value_type._nullable)
            return Maps(pa.map_(key.kind, field), "MAP", key, item)
        case RowType():
            fields = tuple(column_of(field.data_type, local_zone) for field in data_type)
            kind = pa.struct(
                [
                    pa.field(field.name, column.kind, field.data_type._nullable)
                    for field, column in zip(data_type, fields, strict=True)
                ]
            )
            return Structs(kind, "ROW", fields)
    raise ProgramError(f"files have no type for {data_type!r}; use another one of DataTypes")


def type_info_of(data_type: DataType) -> TypeInformation[Any]:
    """The type of records and fields with a type of the Table API, as PyFlink has it."""
    if type(data_type) in _PLAIN:
        return _PLAIN[type(data_type)][2]()
    match data_type:
        case DecimalType():
            return Types.BIG_DEC()
        case TimeType():
            return _exact(data_type.precision, Types.SQL_TIME(), LocalTimeTypeInfo.TimeType.LOCAL_TIME)
        case TimestampType():
            kind = LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME
            return _exact(data_type.precision, Types.SQL_TIMESTAMP(), kind)
        case LocalZonedTimestampType():
            return Types.INSTANT()
        case ArrayType():
            return Types.LIST(type_info_of(data_type.element_type))
        case MapType():
            return Types.MAP(type_info_of(data_type.key_type), type_info_of(data_type.value_type))
        case RowType():
            return Types.ROW_NAMED(data_type.names, [type_info_of(field.data_type) for field in data_type])
    raise ProgramError(f"there are no values of {data_type!r} in streams; use another one of DataTypes")


def _exact(precision: int, millis: TypeInformation, kind: LocalTimeTypeInfo.TimeType) -> TypeInformation:
    return millis if precision <= _MILLIS else LocalTimeTypeInfo(kind)
