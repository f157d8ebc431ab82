"""Columns of Python values as Arrow arrays: what the Parquet and the ORC writer have in common.

A `Column` makes an array of many values at once. Columns nest as types do: the elements of all lists of a column are
one column again, so there is no work per record in Arrow, however deep the type is. A value that does not fit raises
TypeMismatchError with its position; only then values are looked at one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from firesteel.common._override import override
from firesteel.common._type_conversion import fields_of
from firesteel.common.errors import TypeMismatchError
from firesteel.common.types import Row

Values = Sequence[Any]

_UNFIT = (TypeError, ValueError, ArithmeticError, AttributeError)


class Column(ABC):
    """Makes Arrow arrays of one type. ``expected`` is how errors call the type."""

    kind: pa.DataType
    expected: str

    @abstractmethod
    def array(self, values: Values) -> pa.Array:
        """The array of some values, of which any may be None."""

    def misfit(self, value: Any, index: int, hint: str = "") -> TypeMismatchError:
        """The error for a value that does not fit."""
        return TypeMismatchError(self.expected, value, index=index, hint=hint)


@dataclass(frozen=True)
class Plain(Column):
    """Single values. ``accepts`` are the classes they may have, where Arrow would convert silently what is of others.

    ``prepare`` turns a value, which is not None, into one that Arrow knows.
    """

    kind: pa.DataType
    expected: str
    accepts: tuple[type, ...] = (object,)
    prepare: Callable[[Any], Any] | None = None

    @override
    def array(self, values: Values) -> pa.Array:
        """Built by Arrow in one call."""
        try:
            return self._convert(values)
        except _UNFIT as error:
            raise self._first_misfit(values, error) from None

    def _convert(self, values: Values) -> pa.Array:
        kinds = set(map(type, values)) - {type(None)}
        if not all(issubclass(kind, self.accepts) for kind in kinds):
            raise TypeError
        if self.prepare is not None:
            prepare = self.prepare
            values = [None if value is None else prepare(value) for value in values]
        return pa.array(values, self.kind)

    def _first_misfit(self, values: Values, error: Exception) -> Exception:
        for index, value in enumerate(values):
            try:
                self._convert([value])
            except _UNFIT:
                return self.misfit(value, index)
        return error


@dataclass(frozen=True)
class Lists(Column):
    """Lists or tuples, of elements that are a column themselves."""

    kind: pa.DataType
    expected: str
    element: Column

    @override
    def array(self, values: Values) -> pa.Array:
        """The elements of all lists in one array, and where each list begins."""
        lists = [() if value is None else value for value in values]
        _check(self, lists, (list, tuple))
        offsets = _offsets(lists)
        required = not self.kind.value_field.nullable
        try:
            elements = _child(self.element, list(chain.from_iterable(lists)), required)
        except TypeMismatchError as error:
            record, position = _position(offsets, error.index)
            raise error.at(f"element {position}", record) from None
        make = pa.LargeListArray if pa.types.is_large_list(self.kind) else pa.ListArray
        starts = pa.array(offsets, pa.int64() if make is pa.LargeListArray else pa.int32())
        return make.from_arrays(starts, elements, type=self.kind, mask=_mask(values))


@dataclass(frozen=True)
class Maps(Column):
    """Dicts, with a column of all keys and one of all their values."""

    kind: pa.DataType
    expected: str
    key: Column
    item: Column

    @override
    def array(self, values: Values) -> pa.Array:
        """Keys and values in one array each, and where each dict begins."""
        dicts = [{} if value is None else value for value in values]
        _check(self, dicts, (dict,))
        offsets = _offsets(dicts)
        keys = list(chain.from_iterable(dicts))
        items = list(chain.from_iterable(given.values() for given in dicts))
        try:
            key_array = _child(self.key, keys, True)
        except TypeMismatchError as error:
            raise error.at("key", _position(offsets, error.index)[0]) from None
        try:
            item_array = _child(self.item, items, not self.kind.item_field.nullable)
        except TypeMismatchError as error:
            step = f"value of key {keys[error.index or 0]!r}"
            raise error.at(step, _position(offsets, error.index)[0]) from None
        starts = pa.array(offsets, pa.int32())
        return pa.MapArray.from_arrays(starts, key_array, item_array, type=self.kind, mask=_mask(values))


@dataclass(frozen=True)
class Structs(Column):
    """Rows, tuples, lists, dicts or objects with attributes, with a column for each field."""

    kind: pa.DataType
    expected: str
    fields: tuple[Column, ...]

    @override
    def array(self, values: Values) -> pa.Array:
        """An array for each field."""
        mask = _mask(values)
        if mask is None:
            return pa.StructArray.from_arrays(self.field_arrays(values), fields=list(self.kind))
        # Where there is no row its fields have a value nevertheless, because some may not be None.
        first = next((index for index, value in enumerate(values) if value is not None), None)
        if first is None:
            arrays = [_anything(field.type, len(values)) for field in self.kind]
        else:
            arrays = self._filled_arrays(values, first)
        return pa.StructArray.from_arrays(arrays, fields=list(self.kind), mask=mask)

    def _filled_arrays(self, values: Values, first: int) -> list[pa.Array]:
        filler = values[first]
        try:
            return self.field_arrays([filler if value is None else value for value in values])
        except TypeMismatchError as error:
            index = error.index or 0
            raise error.at(None, first if values[index] is None else index) from None

    def field_arrays(self, values: Values) -> list[pa.Array]:
        """An array for each field; every value must be a row."""
        arrays = []
        columns = zip(*self._rows(values), strict=True) if values else [()] * len(self.fields)
        for index, (field, column, one) in enumerate(zip(self.kind, self.fields, columns, strict=True)):
            try:
                arrays.append(_child(column, one, not field.nullable))
            except TypeMismatchError as error:
                raise error.at(f"field {field.name!r} (index {index})", error.index) from None
        return arrays

    def _rows(self, values: Values) -> Values:
        """The fields of every row, in order."""
        names = tuple(field.name for field in self.kind)
        kinds = set(map(type, values))
        if kinds == {tuple}:
            rows = values
        elif kinds == {Row} and {row._fields for row in values} <= {None, names}:
            rows = [row._values for row in values]
        else:
            rows = [self._row(value, names, index) for index, value in enumerate(values)]
        if set(map(len, rows)) - {len(names)}:
            index = next(index for index, row in enumerate(rows) if len(row) != len(names))
            hint = f"it has {len(rows[index])} fields instead of {len(names)}"
            raise self.misfit(values[index], index, hint)
        return rows

    def _row(self, value: Any, names: tuple[str, ...], index: int) -> Values:
        try:
            return fields_of(value, names)
        except (TypeError, ValueError) as error:
            raise self.misfit(value, index, str(error)) from None


def _child(column: Column, values: Values, required: bool) -> pa.Array:
    if required:
        for index, value in enumerate(values):
            if value is None:
                raise column.misfit(value, index, "None is not allowed there")
    return column.array(values)


def _check(column: Column, values: Values, accepted: tuple[type, ...]) -> None:
    if all(issubclass(kind, accepted) for kind in set(map(type, values))):
        return
    for index, value in enumerate(values):
        if not isinstance(value, accepted):
            raise column.misfit(value, index)


def _mask(values: Values) -> pa.Array | None:
    """Where there is no value; None when there is one everywhere."""
    absent = [value is None for value in values]
    return pa.array(absent) if True in absent else None


def _anything(kind: pa.DataType, size: int) -> pa.Array:
    """An array of values that nobody will see, none of which is None."""
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([_anything(field.type, size) for field in kind], fields=list(kind))
    nothing = pa.nulls(size, kind)
    if kind.num_fields:
        children = [pa.array([], field.type) for field in map(kind.field, range(kind.num_fields))]
        return pa.Array.from_buffers(kind, size, [None, *nothing.buffers()[1:2]], 0, children=children)
    return pa.Array.from_buffers(kind, size, [None, *nothing.buffers()[1:]], 0)


def _offsets(groups: Sequence[Any]) -> list[int]:
    return [0, *accumulate(map(len, groups))]


def _position(offsets: list[int], index: int | None) -> tuple[int, int]:
    """Which group the element with a number is in, and where in it."""
    position = index or 0
    group = bisect_right(offsets, position) - 1
    return group, position - offsets[group]
