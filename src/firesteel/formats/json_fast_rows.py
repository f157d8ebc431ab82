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


class _Part(NamedTuple):
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


_BASIC: dict[BasicType, _Part] = {
    BasicType.STRING: _Part(str),
    BasicType.BOOLEAN: _Part(bool),
    BasicType.DOUBLE: _Part(float),
    BasicType.FLOAT: _Part(float, texts.float32),
    BasicType.BIG_INT: _Part(int),
    BasicType.BIG_DEC: _Part(msgspec.Raw, json_decimal),
    BasicType.CHAR: _Part(Annotated[str, msgspec.Meta(min_length=1, max_length=1)]),
    BasicType.INSTANT: _Part(str, texts.instant),
}
_TIMES: dict[type, _Part] = {
    DateTypeInfo: _Part(str, texts.iso_date),
    TimeTypeInfo: _Part(str, texts.iso_time),
    TimestampTypeInfo: _Part(str, texts.iso_timestamp),
}
_LISTS = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo)


def _part(kind: Any, required: bool) -> _Part:
    if type(kind) in _TIMES:
        return _TIMES[type(kind)]
    if isinstance(kind, BasicTypeInfo):
        bits = texts.BITS.get(kind.basic_type)
        if bits is None:
            return _BASIC[kind.basic_type]
        half = 1 << (bits - 1)
        return _Part(Annotated[int, msgspec.Meta(ge=-half, le=half - 1)])
    if isinstance(kind, RowTypeInfo):
        rows = FastRows(kind, required)
        return _Part(rows.struct, rows.one)
    if isinstance(kind, PrimitiveArrayTypeInfo):
        return (
            _Part(str, texts.base64_bytes)
            if kind.is_bytes
            else _of_lists(_part(kind.element_type, required), False)
        )
    if isinstance(kind, _LISTS):
        return _of_lists(_part(kind.element_type, required), True)
    if isinstance(kind, MapTypeInfo) and kind.key_type == Types.STRING():
        return _of_maps(_part(kind.value_type, required))
    raise _Unknown


def _or_none(read: Any) -> Any:
    return read if read is msgspec.Raw else read | None  # whatever stands there, null too, is raw


def _of_lists(element: _Part, nullable: bool) -> _Part:
    read: Any = list[_or_none(element.read) if nullable else element.read]  # type: ignore[misc]
    if element.finish is None:
        return _Part(read)
    one = _nullable(element.finish)
    return _Part(read, lambda values: [one(value) for value in values])


def _of_maps(value: _Part) -> _Part:
    read: Any = dict[str, _or_none(value.read)]  # type: ignore[misc]
    if value.finish is None:
        return _Part(read)
    one = _nullable(value.finish)
    return _Part(read, lambda entries: {key: one(item) for key, item in entries.items()})


def _nullable(finish: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else finish(value)


class FastRows:
    """Rows of one type."""

    def __init__(self, row_type: RowTypeInfo, required: bool) -> None:
        self._names = tuple(row_type.get_field_names())
        parts = [_part(kind, required) for kind in row_type.get_field_types()]
        reads = [_or_none(part.read) for part in parts]
        # Names of fields may be anything, names of attributes may not.
        fields: list[Any] = [
            (f"f{i}", read) if required else (f"f{i}", read, None) for i, read in enumerate(reads)
        ]
        names = {f"f{index}": name for index, name in enumerate(self._names)}
        self.struct = msgspec.defstruct("Row", fields, rename=names)
        self._finish = [(i, _nullable(part.finish)) for i, part in enumerate(parts) if part.finish]
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
