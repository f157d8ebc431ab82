"""How Java prints values of a declared type: what file sinks write and `DataStream.print` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

from firesteel.common._java_numbers import format_float32, format_float64
from firesteel.common._type_basics import BasicType, BasicTypeInfo, TypeInformation
from firesteel.common._type_composites import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from firesteel.common._type_times import DateTypeInfo, LocalTimeTypeInfo, TimestampTypeInfo, TimeTypeInfo
from firesteel.common.time import Instant

__all__ = ["java_formatter", "java_to_string", "print_formatter", "print_to_string"]

Formatter = Callable[[Any], str]


def java_to_string(value: Any, type_info: TypeInformation | None = None) -> str:
    """Return what Java's toString would print; for many values, keep a `java_formatter`.

    >>> from firesteel.common import Row, Types
    >>> java_to_string(Row("a", 1e10, None), Types.ROW([Types.STRING(), Types.DOUBLE(), Types.INT()]))
    '+I[a, 1.0E10, null]'
    >>> java_to_string(("a", True), Types.TUPLE([Types.STRING(), Types.BOOLEAN()]))
    '(a,true)'
    """
    return java_formatter(type_info)(value)


def print_to_string(value: Any, type_info: TypeInformation | None = None) -> str:
    """Return what `DataStream.print` shows; for many values, keep a `print_formatter`.

    >>> from firesteel.common import Row, Types
    >>> print_to_string(Row("a", 1), Types.ROW([Types.STRING(), Types.INT()]))
    '+I[a,1]'
    >>> print_to_string(["a", None])
    "['a', None]"
    """
    return print_formatter(type_info)(value)


def print_formatter(type_info: TypeInformation | None) -> Formatter:
    """Return the function behind `print_to_string` for one declared type."""
    plain = type_info.type_info if isinstance(type_info, ExternalTypeInfo) else type_info
    return _print_row if isinstance(plain, RowTypeInfo) else java_formatter(plain)


def _print_row(row: Any) -> str:
    return f"{row.get_row_kind()}[{','.join(map(str, row))}]"


def java_formatter(type_info: TypeInformation | None) -> Formatter:
    """Return the function behind `java_to_string` for one declared type; untyped values print as in Python."""
    if isinstance(type_info, BasicTypeInfo):
        return _or_null(_BASIC.get(type_info.basic_type, str))
    for kind, build in _BUILDERS.items():
        if isinstance(type_info, kind):
            return _or_null(build(type_info))
    return str


def _or_null(text: Formatter) -> Formatter:
    return lambda value: "null" if value is None else text(value)


# Single values.


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _instant(value: Instant) -> str:
    moment = datetime(1970, 1, 1) + timedelta(seconds=value.seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{_fraction(value.nanos)}Z"


def _fraction(nanos: int) -> str:
    """Print a fraction of a second in groups of three digits, as java.time does."""
    if nanos == 0:
        return ""
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def _sql_timestamp(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}.{f'{value.microsecond:06d}'.rstrip('0') or '0'}"


def _sql_time(value: time) -> str:
    return f"{value:%H:%M:%S}"


def _local_time(value: time | datetime) -> str:
    fraction = _fraction(value.microsecond * 1000)
    return f"{value:%H:%M:%S}{fraction}" if value.second or fraction else f"{value:%H:%M}"


def _local(value: date | time | datetime) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}T{_local_time(value)}"
    return _local_time(value) if isinstance(value, time) else value.isoformat()


def _signed_bytes(value: bytes) -> str:
    return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"


_BASIC: dict[BasicType, Formatter] = {
    BasicType.BOOLEAN: _boolean,
    BasicType.FLOAT: format_float32,
    BasicType.DOUBLE: format_float64,
    BasicType.INSTANT: _instant,
}

# Composites.


def _elements(kind: Any) -> Formatter:
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind.is_bytes:
        return _signed_bytes
    element = java_formatter(kind.element_type)
    return lambda value: f"[{', '.join(map(element, value))}]"


def _map(kind: MapTypeInfo) -> Formatter:
    key, item = java_formatter(kind.key_type), java_formatter(kind.value_type)
    return lambda value: "{" + ", ".join(f"{key(k)}={item(v)}" for k, v in value.items()) + "}"


def _fields(types: Sequence[TypeInformation], separator: str) -> Formatter:
    formatters = [java_formatter(kind) for kind in types]
    return lambda value: separator.join(f(item) for f, item in zip(formatters, value, strict=False))


def _tuple(kind: TupleTypeInfo) -> Formatter:
    fields = _fields(kind.get_field_types(), ",")
    return lambda value: f"({fields(value)})"


def _row(kind: RowTypeInfo) -> Formatter:
    fields = _fields(kind.get_field_types(), ", ")
    return lambda value: f"{value.get_row_kind()}[{fields(value)}]"


_BUILDERS: dict[type[TypeInformation], Callable[[Any], Formatter]] = {
    RowTypeInfo: _row,
    TupleTypeInfo: _tuple,
    MapTypeInfo: _map,
    PrimitiveArrayTypeInfo: _elements,
    BasicArrayTypeInfo: _elements,
    ObjectArrayTypeInfo: _elements,
    ListTypeInfo: _elements,
    ExternalTypeInfo: lambda kind: java_formatter(kind.type_info),
    DateTypeInfo: lambda _: date.isoformat,
    TimeTypeInfo: lambda _: _sql_time,
    TimestampTypeInfo: lambda _: _sql_timestamp,
    LocalTimeTypeInfo: lambda _: _local,
}
