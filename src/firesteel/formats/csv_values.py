"""Fields of CSV as values of declared types and back, with the conversions that Flink's CSV format makes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from firesteel.common._java_numbers import format_float32, format_float64
from firesteel.common.errors import InvalidArgumentError
from firesteel.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from firesteel.common.types import Row
from firesteel.formats import text_values as texts

__all__ = ["Parse", "Write", "parser", "writer"]

Parse = Callable[[str], Any]
Write = Callable[[Any], str]

_BASIC: dict[BasicType, Parse] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: texts.boolean,
    BasicType.DOUBLE: texts.double,
    BasicType.FLOAT: lambda text: texts.float32(texts.double(text)),
    BasicType.BIG_INT: texts.whole_number(None),
    BasicType.BIG_DEC: texts.big_decimal,
}
_TIMES: dict[type, Parse] = {
    DateTypeInfo: texts.sql_date,
    TimeTypeInfo: texts.sql_time,
    TimestampTypeInfo: texts.sql_timestamp,
}
_ARRAYS = (ObjectArrayTypeInfo, BasicArrayTypeInfo)


def parser(kind: Any, array_delimiter: str, null: str | None) -> Parse:
    """What makes a value of a field's text; ValueError when it is none. The text for None is not its business."""
    if isinstance(kind, BasicTypeInfo):
        if kind.basic_type in texts.BITS:
            return texts.whole_number(texts.BITS[kind.basic_type])
        if kind.basic_type in _BASIC:
            return _BASIC[kind.basic_type]
    if type(kind) in _TIMES:
        return _TIMES[type(kind)]
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind.is_bytes:
        return texts.base64_bytes
    if isinstance(kind, _ARRAYS):
        one = _nullable(parser(kind.element_type, array_delimiter, null), null)
        return lambda text: [one(part) for part in text.split(array_delimiter)] if text else []
    if isinstance(kind, RowTypeInfo):
        return _row_parser(kind, array_delimiter, null)
    raise _unsupported(kind)


def _unsupported(kind: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"CSV has no form for a field of type {kind!r}; it has numbers, texts, booleans, dates and times, bytes, and arrays "
        "and rows of them"
    )


def _row_parser(kind: RowTypeInfo, array_delimiter: str, null: str | None) -> Parse:
    names = tuple(kind.get_field_names())
    ones = [_nullable(parser(part, array_delimiter, null), null) for part in kind.get_field_types()]

    def parse(text: str) -> Row:
        parts = text.split(array_delimiter)
        if len(parts) != len(ones):
            raise ValueError(f"it has {len(parts)} parts instead of {len(ones)}")
        return Row._make([one(part) for one, part in zip(ones, parts, strict=True)], names)

    return parse


def _nullable(parse: Parse, null: str | None) -> Parse:
    return parse if null is None else lambda text: None if text == null else parse(text)


_WRITERS: dict[BasicType, Write] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: lambda value: "true" if value else "false",
    BasicType.DOUBLE: format_float64,
    BasicType.FLOAT: format_float32,
    BasicType.BIG_INT: str,
    BasicType.BIG_DEC: lambda value: f"{value:f}",
    BasicType.BYTE: str,
    BasicType.SHORT: str,
    BasicType.INT: str,
    BasicType.LONG: str,
}
_TIME_WRITERS: dict[type, Write] = {
    DateTypeInfo: lambda value: value.isoformat(),
    TimeTypeInfo: texts.time_text,
    TimestampTypeInfo: lambda value: texts.timestamp_text(value, " "),
}


def writer(kind: Any, array_delimiter: str, null: str) -> Write:
    """The text of a value; None inside of arrays and rows is ``null``."""
    if isinstance(kind, BasicTypeInfo) and kind.basic_type in _WRITERS:
        return _WRITERS[kind.basic_type]
    if type(kind) in _TIME_WRITERS:
        return _TIME_WRITERS[type(kind)]
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind.is_bytes:
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, _ARRAYS):
        one = writer(kind.element_type, array_delimiter, null)
        return lambda value: array_delimiter.join(null if part is None else one(part) for part in value)
    if isinstance(kind, RowTypeInfo):
        ones = [writer(part, array_delimiter, null) for part in kind.get_field_types()]
        return lambda value: array_delimiter.join(
            null if part is None else one(part) for one, part in zip(ones, value, strict=True)
        )
    raise _unsupported(kind)
