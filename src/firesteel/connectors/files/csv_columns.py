"""Columns of texts and columns of values: how each type is read from CSV, and written.

Texts are read as Flink reads them, except that nothing passes for false but ``false``.
"""

from __future__ import annotations

import base64
import re
import types
import typing
from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from firesteel.common._data_types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DataTypes,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    RowField,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from firesteel.common._java_numbers import format_float32, format_float64
from firesteel.common.errors import ProgramError
from firesteel.common.time import Instant
from firesteel.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from firesteel.connectors.files.timestamps import instant, moment
from firesteel.formats.record_classes import is_record_class, record_class

Reader = Callable[[str], Any]
Writer = Callable[[Any], str]

# Schemas ----------------------------------------------------------------------------------------------

_HINTS = {int: DataTypes.BIGINT, float: DataTypes.DOUBLE, str: DataTypes.STRING, bool: DataTypes.BOOLEAN}
_BASIC: dict[BasicType, Callable[[], DataType]] = {
    BasicType.STRING: DataTypes.STRING,
    BasicType.CHAR: DataTypes.STRING,
    BasicType.BYTE: DataTypes.TINYINT,
    BasicType.SHORT: DataTypes.SMALLINT,
    BasicType.INT: DataTypes.INT,
    BasicType.LONG: DataTypes.BIGINT,
    BasicType.FLOAT: DataTypes.FLOAT,
    BasicType.DOUBLE: DataTypes.DOUBLE,
    BasicType.BOOLEAN: DataTypes.BOOLEAN,
    BasicType.BIG_INT: lambda: DataTypes.DECIMAL(38, 0),
    BasicType.BIG_DEC: lambda: DataTypes.DECIMAL(38, 18),
    BasicType.INSTANT: lambda: DataTypes.TIMESTAMP_LTZ(9),
}


def row_type_of(schema: Any) -> RowType:
    """The columns that a schema of any kind has in a CSV file."""
    if isinstance(schema, RowType):
        return schema
    if is_record_class(schema):
        described = record_class(schema)
        return RowType(
            [
                RowField(name, _of_hint(hint))
                for name, hint in zip(described.names, described.hints, strict=True)
            ]
        )
    if isinstance(schema, RowTypeInfo):
        pairs = zip(schema.get_field_names(), schema.get_field_types(), strict=True)
        return RowType([RowField(name, _of_type_info(name, kind)) for name, kind in pairs])
    if isinstance(schema, pa.Schema):
        return RowType([RowField(each.name, _of_arrow(each)) for each in schema])
    raise ProgramError(
        "the schema of a CSV file must be a CsvSchema, DataTypes.ROW(fields), Types.ROW_NAMED(names, types), a dataclass, "
        f"NamedTuple or TypedDict, or a pyarrow.Schema, got {schema!r} ({type(schema).__name__})"
    )


