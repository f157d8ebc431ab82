"""JSON from rows of a declared type, column by column before each message is written."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from firesteel.common.errors import InvalidArgumentError, TypeMismatchError
from firesteel.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
)
from firesteel.formats import text_values as texts
from firesteel.formats.row_values import row_converter

__all__ = ["RowWriter"]

One = Callable[[Any], Any]
_LISTS = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo)


class RowWriter:
    """Takes rows and whatever else can stand for one: tuples, dicts, objects with such attributes."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        names = row_type.get_field_names()
        attributes = [f"f{index}" for index in range(len(names))]
        renamed = dict(zip(attributes, names, strict=True))
        self._struct = msgspec.defstruct("Row", [(name, Any) for name in attributes], rename=renamed)
        self._convert = row_converter(row_type)
        self._ones = [_one(kind) for kind in row_type.get_field_types()]
        self._encode = msgspec.json.Encoder(decimal_format="number").encode

    def encode_all(self, elements: list[Any]) -> list[bytes]:
        """The bytes of each; what does not fit raises TypeMismatchError."""
        if not elements:
            return []
        for index, element in enumerate(elements):
            if element is None:
                raise TypeMismatchError("a row", element, index=index)
        rows = elements if self._convert is None else self._convert(elements)
        columns = [
            self._column(one, column) for one, column in zip(self._ones, zip(*rows, strict=True), strict=True)
        ]
        if not columns:
            return [b"{}"] * len(elements)
        return list(map(self._encode, map(self._struct, *columns)))

    @staticmethod
    def _column(one: One | None, column: tuple[Any, ...]) -> Any:
        if one is None:
            return column
        if one is _float and None not in column and math.isfinite(sum(column)):
            return column  # no number among them that JSON does not have
        return [None if value is None else one(value) for value in column]


def _one(kind: Any) -> One | None:
    """What makes of a value one that JSON has; None when it is one."""
    if isinstance(kind, BasicTypeInfo):
        return _BASIC.get(kind.basic_type)
    if type(kind) in _TIMES:
        return _TIMES[type(kind)]
    if isinstance(kind, RowTypeInfo):
        return _of_fields(kind.get_field_names(), kind.get_field_types())
    if isinstance(kind, TupleTypeInfo):
        types = kind.get_field_types()
        return _of_fields([f"f{index}" for index in range(len(types))], types)
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind.is_bytes:
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, (*_LISTS, PrimitiveArrayTypeInfo)):
        element = _nullable(_one(kind.element_type))
        return None if element is None else lambda value: [element(item) for item in value]
    if isinstance(kind, MapTypeInfo):
        item = _nullable(_one(kind.value_type)) or _same
        return lambda value: {str(key): item(part) for key, part in value.items()}
    raise InvalidArgumentError(
        f"JSON has no form for a field of type {kind!r}; declare what is in it, or use JsonSchema() for dicts"
    )


def _nullable(one: One | None) -> One | None:
    return None if one is None else lambda value: None if value is None else one(value)


def _same(value: Any) -> Any:
    return value


def _of_fields(names: list[str], types: list[Any]) -> One:
    ones = [_nullable(_one(kind)) or _same for kind in types]
    return lambda value: {name: one(part) for name, one, part in zip(names, ones, value, strict=True)}


def _float(value: float) -> Any:
    """JSON has no such numbers; Flink writes texts."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise TypeMismatchError("a finite number", value)
    return value


_BASIC: dict[BasicType, One] = {
    BasicType.DOUBLE: _float,
    BasicType.FLOAT: _float,
    BasicType.BIG_DEC: _decimal,
    BasicType.INSTANT: texts.instant_text,
}
_TIMES: dict[type, One] = {
    DateTypeInfo: lambda value: value.isoformat(),
    TimeTypeInfo: lambda value: f"{texts.time_text(value)}Z",
    TimestampTypeInfo: lambda value: f"{texts.timestamp_text(value, 'T')}Z",
}
