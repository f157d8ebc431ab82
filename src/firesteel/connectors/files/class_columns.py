"""Which columns the records of a class have in Parquet and ORC files."""

from __future__ import annotations

import enum
import types
import typing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import pyarrow as pa

from firesteel.common.errors import ProgramError
from firesteel.connectors.files.arrow_columns import Column, Lists, Maps, Plain, Structs
from firesteel.formats.record_classes import is_record_class, record_class


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError
    return value


def _micros(value: timedelta) -> int:
    return value // timedelta(microseconds=1)


_LEAVES: dict[Any, Plain] = {
    str: Plain(pa.string(), "str", (str,)),
    bool: Plain(pa.bool_(), "bool", (object,)),
    int: Plain(pa.int64(), "int of 64 bits", (Integral,)),
    float: Plain(pa.float64(), "float", (Real,)),
    bytes: Plain(pa.binary(), "bytes", (bytes, bytearray, memoryview)),
    Decimal: Plain(
        pa.decimal128(38, 18),
        "Decimal with at most 20 digits before and 18 behind the point",
        (Decimal, Integral),
    ),
    date: Plain(pa.date32(), "date", (date,)),
    time: Plain(pa.time64("us"), "time", (time,)),
    datetime: Plain(pa.timestamp("us", "UTC"), "datetime with a zone", (datetime,), _aware),
    timedelta: Plain(pa.duration("us"), "timedelta", (timedelta,), _micros),
    UUID: Plain(pa.string(), "UUID", (UUID,), str),
}


def columns_of_class(cls: type) -> Structs:
    """A column for each field."""
    described = record_class(cls)
    fields, columns = [], []
    for name, hint in zip(described.names, described.hints, strict=True):
        inner, nullable = _without_none(hint)
        column = _column(inner, f"field {name!r} of {cls.__qualname__}")
        columns.append(column)
        fields.append(pa.field(name, column.kind, nullable or name in described.optional))
    return Structs(pa.struct(fields), cls.__qualname__, tuple(columns))


def _column(hint: Any, what: str) -> Column:
    if hint in _LEAVES:
        return _LEAVES[hint]
    if is_record_class(hint):
        return columns_of_class(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint, what)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
        inner, nullable = _without_none(arguments[0])
        element = _column(inner, what)
        return Lists(pa.list_(pa.field("element", element.kind, nullable)), str(hint), element)
    if origin is dict:
        inner, nullable = _without_none(arguments[1])
        key, item = _column(arguments[0], what), _column(inner, what)
        kind = pa.map_(key.kind, pa.field("value", item.kind, nullable))
        return Maps(kind, str(hint), key, item)
    raise ProgramError(
        f"files have no type for {what}, which is {hint!r}; use a type such as int, str, datetime, list[int], dict[str, int] "
        "or a class of such fields, or give a pyarrow.Schema"
    )


def _enum(hint: type[enum.Enum], what: str) -> Plain:
    kinds = {type(member.value) for member in hint}
    if len(kinds) != 1 or (kind := kinds.pop()) not in (int, str):
        raise ProgramError(
            f"the values of {hint.__qualname__}, {what}, must all be texts or all be whole numbers"
        )
    return Plain(_LEAVES[kind].kind, hint.__qualname__, (hint,), lambda member: member.value)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(hint) if each is not type(None)]
        if len(others) < len(typing.get_args(hint)):
            return others[0] if len(others) == 1 else hint, True
    return hint, False
