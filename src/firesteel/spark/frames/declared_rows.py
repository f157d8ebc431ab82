"""Which columns the records of a stream have, by what is declared: a type, a class, a schema of Spark or of Arrow."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from firesteel.common.errors import ProgramError, WrongArgumentError, short_repr
from firesteel.common.typeinfo import (
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from firesteel.connectors.files.arrow_types import columns_of

#: The column of records that have no fields.
VALUE = "value"

_CLASSES: dict[Any, Callable[[], TypeInformation]] = {
    bool: Types.BOOLEAN,
    int: Types.LONG,
    float: Types.DOUBLE,
    str: Types.STRING,
    bytes: lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    decimal.Decimal: Types.BIG_DEC,
    datetime.datetime: lambda: LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME),
    datetime.date: Types.SQL_DATE,
    datetime.time: Types.SQL_TIME,
}


@dataclass(frozen=True)
class DeclaredRows:
    """The row type, as writers of files take it; ``single``: records are the values of its only column."""

    row_type: Any
    single: bool = False

    def rows(self, records: Sequence[Any]) -> list[Any]:
        """The records as rows of `row_type`: single values become tuples of one."""
        return [(record,) for record in records] if self.single else list(records)

    def arrow_schema(self) -> pa.Schema:
        """The columns of the row type, as Arrow has them in files; refuses a type that has none."""
        return pa.schema(list(columns_of(self.row_type, local_zone=True).kind))


def declared_rows(declared: TypeInformation | None, schema: Any = None) -> DeclaredRows | None:
    """What ``schema`` says, else the declared type; None when that says nothing, or too little."""
    if schema is not None:
        return _of_schema(schema)
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        return None
    try:
        return _of_type(declared)
    except ProgramError:
        return None  # a field may be anything


def _of_type(declared: TypeInformation) -> DeclaredRows:
    if isinstance(declared, RowTypeInfo | TupleTypeInfo):
        return _checked(DeclaredRows(declared))
    return _checked(DeclaredRows(Types.ROW_NAMED([VALUE], [declared]), single=True))


def _checked(rows: DeclaredRows) -> DeclaredRows:
    rows.arrow_schema()
    return rows


def _of_schema(schema: Any) -> DeclaredRows:
    if isinstance(schema, TypeInformation):
        return _of_type(schema)
    if isinstance(schema, pa.Schema):
        return _checked(DeclaredRows(schema))
    if type(schema).__module__.startswith("pyspark.sql.types"):
        from pyspark.sql.pandas.types import to_arrow_schema

        return _checked(DeclaredRows(to_arrow_schema(schema, timezone="UTC")))
    if isinstance(schema, type):
        return _of_type(_type_of_class(schema))
    raise WrongArgumentError(
        "a schema is type information such as Types.ROW_NAMED(names, types), a dataclass or NamedTuple, a StructType of "
        f"Spark or a pyarrow.Schema, got {short_repr(schema)}"
    )


def _type_of_class(kind: Any) -> TypeInformation:
    if kind in _CLASSES:
        return _CLASSES[kind]()
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        if len(others) == 1:
            return _type_of_class(others[0])  # any column may be null
    elif origin in (list, collections.abc.Sequence) and len(arguments) == 1:
        return Types.LIST(_type_of_class(arguments[0]))
    elif origin in (dict, collections.abc.Mapping) and len(arguments) == 2:
        return Types.MAP(*map(_type_of_class, arguments))
    elif origin is tuple and arguments and Ellipsis not in arguments:
        return Types.TUPLE([_type_of_class(argument) for argument in arguments])
    elif isinstance(kind, type) and (names := _field_names(kind)):
        hints = typing.get_type_hints(kind)
        return Types.ROW_NAMED(list(names), [_type_of_class(hints.get(name, Any)) for name in names])
    raise ProgramError(
        f"no column of a DataFrame is known for {kind!r}; give a schema, for example Types.ROW_NAMED(names, types)"
    )


def _field_names(kind: type) -> Sequence[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if typing.is_typeddict(kind):
        return list(kind.__annotations__)
    return list(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else []
