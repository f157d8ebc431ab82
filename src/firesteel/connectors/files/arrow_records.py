"""Records from Arrow's columns, as a schema says: rows, instances of a class, dicts, or rows as the file has them.

A `Shape` is what the program declared and is pickled; once a file is open it is bound to the columns that the file has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from firesteel.common._data_types import RowType
from firesteel.common._override import override
from firesteel.common.errors import FileContentError, ProgramError
from firesteel.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from firesteel.common.types import Row
from firesteel.connectors.files.arrow_fits import Fit, fit_of
from firesteel.connectors.files.arrow_types import columns_of
from firesteel.connectors.files.data_type_columns import type_info_of
from firesteel.formats.record_classes import (
    Misfit,
    RecordClass,
    column_converter,
    is_record_class,
    record_class,
)

#: The records of a batch of columns.
Records = Callable[[pa.RecordBatch], list[Any]]


@dataclass(frozen=True)
class Bound:
    """What to read from a file, by name, and how records are made of it."""

    columns: list[str]
    records: Records


class Shape(ABC):
    """What records a program wants."""

    #: Whether names of columns differ when only the size of letters does.
    case_sensitive: bool = True

    @abstractmethod
    def bind(self, found: pa.Schema, path: str) -> Bound:
        """Records of the columns that a file has."""

    def type_info(self) -> TypeInformation | None:
        """The declared type of the records."""
        return None


def shape_of(schema: Any, local_zone: bool = True, case_sensitive: bool = True) -> Shape:
    """The shape of records that a schema declares; None: rows as the file has them."""
    if schema is None:
        return FileShape()
    if is_record_class(schema):
        return ClassShape(record_class(schema), case_sensitive)
    if isinstance(schema, RowType):
        # The columns are checked here, the digits of decimals included.
        declared = type_info_of(schema)
        return RowShape(
            declared, pa.schema(list(columns_of(schema, local_zone).kind)), local_zone, case_sensitive
        )
    if isinstance(schema, RowTypeInfo | TupleTypeInfo):
        target = pa.schema(list(columns_of(schema, local_zone).kind))
        return RowShape(schema, target, local_zone, case_sensitive)
    if isinstance(schema, pa.Schema):
        return RowShape(None, schema, local_zone, case_sensitive)
    raise ProgramError(
        "the schema of a file must be Types.ROW_NAMED(names, types), DataTypes.ROW(fields), a dataclass, NamedTuple or "
        f"TypedDict, a pyarrow.Schema, or None for what the file says, got {schema!r} ({type(schema).__name__})"
    )


@dataclass(frozen=True)
class FileShape(Shape):
    """Rows with the names that the file has."""

    @override
    def bind(self, found: pa.Schema, path: str) -> Bound:
        return Bound(
            found.names, _rows(tuple(found.names), [_plain_type(field.type) for field in found], path)
        )


@dataclass(frozen=True)
class RowShape(Shape):
    """Rows, or tuples, of a declared type. Columns that a file does not have are None."""

    declared: TypeInformation | None
    target: pa.Schema
    local_zone: bool
    case_sensitive: bool

    @override
    def type_info(self) -> TypeInformation | None:
        return self.declared

    @override
    def bind(self, found: pa.Schema, path: str) -> Bound:
        names = tuple(self.target.names)
        there = _matches(names, found, path, self.case_sensitive)
        for field in self.target:
            if field.name not in there and not field.nullable:
                raise _missing(field.name, found, path)
        kinds = [
            _read_type(field.type, found.field(there[field.name]).type) if field.name in there else field.type
            for field in self.target
        ]
        fits = self._fits()
        is_tuple = isinstance(self.declared, TupleTypeInfo)
        make = _rows(names, kinds, path, fits, [there.get(name) for name in names], is_tuple)
        return Bound([there[name] for name in names if name in there], make)

    def _fits(self) -> list[Fit | None]:
        if not isinstance(self.declared, RowTypeInfo | TupleTypeInfo):
            return [None] * len(self.target)
        return [fit_of(kind, self.local_zone) for kind in self.declared.get_field_types()]


@dataclass(frozen=True)
class DictShape(Shape):
    """Dicts by the names of columns. Columns that a file does not have are None."""

    target: pa.Schema

    @override
    def bind(self, found: pa.Schema, path: str) -> Bound:
        bound = RowShape(None, self.target, False, True).bind(found, path)
        names = tuple(self.target.names)

        def records(batch: pa.RecordBatch) -> list[Any]:
            return [dict(zip(names, row._values, strict=True)) for row in bound.records(batch)]

        return Bound(bound.columns, records)


@dataclass(frozen=True)
class ClassShape(Shape):
    """Instances of a class, or dicts of a typed one. A field with a default need not be in the file."""

    record: RecordClass
    case_sensitive: bool

    @override
    def bind(self, found: pa.Schema, path: str) -> Bound:
        record = self.record
        there = _matches(record.names, found, path, self.case_sensitive)
        for name in record.names:
            if name not in there and name not in record.optional:
                raise _missing(name, found, path)
        fields = [
            (name, there[name], _plain_type(found.field(there[name]).type), column_converter(hint))
            for name, hint in zip(record.names, record.hints, strict=True)
            if name in there
        ]
        names = [name for name, *_ in fields]

        def records(batch: pa.RecordBatch) -> list[Any]:
            columns = [
                _checked(convert, _python(batch.column(source), kind, name, path), name, path)
                for name, source, kind, convert in fields
            ]
            return record.records(names, columns)

        return Bound([source for _, source, *_ in fields], records)


def _checked(
    convert: Callable[[Sequence[Any]], Sequence[Any]], column: Sequence[Any], name: str, path: str
) -> Sequence[Any]:
    try:
        return convert(column)
    except Misfit as error:
        where = f"column {name!r}{'.' + error.path if error.path else ''}"
        reason = f"{where}: {error}, which is {column[error.index]!r}"
        raise FileContentError(reason, file=path) from None


def _rows(
    names: tuple[str, ...],
    kinds: Sequence[pa.DataType],
    path: str,
    fits: Sequence[Fit | None] | None = None,
    sources: Sequence[str | None] | None = None,
    is_tuple: bool = False,
) -> Records:
    sources = names if sources is None else sources
    fits = [None] * len(names) if fits is None else fits
    plan = list(zip(sources, kinds, fits, names, strict=True))

    def records(batch: pa.RecordBatch) -> list[Any]:
        columns = []
        for source, kind, fit, name in plan:
            if source is None:
                columns.append([None] * len(batch))
                continue
            values = _python(batch.column(source), kind, name, path)
            columns.append(values if fit is None else fit(values))
        tuples = zip(*columns, strict=True)
        return list(tuples) if is_tuple else Row._make_all(tuples, names)

    return records


def _python(array: pa.Array, kind: pa.DataType, name: str, path: str) -> list[Any]:
    """The values of a column, converted to a type by Arrow first if need be."""
    if array.type != kind:
        try:
            array = array.cast(kind, safe=not _cuts_time(array.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = f"column {name!r} is {array.type} in the file, expected {kind}: {error}"
            raise FileContentError(reason, file=path) from error
    # Without the argument it is many times as fast, for values that cannot have maps in them.
    values: list[Any] = array.to_pylist(maps_as_pydicts="strict") if kind.num_fields else array.to_pylist()
    return values


def _cuts_time(kind: pa.DataType) -> bool:
    """Nanoseconds, which Python does not have, are cut off."""
    return bool(pa.types.is_temporal(kind) or kind.num_fields > 0)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type whose values Python has: no nanoseconds, nothing in dictionaries."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time64(kind) and kind.unit == "ns":
        return pa.time64("us")
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), kind.item_field.with_type(_plain_type(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind


def _read_type(wanted: pa.DataType, file_type: pa.DataType) -> pa.DataType:
    """What a column of a file is converted to by Arrow, before its values become Python's.

    A file says by itself whether its timestamps are moments; and fields of rows are found by their names.
    """
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(file_type):
        return pa.timestamp("us", file_type.tz)
    if pa.types.is_list(wanted) and pa.types.is_list(file_type):
        return pa.list_(wanted.value_field.with_type(_read_type(wanted.value_type, file_type.value_type)))
    if pa.types.is_map(wanted) and pa.types.is_map(file_type):
        item = wanted.item_field.with_type(_read_type(wanted.item_type, file_type.item_type))
        return pa.map_(_read_type(wanted.key_type, file_type.key_type), item)
    if pa.types.is_struct(wanted) and pa.types.is_struct(file_type):
        inner = {field.name: field.type for field in file_type}
        return pa.struct(
            [
                field.with_type(_read_type(field.type, inner.get(field.name, field.type))).with_nullable(True)
                for field in wanted
            ]
        )
    return wanted


def _matches(names: Sequence[str], schema: pa.Schema, path: str, case_sensitive: bool) -> dict[str, str]:
    """Which column of a file is which field."""
    if case_sensitive:
        return {name: name for name in names if name in schema.names}
    by_lower: dict[str, list[str]] = {}
    for name in schema.names:
        by_lower.setdefault(name.lower(), []).append(name)
    matches = {}
    for name in names:
        candidates = by_lower.get(name.lower(), [])
        if len(candidates) > 1:
            reason = f"field {name!r} may be any of the columns {', '.join(map(repr, candidates))}"
            raise FileContentError(reason, file=path)
        if candidates:
            matches[name] = candidates[0]
    return matches


def _missing(name: str, schema: pa.Schema, path: str) -> FileContentError:
    has = ", ".join(map(repr, schema.names))
    return FileContentError(
        f"there is no column {name!r}, which may not be None; the file has {has}", file=path
    )
