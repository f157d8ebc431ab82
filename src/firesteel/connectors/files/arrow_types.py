"""Which Arrow type, and so which type in Parquet and ORC files, a declared type has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from firesteel.common._data_types import RowType
from firesteel.common.errors import ProgramError
from firesteel.common.time import Instant
from firesteel.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from firesteel.connectors.files.arrow_columns import Column, Lists, Maps, Plain, Structs
from firesteel.connectors.files.class_columns import columns_of_class
from firesteel.connectors.files.data_type_columns import column_of
from firesteel.connectors.files.timestamps import micros, moment, without_zone
from firesteel.formats.record_classes import is_record_class

#: What a decimal without declared digits has: Flink's precision and scale for it.
DECIMAL = pa.decimal128(38, 18)
WHOLE_DECIMAL = pa.decimal128(38, 0)


def columns_of(row_type: Any, local_zone: bool) -> Structs:
    """The columns of a file for rows of a type: of rows or tuples, of the Table API, a class, or an Arrow schema.

    ``local_zone``: timestamps without a zone are times of the machine's zone, and the file says which moments they
    are. Otherwise they are written as the clock shows them, without a zone.
    """
    if isinstance(row_type, pa.Schema):
        columns = _of_arrow(pa.struct(list(row_type)))
    elif isinstance(row_type, RowTypeInfo | TupleTypeInfo):
        columns = _Translation(local_zone).column(row_type)
    elif isinstance(row_type, RowType):
        columns = column_of(row_type, local_zone)
    elif is_record_class(row_type):
        columns = columns_of_class(row_type)
    else:
        raise ProgramError(
            "the row type of a file must be Types.ROW_NAMED(names, types), DataTypes.ROW(fields), a dataclass, NamedTuple or "
            f"TypedDict, or a pyarrow.Schema, got {row_type!r} ({type(row_type).__name__})"
        )
    assert isinstance(columns, Structs)
    _check_names([field.name for field in columns.kind])
    return columns


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ProgramError("the row type of a file must have at least one field, got none")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProgramError(
            f"the fields of a file must have different names, but {', '.join(map(repr, twice))} comes twice"
        )


# Declared types ---------------------------------------------------------------------------------------

_BASIC: dict[BasicType, tuple[pa.DataType, tuple[type, ...]]] = {
    BasicType.BYTE: (pa.int8(), (Integral,)),
    BasicType.SHORT: (pa.int16(), (Integral,)),
    BasicType.INT: (pa.int32(), (Integral,)),
    BasicType.LONG: (pa.int64(), (Integral,)),
    BasicType.FLOAT: (pa.float32(), (Real,)),
    BasicType.DOUBLE: (pa.float64(), (Real,)),
    BasicType.BOOLEAN: (pa.bool_(), (object,)),
    BasicType.STRING: (pa.string(), (str,)),
}


def _char(value: str) -> str:
    if len(value) != 1:
        raise ValueError
    return value


_SPECIAL = {
    BasicType.CHAR: Plain(pa.string(), "Char", (str,), _char),
    BasicType.BIG_INT: Plain(WHOLE_DECIMAL, "BigInteger of at most 38 digits", (Integral,)),
    BasicType.BIG_DEC: Plain(
        DECIMAL, "BigDecimal with at most 20 digits before and 18 behind the point", (Decimal, Integral)
    ),
    BasicType.INSTANT: Plain(pa.timestamp("us", "UTC"), "Instant", (Instant,), micros),
}
_BYTES = (bytes, bytearray, memoryview)
_ELEMENTS = (BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo, PrimitiveArrayTypeInfo)


@dataclass(frozen=True)
class _Translation:
    local_zone: bool

    def column(self, declared: TypeInformation) -> Column:
        """The column for values of a declared type."""
        if isinstance(declared, BasicTypeInfo):
            return _basic(declared.basic_type)
        if isinstance(declared, ExternalTypeInfo):
            return self.column(declared.type_info)
        if isinstance(declared, RowTypeInfo):
            return self._struct(declared, declared.get_field_names(), declared.get_field_types())
        if isinstance(declared, TupleTypeInfo):
            types = declared.get_field_types()
            return self._struct(declared, [f"f{index}" for index in range(len(types))], types)
        if isinstance(declared, PrimitiveArrayTypeInfo) and declared.is_bytes:
            return Plain(pa.binary(), str(declared), _BYTES)
        if isinstance(declared, _ELEMENTS):
            return self._list(declared, declared.element_type)
        if isinstance(declared, MapTypeInfo):
            return self._map(declared)
        return self._time(declared)

    def _struct(
        self, declared: TypeInformation, names: Sequence[str], types: Sequence[TypeInformation]
    ) -> Structs:
        fields = tuple(self.column(kind) for kind in types)
        kind = pa.struct([(name, field.kind) for name, field in zip(names, fields, strict=True)])
        return Structs(kind, str(declared), fields)

    def _list(self, declared: TypeInformation, element_type: TypeInformation) -> Lists:
        element = self.column(element_type)
        nullable = not isinstance(declared, PrimitiveArrayTypeInfo)
        kind = pa.list_(pa.field("element", element.kind, nullable))
        return Lists(kind, str(declared), element)

    def _map(self, declared: MapTypeInfo) -> Maps:
        key, item = self.column(declared.key_type), self.column(declared.value_type)
        return Maps(pa.map_(key.kind, item.kind), str(declared), key, item)

    def _time(self, declared: TypeInformation) -> Column:
        if isinstance(declared, DateTypeInfo):
            return Plain(pa.date32(), "Date", (date,))
        if isinstance(declared, TimeTypeInfo):
            return Plain(pa.time32("ms"), "Time", (time,))
        if isinstance(declared, TimestampTypeInfo):
            return self._timestamp("ms", "Timestamp")
        if isinstance(declared, LocalTimeTypeInfo):
            return self._local_time(declared)
        raise ProgramError(
            f"files have no type for {declared!r}; declare what the field has, such as Types.STRING() or "
            "Types.PRIMITIVE_ARRAY(Types.BYTE())"
        )

    def _local_time(self, declared: LocalTimeTypeInfo) -> Column:
        if declared._time_type is LocalTimeTypeInfo.TimeType.LOCAL_DATE:
            return Plain(pa.date32(), "LocalDate", (date,))
        if declared._time_type is LocalTimeTypeInfo.TimeType.LOCAL_TIME:
            return Plain(pa.time64("us"), "LocalTime", (time,))
        return self._timestamp("us", "LocalDateTime")

    def _timestamp(self, unit: str, expected: str) -> Plain:
        if self.local_zone:
            return Plain(pa.timestamp(unit, "UTC"), expected, (datetime,), moment)
        return Plain(pa.timestamp(unit), expected, (datetime,), without_zone)


def _basic(kind: BasicType) -> Plain:
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    arrow, accepts = _BASIC[kind]
    return Plain(arrow, kind.value, accepts)


# Arrow's types ----------------------------------------------------------------------------------------


def _of_arrow(kind: pa.DataType) -> Column:
    """The column of an Arrow type; what Arrow converts silently and with a loss is refused."""
    if pa.types.is_struct(kind):
        return Structs(kind, str(kind), tuple(_of_arrow(field.type) for field in kind))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Lists(kind, str(kind), _of_arrow(kind.value_type))
    if pa.types.is_map(kind):
        return Maps(kind, str(kind), _of_arrow(kind.key_type), _of_arrow(kind.item_type))
    if pa.types.is_integer(kind):
        return Plain(kind, str(kind), (Integral,))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Plain(kind, str(kind), (str,))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return Plain(kind, str(kind), _BYTES)
    return Plain(kind, str(kind))
