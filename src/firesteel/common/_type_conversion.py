"""Conversion of whole columns to what a declared type promises: the engine behind `batch_converter`.

A *converter* takes a column (list or tuple) and returns it unchanged when every value already fits, or a new
column. It never changes the values it was given. A value that does not fit raises TypeMismatchError with its
position in the column; composite converters put the position of the record and the path to the field in its place.

Speed comes from asking about a column, not about a value: `[*map(type, column)].count(int)` costs 14 ns a value
and `struct.pack` 6 ns, a Python-level check 60 ns. Slow paths run only for columns that need a change.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, islice
from typing import Any

from firesteel.common.errors import TypeMismatchError
from firesteel.common.types import Row, RowKind

__all__ = [
    "Column",
    "Converter",
    "booleans",
    "characters",
    "doubles",
    "fields_of",
    "floats",
    "instances",
    "integers",
    "maps",
    "nullable",
    "rows",
    "sequences",
    "tuples",
    "values",
]

Column = list[Any] | tuple[Any, ...]
Converter = Callable[[Any], Any]

_UNFIT = (TypeError, ValueError, ArithmeticError, AttributeError)


def _all_are(column: Column, kind: type) -> bool:
    return [*map(type, column)].count(kind) == len(column)


def _each(column: Column, expected: str, one: Callable[[Any], Any]) -> list[Any]:
    """Convert value by value; what `one` refuses (by raising) does not fit."""
    converted = []
    for index, value in enumerate(column):
        try:
            converted.append(one(value))
        except TypeMismatchError as error:
            raise error.at(None, index) from None
        except _UNFIT:
            raise TypeMismatchError(expected, value, index=index) from None
    return converted


# Leaves.


def instances(expected: str, kind: type, one: Callable[[Any], Any]) -> Converter:
    """Values of exactly `kind` pass; `one` converts or refuses the others."""

    def convert(column: Column) -> Column:
        return column if _all_are(column, kind) else _each(column, expected, one)

    return convert


def values(expected: str, kind: type, one: Callable[[Any], Any]) -> Converter:
    """Instances of `kind`, each passed through `one`; the rest is refused."""

    def checked(value: Any) -> Any:
        if isinstance(value, kind):
            return one(value)
        raise TypeError

    def convert(column: Column) -> Column:
        return _each(column, expected, checked)

    return convert


def integers(expected: str, bits: int) -> Converter:
    """Whole numbers of a Java width: too large ones wrap around, as a Java cast does."""
    code = {8: "b", 16: "h", 32: "i", 64: "q"}[bits]
    half, mask = 1 << (bits - 1), (1 << bits) - 1

    def wrap(value: Any) -> int:
        return ((_to_int(value) + half) & mask) - half

    def convert(column: Column) -> Column:
        if not _all_are(column, int):
            return _each(column, expected, wrap)
        try:
            struct.pack(f"{len(column)}{code}", *column)  # the cheapest range check there is
        except struct.error:
            return [((value + half) & mask) - half for value in column]
        return column

    return convert


def _to_int(value: Any) -> int:
    # Text has no __int__, so it is refused here; a float is cut off, as PyFlink's coders do.
    if hasattr(type(value), "__int__") or hasattr(type(value), "__index__"):
        return int(value)
    raise TypeError


def booleans(expected: str) -> Converter:
    """True and False; numbers count as in Python."""
    return instances(expected, bool, lambda value: bool(_to_int(value)))


def floats(expected: str) -> Converter:
    """Numbers rounded to 32 bits."""

    def convert(column: Column) -> Column:
        try:
            return array("f", column).tolist()
        except _UNFIT:
            return _each(column, expected, lambda value: array("f", (value,))[0])

    return convert


def doubles(expected: str) -> Converter:
    """Numbers as floats."""

    def convert(column: Column) -> Column:
        if _all_are(column, float):
            return column
        try:
            return array("d", column).tolist()
        except _UNFIT:
            return _each(column, expected, lambda value: array("d", (value,))[0])

    return convert


def characters(expected: str) -> Converter:
    """Texts of one character."""

    def one(value: Any) -> str:
        if isinstance(value, str) and len(value) == 1:
            return str.__str__(value)
        raise TypeError

    def convert(column: Column) -> Column:
        if _all_are(column, str) and set(map(len, column)) <= {1}:
            return column
        return _each(column, expected, one)

    return convert


# Wrappers and composites.


def nullable(convert: Converter) -> Converter:
    """Let None pass `convert`, which itself refuses it.

    Costs nothing while there is no None: only a refusal makes it look for them.
    """

    def convert_present(column: Column) -> Column:
        try:
            result: Column = convert(column)
            return result
        except TypeMismatchError:
            places = [index for index, value in enumerate(column) if value is not None]
            if len(places) == len(column):
                raise
        present = [column[index] for index in places]
        try:
            converted = convert(present)
        except TypeMismatchError as error:
            raise error.at(None, places[error.index or 0]) from None
        if converted is present:
            return column
        rest = iter(converted)
        return [None if value is None else next(rest) for value in column]

    return convert_present


def sequences(expected: str, element: Converter | None) -> Converter:
    """Lists whose elements are converted together; tuples become lists."""

    def convert(column: Column) -> Column:
        lists = column if _all_are(column, list) else _each(column, expected, _to_list)
        if element is None:
            return lists
        flat = list(chain.from_iterable(lists))
        try:
            converted = element(flat)
        except TypeMismatchError as error:
            record, position = _locate(lists, error.index or 0)
            raise error.at(f"element {position}", record) from None
        return lists if converted is flat else _refill(converted, lists)

    return convert


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    raise TypeError


def _refill(flat: Column, shape: Sequence[Any]) -> list[list[Any]]:
    values = iter(flat)
    return [list(islice(values, len(item))) for item in shape]


def _locate(groups: Sequence[Any], flat_index: int) -> tuple[int, int]:
    """Turn a position in the concatenation of `groups` into (which group, where in it)."""
    for number, end in enumerate(accumulate(map(len, groups))):
        if flat_index < end:
            return number, flat_index - (end - len(groups[number]))
    raise AssertionError("position lies beyond the groups")


def maps(expected: str, key: Converter | None, value: Converter | None) -> Converter:
    """Dicts whose keys, and whose values, are converted together."""

    def convert(column: Column) -> Column:
        dicts = column if _all_are(column, dict) else _each(column, expected, _to_dict)
        old_keys = list(chain.from_iterable(dicts))
        old_values = list(chain.from_iterable(item.values() for item in dicts))
        keys = _convert_part(key, old_keys, dicts, lambda _: "key")
        values = _convert_part(value, old_values, dicts, lambda at: f"value of key {old_keys[at]!r}")
        if keys is old_keys and values is old_values:
            return dicts
        pairs = zip(keys, values, strict=True)
        return [dict(islice(pairs, len(item))) for item in dicts]

    return convert


def _to_dict(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return dict(value)
    raise TypeError


def _convert_part(
    convert: Converter | None, flat: list[Any], groups: Sequence[Any], step: Callable[[int], str]
) -> Column:
    if convert is None:
        return flat
    try:
        result: Column = convert(flat)
        return result
    except TypeMismatchError as error:
        at = error.index or 0
        raise error.at(step(at), _locate(groups, at)[0]) from None


def tuples(expected: str, fields: Sequence[Converter | None]) -> Converter:
    """Tuples, field by field; lists and rows become tuples."""
    steps = [f"field {index}" for index in range(len(fields))]

    def convert(column: Column) -> Column:
        records = column if _all_are(column, tuple) else _each(column, expected, _to_tuple)
        columns = _columns(expected, records, len(fields))
        if not _convert_columns(columns, fields, steps):
            return records
        return list(zip(*columns, strict=True))

    return convert


def _to_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple | list | Row):
        return tuple(value)
    raise TypeError


def _columns(expected: str, records: Sequence[Any], arity: int) -> list[Column]:
    """Turn records into columns; all must have the declared number of fields."""
    try:
        columns: list[Column] = list(zip(*records, strict=True))
        if len(columns) == arity or not records:
            return columns
    except ValueError:
        pass
    index, record = next((i, record) for i, record in enumerate(records) if len(record) != arity)
    raise TypeMismatchError(
        expected, record, index=index, hint=f"it has {len(record)} fields instead of {arity}"
    )


def _convert_columns(columns: list[Column], fields: Sequence[Converter | None], steps: Sequence[str]) -> bool:
    """Convert the columns in place; tells whether any changed."""
    changed = False
    for index, column in enumerate(columns):
        convert = fields[index]
        if convert is None:
            continue
        try:
            converted = convert(column)
        except TypeMismatchError as error:
            raise error.at(steps[index], error.index) from None
        if converted is not column:
            columns[index] = converted
            changed = True
    return changed


def rows(expected: str, names: tuple[str, ...], fields: Sequence[Converter | None]) -> Converter:
    """Rows with the declared names, from rows, dicts, tuples, lists and objects with attributes."""
    steps = [f"field {name!r} (index {index})" for index, name in enumerate(names)]

    def convert(column: Column) -> Column:
        records, fitting = _row_records(expected, names, column)
        columns = _columns(expected, records, len(names))
        if _convert_columns(columns, fields, steps):
            records = list(zip(*columns, strict=True))
        elif fitting:
            return column
        return _build_rows(records, names, column)

    return convert


def _row_records(expected: str, names: tuple[str, ...], column: Column) -> tuple[Sequence[Any], bool]:
    """Return the fields of each value as tuples, and whether the values are rows with the right names already."""
    kinds = [*map(type, column)]
    size = len(kinds)
    if kinds.count(tuple) == size:
        return column, False
    if kinds.count(dict) == size:
        return [tuple(map(value.get, names)) for value in column], False
    if kinds.count(Row) == size:
        given = [row._fields for row in column]
        named = given.count(names)
        if named + given.count(None) == size:
            return [row._values for row in column], named == size
    return _each(column, expected, lambda value: tuple(fields_of(value, names))), False


def _build_rows(records: Sequence[tuple[Any, ...]], names: tuple[str, ...], originals: Column) -> list[Row]:
    """Build rows, of the kinds of the rows they come from."""
    if Row not in map(type, originals):
        return Row._make_all(records, names)
    kinds = [value._row_kind if isinstance(value, Row) else RowKind.INSERT for value in originals]
    if kinds.count(RowKind.INSERT) == len(kinds):
        return Row._make_all(records, names)
    return [Row._make(values, names, kind) for values, kind in zip(records, kinds, strict=True)]


def fields_of(value: Any, names: tuple[str, ...]) -> Column:
    """Return the fields of anything that can stand for a row, in the declared order."""
    if isinstance(value, Row):
        return value._values if value._fields in (None, names) else value.get_fields_by_names(names)
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if isinstance(value, tuple | list):
        return value
    if type(value).__module__ == "builtins" or not any(hasattr(value, name) for name in names):
        raise TypeError
    return [getattr(value, name, None) for name in names]
