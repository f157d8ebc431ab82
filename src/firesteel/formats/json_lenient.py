"""Rows from JSON with every conversion that Flink's JSON format makes, and a sentence for what does not fit.

Numbers may be texts and texts may be numbers; a fraction is cut off where a whole number is wanted; whatever is not
"true" is false; a text may be any part of the message. Numbers that are too large are refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from firesteel.common._values import MISSING
from firesteel.common.errors import DeserializationError, InvalidArgumentError, short_repr
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
from firesteel.common.types import Row
from firesteel.formats import text_values as texts
from firesteel.formats.json_errors import json_error
from firesteel.formats.json_fast_rows import without_zeros
from firesteel.formats.schema_base import Ignored

__all__ = ["LenientRows"]

Convert = Callable[[Any], Any]
_FORMAT = "JSON of its row type"
_LISTS = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo)


class _Fraction(str):
    """A number with a point or an exponent, as it stands in the message."""

    __slots__ = ()


class _Misfit(Exception):
    """A part of a message that does not fit; the way to it grows while it is on its way out."""

    def __init__(self, expected: str, got: Any) -> None:
        self.expected = expected
        self.got = got
        self.path = ""

    def below(self, step: str) -> _Misfit:
        self.path = step + (self.path if self.path[:1] in ("[", "") else f".{self.path}")
        return self


class LenientRows:
    """Rows of one type, message by message."""

    def __init__(self, row_type: RowTypeInfo, fail_on_missing: bool, ignored: Ignored | None) -> None:
        self._decoder = msgspec.json.Decoder(float_hook=_Fraction)
        self._fail_on_missing = fail_on_missing
        self._ignored = ignored
        self._message = b""
        self._convert = self._row(row_type)

    def decode(self, message: bytes) -> Row | None:
        """The row; None when the message says null."""
        self._message = message.encode() if isinstance(message, str) else message
        try:
            value = self._decoder.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise json_error(message, error) from None
        return None if value is None else self._converted(value)

    def parse(self, message: bytes) -> Any:
        """What is in a message, as `convert` takes it."""
        return self._decoder.decode(message)

    def convert(self, message: bytes, part: Any, path: str) -> Row:
        """The row of a part of a message."""
        self._message = message
        try:
            return self._converted(part)
        except DeserializationError as error:
            raise DeserializationError(
                message, error.reason, format=error.format, path=f"{path}.{error.path}".rstrip(".")
            ) from None

    def _converted(self, part: Any) -> Row:
        try:
            row: Row = self._convert(part)
        except _Misfit as misfit:
            raise self._error(misfit) from None
        return row

    def _error(self, misfit: _Misfit) -> DeserializationError:
        got = "nothing" if misfit.got is MISSING else short_repr(misfit.got)
        reason = f"expected {misfit.expected}, got {got}"
        return DeserializationError(self._message, reason, format=_FORMAT, path=misfit.path)

    # Converters ---------------------------------------------------------------------------------------

    def _converter(self, kind: Any) -> Convert:
        if isinstance(kind, RowTypeInfo):
            return self._row(kind)
        if isinstance(kind, BasicTypeInfo):
            return _basic(kind.basic_type)
        if type(kind) in _TIMES:
            return _of_text(*_TIMES[type(kind)])
        if isinstance(kind, PrimitiveArrayTypeInfo):
            return _bytes_of if kind.is_bytes else self._list(kind.element_type, nullable=False)
        if isinstance(kind, _LISTS):
            return self._list(kind.element_type, nullable=True)
        if isinstance(kind, MapTypeInfo):
            return self._map(kind)
        if isinstance(kind, TupleTypeInfo):
            names = [f"f{index}" for index in range(len(kind.get_field_types()))]
            row = self._row(RowTypeInfo(kind.get_field_types(), names))
            return lambda value: tuple(row(value))
        raise InvalidArgumentError(
            f"JSON has no form for a field of type {kind!r}; declare what is in the messages, or use JsonSchema() for dicts"
        )

    def _row(self, kind: RowTypeInfo) -> Convert:
        names = tuple(kind.get_field_names())
        fields = [
            (name, self._converter(part)) for name, part in zip(names, kind.get_field_types(), strict=True)
        ]

        def convert(value: Any) -> Row:
            if type(value) is not dict:
                raise _Misfit(f"an object with {', '.join(names)}", value)
            return Row._make([self._field(value, name, part) for name, part in fields], names)

        return convert

    def _field(self, value: dict[str, Any], name: str, convert: Convert) -> Any:
        part = value.get(name, MISSING)
        if part is None or (part is MISSING and not self._fail_on_missing):
            return None
        try:
            if part is MISSING:
                raise _Misfit("a field of this name (fail_on_missing_field)", part)
            return convert(part)
        except _Misfit as misfit:
            misfit.below(name)
            if self._ignored is None:
                raise
            self._ignored.add(self._error(misfit))
            return None

    def _list(self, element: Any, nullable: bool) -> Convert:
        convert = self._converter(element)

        def convert_all(value: Any) -> list[Any]:
            if type(value) is not list:
                raise _Misfit("an array", value)
            items = []
            for index, item in enumerate(value):
                try:
                    items.append(None if item is None and nullable else convert(item))
                except _Misfit as misfit:
                    raise misfit.below(f"[{index}]") from None
            return items

        return convert_all

    def _map(self, kind: MapTypeInfo) -> Convert:
        key, item = self._converter(kind.key_type), self._converter(kind.value_type)

        def convert(value: Any) -> dict[Any, Any]:
            if type(value) is not dict:
                raise _Misfit("an object", value)
            entries = {}
            for name, part in value.items():
                try:
                    entries[key(name)] = None if part is None else item(part)
                except _Misfit as misfit:
                    raise misfit.below(name) from None
            return entries

        return convert


def _text(value: Any) -> str:
    """What Jackson gives as the text of a part; nothing for objects and arrays."""
    if isinstance(value, _Fraction):
        return str(without_zeros(Decimal(value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if isinstance(value, dict | list) else str(value)


def _basic(kind: BasicType) -> Convert:
    if kind in texts.BITS:
        return _whole(kind.value, texts.BITS[kind])
    match kind:
        case BasicType.STRING:
            return lambda value: _json_text(value) if isinstance(value, dict | list) else _text(value)
        case BasicType.BOOLEAN:
            return lambda value: value if isinstance(value, bool) else texts.boolean(_text(value))
        case BasicType.FLOAT:
            return _of_text("Float", lambda text: texts.float32(texts.double(text)))
        case BasicType.DOUBLE:
            return _of_text("Double", texts.double)
        case BasicType.BIG_INT:
            return _of_text("BigInteger", texts.whole_number(None))
        case BasicType.BIG_DEC:
            return _of_text("BigDecimal", texts.big_decimal)
        case BasicType.CHAR:
            return _character
    return _of_text("a point in time such as 2026-01-31T12:00:00Z", texts.instant)


def _json_text(value: Any) -> str:
    """A part of the message as it is written, without blanks."""
    return msgspec.json.encode(_unhooked(value)).decode()


def _unhooked(value: Any) -> Any:
    if isinstance(value, _Fraction):
        return msgspec.Raw(str(without_zeros(Decimal(value))).encode())
    if isinstance(value, dict):
        return {name: _unhooked(part) for name, part in value.items()}
    return [_unhooked(part) for part in value] if isinstance(value, list) else value


def _whole(name: str, bits: int) -> Convert:
    parse, half = texts.whole_number(bits), 1 << (bits - 1)

    def convert(value: Any) -> int:
        if isinstance(value, _Fraction) and -half <= (number := Decimal(value)) <= half - 1:
            return int(number)
        try:
            return parse(_text(value))
        except ValueError:
            raise _Misfit(name, value) from None

    return convert


def _of_text(expected: str, parse: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return parse(_text(value))
        except ValueError:
            raise _Misfit(expected, value) from None

    return convert


def _character(value: Any) -> str:
    if type(value) is not str or len(value) != 1:
        raise _Misfit("one character", value)
    return value


def _bytes_of(value: Any) -> bytes:
    try:
        if type(value) is str:
            return base64.b64decode(value, validate=True)
    except binascii.Error:
        pass
    raise _Misfit("bytes in Base64", value)


_TIMES: dict[type, tuple[str, Callable[[str], Any]]] = {
    DateTypeInfo: ("a date such as 2026-01-31", texts.iso_date),
    TimeTypeInfo: ("a time such as 12:00:00Z", texts.iso_time),
    TimestampTypeInfo: ("a timestamp such as 2026-01-31T12:00:00Z", texts.iso_timestamp),
}
