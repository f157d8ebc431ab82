"""The Avro schema of a class, made from the annotations of its fields."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
import uuid
from decimal import Decimal
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from firesteel.common.errors import InvalidArgumentError

__all__ = ["avro_schema_of", "field_names"]

#: Of decimals without a schema of their own; as Parquet files have them.
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}

_SIMPLE: dict[Any, Any] = {
    str: "string",
    int: "long",
    float: "double",
    bool: "boolean",
    bytes: "bytes",
    types.NoneType: "null",
    Decimal: DECIMAL,
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    datetime.timedelta: "string",  # ISO 8601: what Avro calls a duration counts months
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_NUMPY = {"i": "long", "u": "long", "f": "double", "b": "boolean"}
_ARRAYS = (list, tuple, set, frozenset)


def avro_schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a dataclass, TypedDict, named tuple or msgspec struct.

    A field with a default has it in the schema, too: that is what lets readers meet records from before the field.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Order:
    ...     id: int
    ...     note: str | None = None
    >>> avro_schema_of(Order)["fields"]
    [{'name': 'id', 'type': 'long'}, {'name': 'note', 'type': ['null', 'string'], 'default': None}]
    """
    if not field_names(kind):
        raise InvalidArgumentError(
            f"an Avro schema needs a class with annotated fields (dataclass, TypedDict, NamedTuple or Struct), got {kind!r}"
        )
    schema: dict[str, Any] = _record(kind, set())
    return schema


def field_names(kind: Any) -> list[str]:
    """The fields of such a class; empty for others."""
    if not isinstance(kind, type):
        return []
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if issubclass(kind, tuple):
        return list(getattr(kind, "_fields", ()))
    if issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    is_typed_dict = issubclass(kind, dict) and hasattr(kind, "__total__")
    return list(kind.__annotations__) if is_typed_dict else []


def _record(kind: Any, known: set[str]) -> Any:
    if kind.__name__ in known:
        return kind.__name__
    known.add(kind.__name__)
    try:
        hints = get_type_hints(kind)
    except (TypeError, NameError) as error:
        raise InvalidArgumentError(f"the annotations of {kind.__name__} cannot be read: {error}") from error
    fields = [_field(kind, name, hints.get(name, Any), known) for name in field_names(kind)]
    return {"type": "record", "name": kind.__name__, "fields": fields}


def _field(kind: Any, name: str, hint: Any, known: set[str]) -> dict[str, Any]:
    try:
        field: dict[str, Any] = {"name": name, "type": _type(hint, known)}
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"field {name!r} of {kind.__name__}: {error}") from None
    default = _default(kind, name)
    if default is not msgspec.UNSET:
        if isinstance(field["type"], list) and default is not None:
            # The default of a union is one of its first branch.
            field["type"] = sorted(field["type"], key=lambda branch: branch == "null")
        field["default"] = default
    return field


def _type(hint: Any, known: set[str]) -> Any:
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        branches = [_type(branch, known) for branch in arguments]
        return sorted(branches, key=lambda branch: branch != "null")  # None first, as is usual
    if origin is Literal:
        return _type(type(arguments[0]), known)
    if origin in _ARRAYS and (len(arguments) == 1 or arguments[1:] == (...,)):
        return {"type": "array", "items": _type(arguments[0], known)}
    if origin is dict and arguments[0] is str:
        return {"type": "map", "values": _type(arguments[1], known)}
    if isinstance(hint, type):
        if issubclass(hint, enum.Enum):
            return _type(type(next(iter(hint)).value), known)
        if hint.__module__ == "numpy":
            return _numpy(hint)
        if field_names(hint) and not issubclass(hint, tuple):
            return _record(hint, known)
    raise InvalidArgumentError(
        f"Avro has no type for {hint!r}; there are str, int, float, bool, bytes, Decimal, datetime, date, time, timedelta, "
        "UUID, enums, list[...], dict[str, ...], None and classes of these; NamedTuple only as the whole record"
    )


def _numpy(hint: Any) -> str:
    import numpy

    avro_type = _NUMPY.get(numpy.dtype(hint).kind)
    if avro_type is None:
        raise InvalidArgumentError(f"Avro has no type for {hint!r}")
    return avro_type


def _default(kind: Any, name: str) -> Any:
    """The default of a field as JSON has it; UNSET without one."""
    value: Any = msgspec.UNSET
    if dataclasses.is_dataclass(kind):
        field = next(field for field in dataclasses.fields(kind) if field.name == name)
        make: Any = field.default_factory
        if not isinstance(make, type(dataclasses.MISSING)):
            value = make()
        elif not isinstance(field.default, type(dataclasses.MISSING)):
            value = field.default
    elif issubclass(kind, tuple):
        value = kind._field_defaults.get(name, msgspec.UNSET)
    elif issubclass(kind, msgspec.Struct):
        value = _struct_default(kind, name)
    # Defaults of logical types have a form of their own; without one in the schema old records stay unreadable.
    return (
        value if isinstance(value, str | int | float | bool | types.NoneType | list | dict) else msgspec.UNSET
    )


def _struct_default(kind: Any, name: str) -> Any:
    info = next(field for field in msgspec.structs.fields(kind) if field.name == name)
    if info.default is not msgspec.NODEFAULT:
        return info.default
    return msgspec.UNSET if info.default_factory is msgspec.NODEFAULT else info.default_factory()
