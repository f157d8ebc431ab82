"""Fields of records: found by position, name or nested path, in tuples, rows, dicts, lists and objects.

A path is resolved against the stream's declared type when there is one, so that a wrong field is
refused where the program names it and names become positions. Without a type, names are looked up in
each record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from firesteel.common.errors import InvalidFieldError
from firesteel.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from firesteel.common.types import Row

__all__ = ["Field", "InvalidFieldError", "getter", "position_in_name", "read_named", "resolve"]

#: Expressions that mean the whole record (Java's and Scala's wildcard).
WHOLE = ("*", "_")
_LISTS = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


class Field(NamedTuple):
    """Steps from the record to the field (positions, or names to look up), and its type when known."""

    steps: tuple[int | str, ...]
    type: TypeInformation | None


def resolve(field: int | str, record_type: TypeInformation | None, used_by: str) -> Field:
    """Resolve a position or an expression such as ``"name"``, ``"1"``, ``"f2"``, ``"a.b.c"`` or ``"*"``.

    >>> from firesteel.common.typeinfo import Types
    >>> person = Types.ROW_NAMED(["name", "born"], [Types.STRING(), Types.TUPLE([Types.INT(), Types.INT()])])
    >>> resolve("born.f1", person, "key_by('born.f1')")
    Field(steps=(1, 1), type=Integer)
    """
    if isinstance(field, int):
        return _resolve_steps((field,), record_type, used_by)
    parts = tuple(field.split("."))
    if not field or "" in parts:
        raise InvalidFieldError(
            f"{used_by}: {field!r} is not a field; expected e.g. 'name', 'a.b', 'f0' or '*'"
        )
    if parts[-1] in WHOLE:
        parts = parts[:-1]
    return _resolve_steps(parts, record_type, used_by)


def _resolve_steps(parts: tuple[int | str, ...], record_type: TypeInformation | None, used_by: str) -> Field:
    steps: list[int | str] = []
    field_type = record_type
    for part in parts:
        step, field_type = _resolve_step(part, field_type, used_by)
        steps.append(step)
    return Field(tuple(steps), field_type)


def _resolve_step(
    part: int | str, record_type: TypeInformation | None, used_by: str
) -> tuple[int | str, TypeInformation | None]:
    inner = getattr(record_type, "_type_info", None)  # an ExternalTypeInfo around the real type
    if isinstance(inner, TypeInformation):
        record_type = inner
    if isinstance(record_type, RowTypeInfo):
        return _row_step(part, record_type, used_by)
    if isinstance(record_type, TupleTypeInfo):
        types = record_type.get_field_types()
        index = part if isinstance(part, int) else position_in_name(part)
        if index is None or not 0 <= index < len(types):
            raise InvalidFieldError(
                f"{used_by}: no field {part!r} in {record_type}; it has fields 0 to {len(types) - 1}"
            )
        return index, types[index]
    if record_type is None or isinstance(record_type, (PickledBytesTypeInfo, MapTypeInfo)):
        return _untyped_step(part), None
    if isinstance(record_type, _LISTS):
        index = part if isinstance(part, int) else position_in_name(part)
        if index is None:
            raise InvalidFieldError(
                f"{used_by}: no field {part!r} in {record_type}; its elements have positions only"
            )
        return index, None
    if part == 0:
        raise InvalidFieldError(f"{used_by}: {record_type} has no fields; use '*' for the whole value")
    raise InvalidFieldError(f"{used_by}: no field {part!r} in {record_type}, which has no fields")


def _row_step(part: int | str, row: RowTypeInfo, used_by: str) -> tuple[int, TypeInformation]:
    names, types = row.get_field_names(), row.get_field_types()
    if isinstance(part, str) and part in names:
        index = names.index(part)
    else:
        position = int(part) if isinstance(part, int) or part.isdigit() else -1
        if not 0 <= position < len(types):
            raise InvalidFieldError(f"{used_by}: no field {part!r} in {row}; it has {', '.join(names)}")
        index = position
    return index, types[index]


def _untyped_step(part: int | str) -> int | str:
    return int(part) if isinstance(part, str) and part.isdigit() else part


_POSITION_NAME = re.compile(r"(f|_)?(\d+)")


def position_in_name(name: str) -> int | None:
    """The position that a tuple field's name stands for, None when it is no such name.

    Java counts from 0 (``f0``), Scala from 1 (``_1``).

    >>> position_in_name("f2"), position_in_name("_1"), position_in_name("7"), position_in_name("age")
    (2, 0, 7, None)
    """
    match = _POSITION_NAME.fullmatch(name)
    if match is None:
        return None
    return int(match[2]) - (match[1] == "_")


def getter(steps: tuple[int | str, ...]) -> Callable[[Any], Any]:
    """The fastest picklable function from record to field.

    >>> getter((1, "b"))((0, {"b": 7}))
    7
    """
    if not steps:
        return _whole
    readers = [itemgetter(step) if isinstance(step, int) else partial(read_named, step) for step in steps]
    return readers[0] if len(readers) == 1 else partial(_read_path, tuple(readers))


def _whole(value: Any) -> Any:
    return value


def _read_path(readers: tuple[Callable[[Any], Any], ...], value: Any) -> Any:
    for read in readers:
        value = read(value)
    return value


def read_named(name: str, value: Any) -> Any:
    """The field ``name`` of a dict, row, tuple, list or object.

    >>> from firesteel.common.types import Row
    >>> read_named("a", {"a": 1}), read_named("a", Row(a=2)), read_named("f0", (3,)), read_named("imag", 4j)
    (1, 2, 3, 4.0)
    """
    if isinstance(value, dict):
        return value[name]
    if isinstance(value, (Row, tuple, list)) and not hasattr(value, name):
        position = position_in_name(name)
        if position is not None:
            return value[position]
    return getattr(value, name)