def _of_hint(hint: Any) -> DataType:
    """Types without one of their own are read as texts, and converted by their class."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(hint) if each is not type(None)]
        return _of_hint(others[0]) if len(others) == 1 else DataTypes.STRING()
    if typing.get_origin(hint) is list:
        return DataTypes.ARRAY(_of_hint(typing.get_args(hint)[0]))
    return _HINTS.get(hint, DataTypes.STRING)()


def _of_type_info(name: str, declared: TypeInformation) -> DataType:
    if isinstance(declared, BasicTypeInfo):
        return _BASIC[declared.basic_type]()
    if isinstance(declared, PrimitiveArrayTypeInfo) and declared.is_bytes:
        return DataTypes.BYTES()
    if isinstance(declared, ListTypeInfo | ObjectArrayTypeInfo | PrimitiveArrayTypeInfo):
        return DataTypes.ARRAY(_of_type_info(name, declared.element_type))
    if isinstance(declared, DateTypeInfo):
        return DataTypes.DATE()
    if isinstance(declared, TimeTypeInfo):
        return DataTypes.TIME(3)
    if isinstance(declared, TimestampTypeInfo):
        return DataTypes.TIMESTAMP(3)
    if isinstance(declared, LocalTimeTypeInfo):
        return (DataTypes.DATE(), DataTypes.TIME(6), DataTypes.TIMESTAMP(6))[declared._time_type.value]
    raise _no_type(name, declared)


def _of_arrow(field: pa.Field) -> DataType:
    kind = field.type
    made = _ARROW.get(kind)
    if made is not None:
        return made(field.nullable)
    if pa.types.is_list(kind):
        return DataTypes.ARRAY(_of_arrow(kind.value_field), field.nullable)
    if pa.types.is_decimal(kind):
        return DataTypes.DECIMAL(kind.precision, kind.scale, field.nullable)
    if pa.types.is_timestamp(kind):
        make = DataTypes.TIMESTAMP if kind.tz is None else DataTypes.TIMESTAMP_LTZ
        return make(6, field.nullable)
    raise _no_type(field.name, kind)


_ARROW: dict[pa.DataType, Callable[[bool], DataType]] = {
    pa.string(): DataTypes.STRING,
    pa.large_string(): DataTypes.STRING,
    pa.bool_(): DataTypes.BOOLEAN,
    pa.int8(): DataTypes.TINYINT,
    pa.int16(): DataTypes.SMALLINT,
    pa.int32(): DataTypes.INT,
    pa.int64(): DataTypes.BIGINT,
    pa.float32(): DataTypes.FLOAT,
    pa.float64(): DataTypes.DOUBLE,
    pa.date32(): DataTypes.DATE,
    pa.binary(): DataTypes.BYTES,
}


def _no_type(name: str, kind: Any) -> ProgramError:
    return ProgramError(
        f"CSV files have no text for column {name!r}, which is {kind!r}; use numbers, truths, texts, bytes, dates, times, "
        "timestamps, or lists of these"
    )


# Reading ----------------------------------------------------------------------------------------------

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
_BITS = {TinyIntType: 8, SmallIntType: 16, IntType: 32, BigIntType: 64}


def reader_of(data_type: DataType, array_separator: str, null: str | None) -> Reader:
    """Makes a value of a text, which is not the one for None; ValueError for a text that is none."""
    kind = type(data_type)
    if kind in _BITS:
        return _whole_reader(_BITS[kind])
    if isinstance(data_type, DecimalType):
        return _decimal_reader(data_type)
    if isinstance(data_type, ArrayType):
        return _array_reader(data_type, array_separator, null)
    if kind not in _READERS:
        raise ProgramError(f"CSV files have no text for {data_type!r}; use another one of DataTypes")
    return _READERS[kind]


def _whole_reader(bits: int) -> Reader:
    half = 1 << (bits - 1)

    def read(text: str) -> int:
        stripped = text.strip()
        if not _WHOLE.fullmatch(stripped) or not -half <= (value := int(stripped)) < half:
            raise ValueError
        return value

    return read


def _double(text: str) -> float:
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped):
        raise ValueError
    return float(stripped)


def to_float32(value: float) -> float:
    """Rounded to 32 bits."""
    return array("f", [value])[0]


def _boolean(text: str) -> bool:
    lower = text.strip().lower()
    if lower not in ("true", "false"):
        raise ValueError
    return lower == "true"


def _decimal_reader(data_type: DecimalType) -> Reader:
    quantum = Decimal(1).scaleb(-data_type.scale)

    def read(text: str) -> Decimal:
        with localcontext(prec=data_type.precision, rounding=ROUND_HALF_UP):
            try:
                return Decimal(text.strip()).quantize(quantum)
            except InvalidOperation:
                raise ValueError from None

    return read


def _array_reader(data_type: ArrayType, separator: str, null: str | None) -> Reader:
    element = reader_of(data_type.element_type, separator, null)

    def read(text: str) -> list[Any]:
        if not text:
            return []
        parts = text.split(separator) if separator else [text]
        return [None if part == null else element(part) for part in parts]

    return read


def _timestamp(text: str) -> datetime:
    value = datetime.fromisoformat(text.strip())
    if value.tzinfo is not None:
        raise ValueError
    return value


def _moment(text: str) -> Instant:
    return instant(datetime.fromisoformat(text.strip()))


_READERS: dict[type[DataType], Reader] = {
    CharType: str,
    VarCharType: str,
    BooleanType: _boolean,
    FloatType: lambda text: to_float32(_double(text)),
    DoubleType: _double,
    DateType: lambda text: date.fromisoformat(text.strip()),
    TimeType: lambda text: time.fromisoformat(text.strip()),
    TimestampType: _timestamp,
    LocalZonedTimestampType: _moment,
    BinaryType: lambda text: base64.b64decode(text, validate=True),
    VarBinaryType: lambda text: base64.b64decode(text, validate=True),
}


# Writing ----------------------------------------------------------------------------------------------


def writer_of(data_type: DataType, array_separator: str, null: str) -> Writer:
    """Makes a text of a value that is not None; TypeError or ValueError for one that does not fit."""
    kind = type(data_type)
    if kind in _BITS:
        return _whole_writer(_BITS[kind])
    if isinstance(data_type, DecimalType):
        return _decimal_writer(data_type)
    if isinstance(data_type, ArrayType):
        return _array_writer(data_type, array_separator, null)
    if kind not in _WRITERS:
        raise ProgramError(f"CSV files have no text for {data_type!r}; use another one of DataTypes")
    return _WRITERS[kind]


def simple_texts(data_type: DataType, column: Sequence[Any]) -> Sequence[str] | None:
    """The texts of a column of one usual class, many times as fast as one by one; None for others."""
    kind, classes = type(data_type), set(map(type, column))
    if classes == {str} and kind in (CharType, VarCharType):
        return column
    if classes == {int} and kind in _BITS:
        half = 1 << (_BITS[kind] - 1)
        return list(map(str, column)) if -half <= min(column) and max(column) < half else None
    if classes == {bool} and kind is BooleanType:
        return ["true" if value else "false" for value in column]
    if classes == {float} and kind is DoubleType:
        # Between these Java prints the same digits as Python.
        return [repr(value) if 1e-3 <= value < 1e7 else format_float64(value) for value in column]
    return None


def _whole_writer(bits: int) -> Writer:
    half = 1 << (bits - 1)

    def write(value: Any) -> str:
        number = value.__index__()
        if isinstance(value, bool) or not -half <= number < half:
            raise ValueError
        return str(int(number))

    return write


def _decimal_writer(data_type: DecimalType) -> Writer:
    read = _decimal_reader(data_type)

    def write(value: Any) -> str:
        if not isinstance(value, Decimal | int):
            raise TypeError
        return f"{read(str(value)):f}"

    return write


def _array_writer(data_type: ArrayType, separator: str, null: str) -> Writer:
    element = writer_of(data_type.element_type, separator, null)

    def write(value: Any) -> str:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise TypeError
        texts = [null if each is None else element(each) for each in value]
        if any(not separator or separator in text for text in texts) and len(texts) > 1:
            raise ValueError
        return separator.join(texts)

    return write


def _of(kind: Any, text: Callable[[Any], str]) -> Writer:
    def write(value: Any) -> str:
        if not isinstance(value, kind):
            raise TypeError
        return text(value)

    return write


def _instant_text(value: Any) -> str:
    if isinstance(value, Instant):
        seconds = datetime.fromtimestamp(value.seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
        fraction = f".{value.nanos:09d}".rstrip("0").rstrip(".")
        return f"{seconds}{fraction}Z"
    return moment(value).replace(tzinfo=None).isoformat(" ") + "Z"


_TEXT = _of(str, str)
_BYTES = _of((bytes, bytearray, memoryview), lambda value: base64.b64encode(bytes(value)).decode("ascii"))
_WRITERS: dict[type[DataType], Writer] = {
    CharType: _TEXT,
    VarCharType: _TEXT,
    BooleanType: _of(bool, lambda value: "true" if value else "false"),
    FloatType: _of((int, float), lambda value: format_float32(to_float32(value))),
    DoubleType: _of((int, float), lambda value: format_float64(float(value))),
    DateType: _of(date, lambda value: (value.date() if isinstance(value, datetime) else value).isoformat()),
    TimeType: _of(time, lambda value: value.replace(tzinfo=None).isoformat()),
    TimestampType: _of(datetime, lambda value: value.replace(tzinfo=None).isoformat(" ")),
    LocalZonedTimestampType: _of((Instant, datetime), _instant_text),
    BinaryType: _BYTES,
    VarBinaryType: _BYTES,
}
