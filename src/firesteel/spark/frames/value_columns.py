"""Python values as columns of a Spark DataFrame: finds a type that fits all values of a column, and converts them.

Spark is not needed here: types are written in its DDL. What Spark cannot express, and values that do not go together,
become text: JSON where that can say it, else what ``repr`` says.

>>> table_of([("a", [1, 2]), ("b", [])], ("key", "value"))
([('a', [1, 2]), ('b', [])], '`key` string, `value` array<bigint>')
>>> table_of([("a", 1), ("b", {"x": None})], ("key", "value"))
([('a', '1'), ('b', '{"x": null}')], '`key` string, `value` string')
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

from firesteel.common.types import Row
from firesteel.contracts.windows import TimeWindow

__all__ = ["RecordColumns", "table_of"]

_LONGEST = 38  # digits of Spark's decimals


@dataclasses.dataclass(frozen=True, slots=True)
class _Type:
    """A Spark type: its name, and the types inside. A struct has the ``names`` of its fields."""

    name: str
    inner: tuple[_Type, ...] = ()
    names: tuple[str, ...] = ()
    digits: tuple[int, int] = (0, 0)  # of a decimal: before and after the point

    def ddl(self) -> str:
        match self.name:
            case "array":
                return f"array<{self.inner[0].ddl()}>"
            case "map":
                return f"map<{self.inner[0].ddl()}, {self.inner[1].ddl()}>"
            case "struct":
                fields = zip(self.names, self.inner, strict=True)
                return f"struct<{', '.join(f'{_quoted(name)}: {kind.ddl()}' for name, kind in fields)}>"
            case "decimal":
                return f"decimal({sum(self.digits)}, {self.digits[1]})"
            case "unknown":
                return "string"
        return self.name


_UNKNOWN = _Type("unknown")  # nothing but None so far
_TEXT = _Type("string")
_LONG = _Type("bigint")
_DOUBLE = _Type("double")


def table_of(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> tuple[list[tuple[Any, ...]], str]:
    """The rows as ``createDataFrame`` takes them, and the schema."""
    columns = [[row[index] for row in rows] for index in range(len(names))]
    types = [_common(map(_type_of, column)) for column in columns]
    converted = [list(map(_converter(kind), column)) for kind, column in zip(types, columns, strict=True)]
    schema = ", ".join(f"{_quoted(name)} {kind.ddl()}" for name, kind in zip(names, types, strict=True))
    return list(zip(*converted, strict=True)), schema


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# Finding types --------------------------------------------------------------------------------------


def _type_of(value: Any) -> _Type:
    match value:
        case None:
            return _UNKNOWN
        case enum.Enum() | str():
            return _TEXT
        case bool():
            return _Type("boolean")
        case int():
            return _LONG if -(2**63) <= value < 2**63 else _TEXT
        case float():
            return _DOUBLE
        case bytes() | bytearray():
            return _Type("binary")
        case decimal.Decimal():
            return _decimal(value)
        case datetime.datetime():
            return _Type("timestamp_ntz" if value.tzinfo is None else "timestamp")
        case datetime.date():
            return _Type("date")
    return _type_of_composite(value)


def _type_of_composite(value: Any) -> _Type:
    fields = _fields(value)
    if fields is not None:
        names = tuple(fields)
        if not names or len({name.lower() for name in names}) < len(names):  # Spark does not tell them apart
            return _TEXT
        return _Type("struct", tuple(map(_type_of, fields.values())), names)
    if isinstance(value, dict):
        return _map(value)
    if isinstance(value, list | set | frozenset):
        return _Type("array", (_common(map(_type_of, value)),))
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _type_of(value.tolist())
    return _TEXT


def _decimal(value: decimal.Decimal) -> _Type:
    if not value.is_finite():
        return _TEXT
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    after = max(0, -exponent)
    return _fitting_decimal(max(1, len(digits) + exponent), after)


def _fitting_decimal(before: int, after: int) -> _Type:
    return _Type("decimal", digits=(before, after)) if before + after <= _LONGEST else _TEXT


def _map(value: dict[Any, Any]) -> _Type:
    if None in value:
        return _TEXT
    keys, values = _common(map(_type_of, value)), _common(map(_type_of, value.values()))
    if keys == _TEXT and not all(isinstance(key, str) for key in value):
        return _TEXT  # different keys might become the same text
    return _Type("map", (keys, values))


def _common(types: Iterable[_Type]) -> _Type:
    return reduce(_both, types, _UNKNOWN)


def _both(left: _Type, right: _Type) -> _Type:
    """A type for the values of both."""
    if left == right or right is _UNKNOWN:
        return left
    if left is _UNKNOWN:
        return right
    if {left, right} == {_LONG, _DOUBLE}:
        return _DOUBLE
    if left.name != right.name or left.names != right.names:
        return _TEXT
    if left.name == "decimal":
        return _fitting_decimal(*map(max, left.digits, right.digits))
    return dataclasses.replace(left, inner=tuple(map(_both, left.inner, right.inner)))


# Converting -----------------------------------------------------------------------------------------


def _converter(kind: _Type) -> Callable[[Any], Any]:
    match kind.name:
        case "string":
            return _text
        case "double":
            return lambda value: None if value is None else float(value)
        case "binary":
            return lambda value: None if value is None else bytearray(value)
        case "array":
            return _array_converter(_converter(kind.inner[0]))
        case "map":
            return _map_converter(*map(_converter, kind.inner))
        case "struct":
            return _struct_converter(list(map(_converter, kind.inner)))
    return lambda value: value.tolist() if hasattr(value, "tolist") else value


def _array_converter(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> list[Any] | None:
        return None if value is None else list(map(convert, value))

    return converted


def _map_converter(convert_key: Callable[[Any], Any], convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> dict[Any, Any] | None:
        return None if value is None else {convert_key(key): convert(each) for key, each in value.items()}

    return converted


def _struct_converter(converters: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def converted(value: Any) -> tuple[Any, ...] | None:
        fields = _fields(value)
        if fields is None:
            return None
        return tuple(convert(each) for convert, each in zip(converters, fields.values(), strict=True))

    return converted


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of what becomes a struct, by name; None for anything else."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, TimeWindow):
        return {"start": value.start, "end": value.end}
    names: Any
    if isinstance(value, Row):
        names, values = value._fields, tuple(value)
    elif isinstance(value, tuple):
        names, values = getattr(value, "_fields", None), tuple(value)
    else:
        return None
    return dict(zip(names or [f"_{number}" for number in range(1, len(values) + 1)], values, strict=True))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, str):
        return str(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)


# Records --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RecordColumns:
    """The columns that some records have, by name, in the order in which they came.

    Records with fields have a column for each; dicts with text as keys have one for each key; others have the column
    ``value``. A record without a field that others have has None there.
    """

    types: dict[str, _Type] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, records: Sequence[Any]) -> RecordColumns:
        """The columns of these records, each of a type that fits all its values."""
        columns: dict[str, _Type] = {}
        for record in records:
            for name, value in _columns_of(record).items():
                columns[name] = _both(columns.get(name, _UNKNOWN), _type_of(value))
        return cls(columns)

    def merged(self, other: RecordColumns) -> RecordColumns:
        """The columns of both; one that both have gets a type that fits the values of either."""
        columns = dict(self.types)
        for name, kind in other.types.items():
            columns[name] = _both(columns.get(name, _UNKNOWN), kind)
        return RecordColumns(columns)

    def ddl(self) -> str:
        """The schema, as Spark reads it."""
        return ", ".join(f"{_quoted(name)} {kind.ddl()}" for name, kind in self.types.items())

    def rows(self, records: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The records as ``createDataFrame`` takes them."""
        converters = [(name, _converter(kind)) for name, kind in self.types.items()]
        columns = map(_columns_of, records)
        return [tuple(convert(values.get(name)) for name, convert in converters) for values in columns]


def _columns_of(record: Any) -> dict[str, Any]:
    if isinstance(record, dict) and record and all(isinstance(name, str) for name in record):
        return record
    fields = _fields(record)
    return fields or {"value": record}
