"""From records to the parameters of a statement: rows, tuples, lists, dicts, and objects with attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from firesteel.common.types import Row
from firesteel.connectors.jdbc.database import Parameters, StatementFailed
from firesteel.connectors.jdbc.statement import Statement

__all__ = ["parameters_of"]


def parameters_of(statement: Statement, type_info: TypeInformation | None) -> Callable[[Any], Parameters]:
    """The function that takes records apart. Raises when the declared fields do not fit the statement."""
    names = _field_names(type_info)
    if statement.names is not None:
        unknown = [name for name in statement.names if names is not None and name not in names]
        if unknown:
            raise ProgramError(
                f"the statement has parameters {unknown}, but the records have fields {list(names or ())}"
            )
        return _by_name(statement.names, names)
    fields = _arity(type_info)
    if fields is not None and fields != statement.count:
        raise ProgramError(
            f"the statement has {statement.count} parameters, but the records have {fields} fields ({type_info})"
        )
    return _by_position(statement.count, names)


def _field_names(type_info: TypeInformation | None) -> tuple[str, ...] | None:
    return tuple(type_info.get_field_names()) if isinstance(type_info, RowTypeInfo) else None


def _arity(type_info: TypeInformation | None) -> int | None:
    """How many fields records have; None when that was not declared."""
    return len(type_info.get_field_types()) if isinstance(type_info, RowTypeInfo | TupleTypeInfo) else None


def _by_position(count: int, names: tuple[str, ...] | None) -> Callable[[Any], Parameters]:
    def take(record: Any) -> Parameters:
        match record:
            case Row():
                values = record._values
            case tuple():
                values = tuple(record)
            case list():
                values = tuple(record)
            case dict() if names is not None:
                values = _items(record, names)
            case _ if count == 1 and names is None:
                values = (record,)
            case _:
                values = _attributes(record, names)
        if len(values) != count:
            raise StatementFailed(
                f"the statement has {count} parameters, the record {short_repr(record)} has {len(values)} fields"
            )
        return values

    return take


def _by_name(wanted: tuple[str, ...], names: tuple[str, ...] | None) -> Callable[[Any], Parameters]:
    positions = None if names is None else [names.index(name) for name in wanted]

    def take(record: Any) -> Parameters:
        match record:
            case dict():
                return _items(record, wanted)
            case Row() if record._fields is not None:
                return _items(record.as_dict(), wanted)
            case Row() | tuple() | list() if positions is not None and not hasattr(record, "_asdict"):
                return tuple(record[position] for position in positions)
            case _:
                return _attributes(record, wanted)

    return take


def _items(record: dict[str, Any], names: tuple[str, ...]) -> Parameters:
    try:
        return tuple(record[name] for name in names)
    except KeyError as error:
        raise StatementFailed(f"the record {short_repr(record)} has no field {error}") from None


def _attributes(record: Any, names: tuple[str, ...] | None) -> Parameters:
    if names is None:
        raise StatementFailed(
            f"a record for a database is a row, a tuple or a list, got {short_repr(record)} ({type(record).__name__}); "
            "for dicts and objects give a row type with names, or use named parameters (:name)"
        )
    try:
        return tuple(getattr(record, name) for name in names)
    except AttributeError as error:
        raise StatementFailed(f"the record {short_repr(record)} has no field {error.name!r}") from None
