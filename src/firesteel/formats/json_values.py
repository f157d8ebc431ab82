"""Single values of a declared type as JSON, and back: what queries of state send and get.

Unlike rows of messages (`json_rows`) a value comes back as it was, with the declared type alone: tuples are arrays, maps whose keys
are not texts are arrays of pairs, bytes are Base64, decimals are texts, and so are numbers that JSON does not have.

Where no type is declared a value is what it looks like: tuples, lists and sets become arrays, rows and objects of dataclasses become
objects, and what has no such form is refused. Nothing is ever pickled here.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import enum
import math
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from firesteel.common.errors import TypeMismatchError
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
from firesteel.common.types import Row
from firesteel.formats import text_values as texts

__all__ = ["reader", "writer"]

One = Callable[[Any], Any]
_LISTS = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo)
_TEXTS = (BasicType.STRING, BasicType.CHAR)
_NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


# Values to JSON ---------------------------------------------------------------------------------------


def writer(type_info: TypeInformation | None) -> One:
    """What makes of a value of the type something that `json.dumps` writes.

    >>> from firesteel.common.typeinfo import Types
    >>> writer(Types.TUPLE([Types.STRING(), Types.DOUBLE()]))(("a", float("nan")))
    ['a', 'NaN']
    >>> writer(Types.MAP(Types.INT(), Types.STRING()))({1: "one"})
    [[1, 'one']]
    """
    convert = None if type_info is None else type_info._nullable_converter()
    write = _writer(type_info)
    if convert is None:
        return write

    def checked(value: Any) -> Any:
        (converted,) = convert([value])  # what the type promises: no writer below looks again
        return write(converted)

    return checked


def _writer(kind: TypeInformation | None) -> One:
    if isinstance(kind, ExternalTypeInfo):
        return _writer(kind.type_info)
    if isinstance(kind, BasicTypeInfo):
        return _nullable(_BASIC_WRITERS.get(kind.basic_type, _same))
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind.is_bytes:
        return _nullable(_base64)
    if isinstance(kind, (*_LISTS, PrimitiveArrayTypeInfo)):
        element = _writer(kind.element_type)
        return _nullable(lambda value: [element(each) for each in value])
    if isinstance(kind, TupleTypeInfo):
        parts = [_writer(each) for each in kind.get_field_types()]
        return _nullable(lambda value: [part(each) for part, each in zip(parts, value, strict=True)])
    if isinstance(kind, RowTypeInfo):
        return _row_writer(kind)
    if isinstance(kind, MapTypeInfo):
        return _map_writer(kind)
    return plain_json  # times have one form, whatever their type


def _row_writer(kind: RowTypeInfo) -> One:
    fields = [
        (name, _writer(each))
        for name, each in zip(kind.get_field_names(), kind.get_field_types(), strict=True)
    ]
    return _nullable(
        lambda value: {name: part(each) for (name, part), each in zip(fields, value, strict=True)}
    )


def _map_writer(kind: MapTypeInfo) -> One:
    key, item = _writer(kind.key_type), _writer(kind.value_type)
    if _is_text(kind.key_type):
        return _nullable(lambda value: {key(name): item(each) for name, each in value.items()})
    return _nullable(lambda value: [[key(name), item(each)] for name, each in value.items()])


def plain_json(value: Any) -> Any:
    """A value without a declared type as JSON; refuses what has no form there."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    for kinds, write in _PLAIN_WRITERS:
        if isinstance(value, kinds):
            return write(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    hint = "declare the type of the state, or keep what JSON has: texts, numbers, lists, dicts, tuples, times, dataclasses"
    raise TypeMismatchError("a value that has a form in JSON", value, hint=hint)


def _plain_row(value: Row) -> Any:
    if value._fields is not None:
        return {name: plain_json(each) for name, each in zip(value._fields, value, strict=True)}
    return [plain_json(each) for each in value]


def _plain_items(value: Any) -> list[Any]:
    return [plain_json(each) for each in value]


def _plain_map(value: Mapping[Any, Any]) -> Any:
    if all(type(key) is str for key in value):
        return {key: plain_json(each) for key, each in value.items()}
    return [[plain_json(key), plain_json(each)] for key, each in value.items()]


def _number(value: float) -> Any:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(value: Any) -> str:
    return base64.b64encode(value).decode()


def _isoformat(value: Any) -> str:
    return str(value.isoformat())


_BASIC_WRITERS: dict[BasicType, One] = {
    BasicType.FLOAT: _number,
    BasicType.DOUBLE: _number,
    BasicType.BIG_DEC: str,
    BasicType.INSTANT: texts.instant_text,
}
_PLAIN_WRITERS: tuple[tuple[type | tuple[type, ...], One], ...] = (
    (str, str.__str__),
    (Integral, int),  # numpy's, too
    (Real, _number),
    ((bytes, bytearray, memoryview), _base64),
    ((Decimal, uuid.UUID), str),
    ((datetime.date, datetime.time), _isoformat),
    (Instant, texts.instant_text),
    (Row, _plain_row),
    (Mapping, _plain_map),
    ((list, tuple, set, frozenset), _plain_items),
)


# JSON to values ---------------------------------------------------------------------------------------


def reader(type_info: TypeInformation | None) -> One:
    """What makes a value of the type of what `json.loads` gives; raises TypeMismatchError for what is none.

    Without a type it is what it is.

    >>> from firesteel.common.typeinfo import Types
    >>> reader(Types.TUPLE([Types.STRING(), Types.DOUBLE()]))(["a", 1])
    ('a', 1.0)
    """
    kind = type_info
    if isinstance(kind, ExternalTypeInfo):
        return reader(kind.type_info)
    if isinstance(kind, BasicTypeInfo):
        return _basic_reader(kind)
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind.is_bytes:
        return _of_text("bytes in Base64", _bytes_of)
    if isinstance(kind, (*_LISTS, PrimitiveArrayTypeInfo)):
        element = reader(kind.element_type)
        return _of_kind(list, "an array", lambda value: _each(element, value))
    if isinstance(kind, TupleTypeInfo):
        return _tuple_reader(kind)
    if isinstance(kind, RowTypeInfo):
        return _row_reader(kind)
    if isinstance(kind, MapTypeInfo):
        return _map_reader(kind)
    for times, expected, parse in _TIME_READERS:
        if isinstance(kind, times):
            return _of_text(expected, parse)
    if isinstance(kind, LocalTimeTypeInfo):
        expected, parse = _LOCAL_READERS[kind._time_type]
        return _of_text(expected, parse)
    return _same


def _basic_reader(kind: BasicTypeInfo[Any]) -> One:
    basic = kind.basic_type
    if basic in _TEXT_READERS:
        return _of_text(*_TEXT_READERS[basic])
    name = basic.value
    convert = kind._nullable_converter()
    accepted: tuple[type, ...] = {
        BasicType.STRING: (str,),
        BasicType.CHAR: (str,),
        BasicType.BOOLEAN: (bool,),
        BasicType.FLOAT: (int, float),
        BasicType.DOUBLE: (int, float),
    }.get(basic, (int,))
    assert convert is not None

    def read(value: Any) -> Any:
        if value is None:
            return None
        if float in accepted and isinstance(value, str) and value in _NOT_NUMBERS:
            return _NOT_NUMBERS[value]
        is_fit = isinstance(value, accepted) and (bool in accepted or not isinstance(value, bool))
        if not is_fit:
            raise TypeMismatchError(name, value)
        (converted,) = convert([value])
        # A number that does not fit into that many bits would wrap around, and mean another key.
        if int in accepted and float not in accepted and converted != value:
            raise TypeMismatchError(name, value)
        return converted

    return read


def _tuple_reader(kind: TupleTypeInfo) -> One:
    parts = [reader(each) for each in kind.get_field_types()]
    expected = f"an array of {len(parts)}"

    def read(value: Any) -> Any:
        if len(value) != len(parts):
            raise TypeMismatchError(expected, value)
        return tuple(
            _at(f"field {index}", part, each)
            for index, (part, each) in enumerate(zip(parts, value, strict=True))
        )

    return _of_kind(list, expected, read)


def _row_reader(kind: RowTypeInfo) -> One:
    names = kind.get_field_names()
    fields = list(zip(names, map(reader, kind.get_field_types()), strict=True))
    expected = f"an object with {', '.join(names)}"

    def read(value: Any) -> Any:
        unknown = [name for name in value if name not in names]
        if unknown:
            raise TypeMismatchError(expected, value)
        return Row._make(
            [_at(f"field {name!r}", part, value.get(name)) for name, part in fields], tuple(names)
        )

    return _of_kind(dict, expected, read)


def _map_reader(kind: MapTypeInfo) -> One:
    key, item = reader(kind.key_type), reader(kind.value_type)
    if _is_text(kind.key_type):
        return _of_kind(
            dict,
            "an object",
            lambda value: {key(name): _at(f"entry {name!r}", item, each) for name, each in value.items()},
        )

    def read(value: Any) -> Any:
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise TypeMismatchError("an array of pairs", value)
        return {key(name): item(each) for name, each in value}

    return _of_kind(list, "an array of pairs", read)


def _is_text(kind: TypeInformation) -> bool:
    return isinstance(kind, BasicTypeInfo) and kind.basic_type in _TEXTS


def _nullable(one: One) -> One:
    return lambda value: None if value is None else one(value)


def _same(value: Any) -> Any:
    return value


def _each(element: One, values: list[Any]) -> list[Any]:
    return [_at(f"element {index}", element, each) for index, each in enumerate(values)]


def _at(step: str, one: One, value: Any) -> Any:
    try:
        return one(value)
    except TypeMismatchError as error:
        raise error.at(step, None) from None


def _of_kind(kind: type, expected: str, one: One) -> One:
    def read(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not kind:
            raise TypeMismatchError(expected, value)
        return one(value)

    return read


def _of_text(expected: str, parse: Callable[[str], Any]) -> One:
    def read(value: Any) -> Any:
        try:
            return None if value is None else parse(value)
        except (TypeError, ValueError, AttributeError):
            raise TypeMismatchError(expected, value) from None

    return read


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


_TEXT_READERS: dict[BasicType, tuple[str, Callable[[str], Any]]] = {
    BasicType.BIG_DEC: ("a number as text", texts.big_decimal),
    BasicType.INSTANT: ("a point in time such as 2026-01-31T12:00:00Z", texts.instant),
}
_DATE = ("a date such as 2026-01-31", datetime.date.fromisoformat)
_TIME = ("a time such as 12:00:00", datetime.time.fromisoformat)
_TIMESTAMP = ("a timestamp such as 2026-01-31T12:00:00", datetime.datetime.fromisoformat)
_TIME_READERS: tuple[tuple[type, str, Callable[[str], Any]], ...] = (
    (DateTypeInfo, *_DATE),
    (TimeTypeInfo, *_TIME),
    (TimestampTypeInfo, *_TIMESTAMP),
)
_LOCAL_READERS = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: _DATE,
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: _TIME,
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: _TIMESTAMP,
}
