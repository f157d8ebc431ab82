"""Rows of a declared type from dicts of JSON, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from firesteel.common.errors import ProgramError, TypeMismatchError
from firesteel.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from firesteel.common.types import Row
from firesteel.connectors.files.timestamps import instant
from firesteel.formats.json_lines import TupleDecoder, whole_number
from firesteel.formats.record_classes import Misfit, column_converter

Values = Callable[[Sequence[Any]], Sequence[Any]]

_HINTS: dict[BasicType, Any] = {
    BasicType.STRING: str | None,
    BasicType.CHAR: str | None,
    BasicType.BYTE: int | None,
    BasicType.SHORT: int | None,
    BasicType.INT: int | None,
    BasicType.LONG: int | None,
    BasicType.FLOAT: float | None,
    BasicType.DOUBLE: float | None,
    BasicType.BOOLEAN: bool | None,
    BasicType.BIG_INT: int | None,
    BasicType.BIG_DEC: Decimal | None,
}
_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def rows_reader(declared: RowTypeInfo) -> Callable[[Sequence[Any]], list[Row]]:
    """Makes rows of dicts. A field that is missing is None; one that was not declared is left out.

    A value that does not fit raises TypeMismatchError, with the position of its dict.
    """
    names = tuple(declared.get_field_names())
    fields = [
        (name, _reader(name, kind)) for name, kind in zip(names, declared.get_field_types(), strict=True)
    ]

    def read(dicts: Sequence[Any]) -> list[Row]:
        columns = []
        for name, values in fields:
            columns.append(_checked(name, values, [each.get(name) for each in dicts]))
        return Row._make_all(zip(*columns, strict=True), names)

    return read


class JsonRows:
    """Makes rows of lines of JSON: what is not nested by the decoder itself, the rest a column at a time."""

    def __init__(self, declared: RowTypeInfo) -> None:
        self._names = tuple(declared.get_field_names())
        types = declared.get_field_types()
        self._decoder = TupleDecoder(self._names, [_hint(kind) for kind in types])
        pairs = zip(self._names, types, strict=True)
        self._readers = [None if _hint(kind) is not Any else _reader(name, kind) for name, kind in pairs]

    def rows(self, block: bytes) -> list[Row]:
        """The rows of some lines. `JsonError`, or TypeMismatchError with the position of the row, for one that does not fit."""
        tuples = self._decoder.decode(block)
        if not any(self._readers) or not tuples:
            return Row._make_all(tuples, self._names)
        columns = []
        for name, values, column in zip(self._names, self._readers, zip(*tuples, strict=True), strict=True):
            columns.append(column if values is None else _checked(name, values, column))
        return Row._make_all(zip(*columns, strict=True), self._names)


def _hint(declared: TypeInformation) -> Any:
    """What the decoder can make of JSON by itself; Any for what it cannot."""
    if not isinstance(declared, BasicTypeInfo) or declared.basic_type is BasicType.INSTANT:
        return Any
    kind = declared.basic_type
    return whole_number(_BITS[kind]) if kind in _BITS else _HINTS[kind]


def _checked(name: str, values: Values, column: Sequence[Any]) -> Sequence[Any]:
    try:
        return values(column)
    except Misfit as error:
        path = (f"field {name!r}{'.' + error.path if error.path else ''}",)
        expected = str(error).removeprefix("expected ").partition(", got")[0]
        raise TypeMismatchError(expected, column[error.index], path=path, index=error.index) from None


def _reader(name: str, declared: TypeInformation) -> Values:
    """Converts a column; `Misfit` for a value that does not fit."""
    if isinstance(declared, BasicTypeInfo):
        return _basic(declared.basic_type)
    if isinstance(declared, RowTypeInfo):
        return _rows(declared)
    if isinstance(declared, PrimitiveArrayTypeInfo) and declared.is_bytes:
        return column_converter(bytes | None)
    if isinstance(declared, ListTypeInfo | ObjectArrayTypeInfo | BasicArrayTypeInfo | PrimitiveArrayTypeInfo):
        return _lists(_reader(name, declared.element_type))
    if isinstance(declared, MapTypeInfo):
        return _dicts(_reader(name, declared.value_type))
    if isinstance(declared, DateTypeInfo):
        return column_converter(date | None)
    if isinstance(declared, TimeTypeInfo):
        return column_converter(time | None)
    if isinstance(declared, TimestampTypeInfo):
        return column_converter(datetime | None)
    if isinstance(declared, LocalTimeTypeInfo):
        return column_converter((date, time, datetime)[declared._time_type.value] | None)
    raise ProgramError(f"JSON has no values for field {name!r}, which is {declared!r}; declare another type")


def _basic(kind: BasicType) -> Values:
    if kind is BasicType.INSTANT:
        moments = column_converter(datetime | None)
        return lambda column: [None if each is None else instant(each) for each in moments(column)]
    convert = column_converter(_HINTS[kind])
    if kind not in _BITS:
        return convert
    half = 1 << (_BITS[kind] - 1)

    def whole(column: Sequence[Any]) -> Sequence[Any]:
        values = convert(column)
        for index, value in enumerate(values):
            if value is not None and not -half <= value < half:
                raise Misfit(f"expected {kind.value}, got int", index)
        return values

    return whole


def _rows(declared: RowTypeInfo) -> Values:
    read = rows_reader(declared)

    def rows(column: Sequence[Any]) -> list[Any]:
        for index, each in enumerate(column):
            if each is not None and not isinstance(each, dict):
                raise Misfit(f"expected object, got {type(each).__name__}", index)
        places = [index for index, each in enumerate(column) if each is not None]
        try:
            made = iter(read([column[index] for index in places]))
        except TypeMismatchError as error:
            raise Misfit(
                f"expected {error.expected}", places[error.index or 0], " ".join(error.path)
            ) from None
        return [None if each is None else next(made) for each in column]

    return rows


def _lists(element: Values) -> Values:
    def lists(column: Sequence[Any]) -> list[Any]:
        return [_inner(each, list, index, element) for index, each in enumerate(column)]

    return lists


def _dicts(item: Values) -> Values:
    def dicts(column: Sequence[Any]) -> list[Any]:
        return [
            None
            if each is None
            else dict(zip(each, _inner(each, dict, index, lambda d: item(list(d.values()))), strict=True))
            for index, each in enumerate(column)
        ]

    return dicts


def _inner(each: Any, kind: type, index: int, convert: Callable[[Any], Any]) -> Any:
    if each is None:
        return None
    if not isinstance(each, kind):
        raise Misfit(f"expected {'array' if kind is list else 'object'}, got {type(each).__name__}", index)
    try:
        values = convert(each)
    except Misfit as error:
        raise Misfit(str(error), index, f"[{error.index}]{error.path}") from None
    return list(values)
