"""Rows straight from JSON, by structs that msgspec fills; only for messages that need no conversion."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import msgspec

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
    Types,
)
from firesteel.common.types import Row
from firesteel.formats import text_values as texts

__all__ = ["FastRows", "json_decimal"]

_fields = msgspec.structs.astuple


class _JsonReading(NamedTuple):
    """What msgspec shall read, and what makes the value of it; None: it is the value."""

    read: Any
    finish: Callable[[Any], Any] | None = None


class _Unknown(Exception):
    """A type for which there is no fast way."""


def json_decimal(raw: bytes | msgspec.Raw) -> Decimal | None:
    """A decimal from what stands in the message: of a number trailing zeros do not count, of a text they do."""
    text = bytes(raw).decode()
    if text == "null":
        return None
    if text[0] == '"':
        return texts.big_decimal(msgspec.json.decode(raw, type=str))
    return without_zeros(texts.big_decimal(text)) if {*text} & {*".eE"} else Decimal(text)


def without_zeros(number: Decimal) -> Decimal:
    """The same number without zeros at its end; exact, which Decimal.normalize is not."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    kept = list(digits)
    while len(kept) > 1 and kept[-1] == 0:
        kept.pop()
        exponent += 1
    return Decimal((sign, tuple(kept), 0 if kept == [0] else exponent))


_BASIC: dict[BasicType, _JsonReading] = {
    BasicType.STRING: _JsonReading(str),
    BasicType.BOOLEAN: _JsonReading(bool),
    BasicType.DOUBLE: _JsonReading(float),
    BasicType.FLOAT: _JsonReading(float, texts.float32),
    BasicType.BIG_INT: _JsonReading(int),
    BasicType.BIG_DEC: _JsonReading(msgspec.Raw, json_decimal),
    BasicType.CHAR: _JsonReading(Annotated[str, msgspec.Meta(min_length=1, max_length=1)]),
    BasicType.INSTANT: _JsonReading(str, texts.instant),
}
_TIMES: dict[type, _JsonReading] = {
    DateTypeInfo: _JsonReading(str, texts.iso_date),
    TimeTypeInfo: _JsonReading(str, texts.iso_time),
    TimestampTypeInfo: _JsonReading(str, texts.iso_timestamp),
}
_LISTS = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo)


def _reading(kind: Any, required: bool) -> _JsonReading:
    if type(kind) in _TIMES:
        return _TIMES[type(kind)]
    if isinstance(kind, BasicTypeInfo):
        bits = texts.BITS.get(kind.basic_type)
        if bits is None:
            return _BASIC[kind.basic_type]
        half = 1 << (bits - 1)
        return _JsonReading(Annotated[int, msgspec.Meta(ge=-half, le=half - 1)])
    if isinstance(kind, RowTypeInfo):
        rows = FastRows(kind, required)
        return _JsonReading(rows.struct, rows.one)
    if isinstance(kind, PrimitiveArrayTypeInfo):
        element = kind.element_type
        return (
            _JsonReading(str, texts.base64_bytes)
            if kind.is_bytes
            else _of_lists(_reading(element, required), False)
        )
    if isinstance(kind, _LISTS):
        return _of_lists(_reading(kind.element_type, required), True)
    if isinstance(kind, MapTypeInfo) and kind.key_type == Types.STRING():
        return _of_maps(_reading(kind.value_type, required))
    raise _Unknown


def _or_none(read: Any) -> Any:
    return read if read is msgspec.Raw else read | None  # whatever stands there, null too, is raw


def _of_lists(element: _JsonReading, nullable: bool) -> _JsonReading:
    read: Any = list[_or_none(element.read) if nullable else element.read]  # type: ignore[misc]
    if element.finish is None:
        return _JsonReading(read)
    one = _nullable(element.finish)
    return _JsonReading(read, lambda values: [one(value) for value in values])


def _of_maps(value: _JsonReading) -> _JsonReading:
    read: Any = dict[str, _or_none(value.read)]  # type: ignore[misc]
    if value.finish is None:
        return _JsonReading(read)
    one = _nullable(value.finish)
    return _JsonReading(read, lambda entries: {key: one(item) for key, item in entries.items()})


def _nullable(finish: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else finish(value)


class FastRows:
    """Rows of one type."""

    def __init__(self, row_type: RowTypeInfo, required: bool) -> None:
        self._names = tuple(row_type.get_field_names())
        readings = [_reading(kind, required) for kind in row_type.get_field_types()]
        reads = [_or_none(reading.read) for reading in readings]
        # Names of fields may be anything, names of attributes may not.
        fields: list[Any] = [
            (f"f{i}", read) if required else (f"f{i}", read, None) for i, read in enumerate(reads)
        ]
        names = {f"f{index}": name for index, name in enumerate(self._names)}
        self.struct = msgspec.defstruct("Row", fields, rename=names)
        self._finish = [(i, _nullable(each.finish)) for i, each in enumerate(readings) if each.finish]
        self._decoder = msgspec.json.Decoder(self.struct)

    @classmethod
    def of(cls, row_type: RowTypeInfo, required: bool) -> FastRows | None:
        """None when there is a type among the fields that needs the lenient way."""
        try:
            return cls(row_type, required)
        except (_Unknown, TypeError):
            return None

    def decode_all(self, messages: list[bytes]) -> list[Row] | None:
        """The rows of messages; None when one of them does not fit as it is."""
        try:
            records = [_fields(record) for record in map(self._decoder.decode, messages)]
            return Row._make_all(self._finished(records) if self._finish else records, self._names)
        except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError):
            return None

    def _finished(self, records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        columns: list[Any] = list(zip(*records, strict=True))
        if not columns:
            return records
        for index, finish in self._finish:
            columns[index] = [finish(value) for value in columns[index]]
        return list(zip(*columns, strict=True))

    def one(self, found: msgspec.Struct) -> Row:
        """The row of a struct inside of another one."""
        values = list(_fields(found))
        for index, finish in self._finish:
            values[index] = finish(values[index])
        return Row._make(values, self._names)
