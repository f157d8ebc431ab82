"""Row, the record with optionally named fields, and RowKind, what a row says about a table's change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from firesteel.common._override import override

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """How a row changes a table; rows of a plain stream are inserts.

    >>> str(RowKind.UPDATE_BEFORE)
    '-U'
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @override
    def __str__(self) -> str:
        return _SHORT_NAMES[self.value]


_SHORT_NAMES = ("+I", "-U", "+U", "-D")
_INSERT = RowKind.INSERT


class Row:
    """A record with a fixed number of fields, positional or named.

    Fields are read by index, by name or as attributes, and replaced by index or name:

    >>> row = Row(name="Alice", age=11)
    >>> row
    Row(name='Alice', age=11)
    >>> row[0], row["age"], row.name, "age" in row
    ('Alice', 11, 'Alice', True)
    >>> row["age"] = 12
    >>> row.as_dict()
    {'name': 'Alice', 'age': 12}

    A row of names is a constructor of named rows:

    >>> Person = Row("name", "age")
    >>> Person
    <Row('name', 'age')>
    >>> Person("Bob", 7)
    Row(name='Bob', age=7)

    Attributes cannot be assigned, as in PyFlink: there is no per-row dictionary to hold them, and no
    hook either, which would triple the cost of building a row.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _values: tuple[Any, ...]  # a tuple, so that building, hashing and pickling a row copies nothing
    _fields: tuple[str, ...] | None
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not kwargs:
            self._values = args
            self._fields = None
        elif args:
            raise ValueError("a row takes positional values or named ones, not both")
        else:
            self._values = tuple(kwargs.values())
            self._fields = tuple(kwargs)
        self._row_kind = _INSERT

    @staticmethod
    def _make(values: Iterable[Any], names: tuple[str, ...] | None = None, kind: RowKind = _INSERT) -> Row:
        """Build a row in bulk code: nothing is checked, and a tuple of values is not copied.

        >>> Row._make((1, "a"), ("f0", "f1"))
        Row(f0=1, f1='a')
        """
        row = _new(Row)
        row._values = tuple(values)
        row._fields = names
        row._row_kind = kind
        return row

    @staticmethod
    def _make_all(records: Iterable[tuple[Any, ...]], names: tuple[str, ...] | None = None) -> list[Row]:
        """Build many inserts from tuples of values; a third faster than calling `_make` for each.

        >>> Row._make_all([(1,), (2,)], ("a",))
        [Row(a=1), Row(a=2)]
        """
        rows = []
        for values in records:
            row = _new(Row)
            row._values = values
            row._fields = names
            row._row_kind = _INSERT
            rows.append(row)
        return rows

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Build a row of the given kind from positional or named values."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields by name; `recursive` also turns rows in fields, lists and dicts into dicts."""
        if self._fields is None:
            raise TypeError(f"a row without field names cannot become a dict: {self!r}; use set_field_names")
        values = map(_to_plain, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        """Return the kind of change this row stands for."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change this row stands for."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: Iterable[str]) -> None:
        """Name the fields, in order."""
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of the named fields; all of them, in order, when the row has no names."""
        fields = self._fields
        if fields is None or fields == tuple(names):
            return list(self._values)
        missing = [name for name in names if name not in fields]
        if missing:
            raise ValueError(f"no such field: {missing}; the row has {list(fields)}")
        return [self._values[fields.index(name)] for name in names]

    def __call__(self, *args: Any) -> Row:
        """Return a row with these values, named by the values of this one."""
        if len(args) > len(self._values):
            raise ValueError(
                f"expected at most {len(self._values)} values for {self!r}, got {len(args)}: {args!r}"
            )
        return Row._make(args, self._values, self._row_kind)

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def _index(self, name: Any) -> int:
        if self._fields is None:
            raise KeyError(f"{name!r}: the row has no field names: {self!r}")
        try:
            return self._fields.index(name)
        except ValueError:
            raise ValueError(f"no field {name!r}; the row has {list(self._fields)}") from None

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, int):
            return self._values[item]
        if isinstance(item, slice):
            return list(self._values[item])
        return self._values[self._index(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        values = list(self._values)
        values[key if isinstance(key, int | slice) else self._index(key)] = value
        self._values = tuple(values)

    def __getattr__(self, name: str) -> Any:
        # Names with an underscore are our own slots, not yet set (copy, pickle): do not look at slots for them.
        if name[:1] != "_" and self._fields is not None and name in self._fields:
            return self._values[self._fields.index(name)]
        raise AttributeError(f"row has no field {name!r}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return False
        if self._row_kind is not other._row_kind:
            return False
        if self._fields == other._fields:
            return self._values == other._values
        if self._fields is None or other._fields is None:
            return False
        # Same names in another order are the same row, although such rows hash differently (as in PyFlink).
        return sorted(self._fields) == sorted(other._fields) and self.as_dict() == other.as_dict()

    @override
    def __hash__(self) -> int:
        return hash(self._values)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        if self._row_kind is _INSERT:
            return _make, (self._values, self._fields)
        return _make, (self._values, self._fields, self._row_kind)

    @override
    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._fields, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"


# Bound once: pickle finds `_make` by this name, and bulk code pays no attribute look-up.
_new = object.__new__
_make = Row._make


def _to_plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    return value
