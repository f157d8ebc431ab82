"""``sum``, ``min``, ``max``, ``min_by`` and ``max_by`` as reduce functions over one field of a record.

Results are always new records: an earlier result may still be on its way downstream. Records of one
key are all of one kind, so how to read and replace the field is decided by the first one.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.types import Row
from firesteel.contracts.functions import ReduceFunction
from firesteel.datastream._fields import position_in_name

__all__ = ["RollingExtreme", "RollingExtremeBy", "RollingSum"]

Combine = Callable[[Any, Any], Any]


class _RollingAggregate(ReduceFunction):
    """Reduces two records by their field ``field``, a position or a name."""

    def __init__(self, field: int | str) -> None:
        self.field = field
        self._combine: Combine | None = None

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The aggregate of what there was and what came."""
        combine = self._combine
        if combine is None:
            combine = self._combine = self._combine_for(value1)
        return combine(value1, value2)

    @abstractmethod
    def _combine_for(self, value: Any) -> Combine:
        """How to combine records like ``value``."""


class RollingSum(_RollingAggregate):
    """The sum of a field; the other fields are those of the first record.

    >>> RollingSum(1).reduce(("a", 1, "x"), ("a", 2, "y"))
    ('a', 3, 'x')
    >>> RollingSum(0).reduce(4, 5)
    9
    """

    @override
    def _combine_for(self, value: Any) -> Combine:
        field = _field_of(value, self.field)
        if field is None:
            return operator.add
        if type(value) is tuple:
            return partial(_sum_tuples, field)
        return partial(_sum_fields, _replacer_for(value), _reader_for(value, field), field)


class RollingExtreme(_RollingAggregate):
    """The smallest or largest value of a field; the other fields are those of the first record.

    >>> RollingExtreme(1, largest=True).reduce(("a", 1), ("b", 2))
    ('a', 2)
    """

    def __init__(self, field: int | str, largest: bool) -> None:
        super().__init__(field)
        self.is_better = operator.gt if largest else operator.lt

    @override
    def _combine_for(self, value: Any) -> Combine:
        field = _field_of(value, self.field)
        if field is None:
            return partial(_better, self.is_better)
        return partial(
            _replace_if_better, self.is_better, _replacer_for(value), _reader_for(value, field), field
        )


class RollingExtremeBy(_RollingAggregate):
    """The record with the smallest or largest value of a field; of equal ones the first, or the last.

    >>> RollingExtremeBy(1, largest=False).reduce(("a", 1), ("b", 1))
    ('a', 1)
    >>> RollingExtremeBy(1, largest=False, first=False).reduce(("a", 1), ("b", 1))
    ('b', 1)
    """

    def __init__(self, field: int | str, largest: bool, first: bool = True) -> None:
        super().__init__(field)
        if largest:
            self.is_better = operator.gt if first else operator.ge
        else:
            self.is_better = operator.lt if first else operator.le

    @override
    def _combine_for(self, value: Any) -> Combine:
        field = _field_of(value, self.field)
        if field is None:
            return partial(_better, self.is_better)
        return partial(_better_record, self.is_better, _reader_for(value, field))


# Combining ------------------------------------------------------------------------------------------


def _sum_tuples(field: int, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    values = list(a)
    values[field] += b[field]
    return tuple(values)


def _sum_fields(
    replace: Callable[[Any, Any, Any], Any], read: Callable[[Any], Any], field: int | str, a: Any, b: Any
) -> Any:
    return replace(a, field, read(a) + read(b))


def _better(is_better: Callable[[Any, Any], bool], a: Any, b: Any) -> Any:
    return b if is_better(b, a) else a


def _better_record(is_better: Callable[[Any, Any], bool], read: Callable[[Any], Any], a: Any, b: Any) -> Any:
    return b if is_better(read(b), read(a)) else a


def _replace_if_better(
    is_better: Callable[[Any, Any], bool],
    replace: Callable[[Any, Any, Any], Any],
    read: Callable[[Any], Any],
    field: int | str,
    a: Any,
    b: Any,
) -> Any:
    value = read(b)
    return replace(a, field, value) if is_better(value, read(a)) else a


# Kinds of records -----------------------------------------------------------------------------------


def _field_of(value: Any, field: int | str) -> Any:
    """The field as records like ``value`` know it; None when such a value has no fields."""
    if isinstance(value, (tuple, list, Row)):
        if isinstance(field, int):
            if not -len(value) <= field < len(value):
                raise ProgramError(
                    f"no field {field} in {short_repr(value)}; it has fields 0 to {len(value) - 1}"
                )
            return field
        names = getattr(value, "_fields", None)
        if names and field in names:
            return list(names).index(field)
        return _known(position_in_name(field), value, field)
    if isinstance(value, dict):
        return field
    if isinstance(field, str) and (hasattr(value, field) or dataclasses.is_dataclass(value)):
        return field
    if field == 0:
        return None
    raise ProgramError(
        f"field {field!r} of {short_repr(value)}: a single value has no fields; use position 0 for the value itself"
    )


def _known(position: int | None, value: Any, field: str) -> int:
    if position is None:
        raise ProgramError(f"no field {field!r} in {short_repr(value)}")
    return position


def _reader_for(value: Any, field: int | str) -> Callable[[Any], Any]:
    if isinstance(value, (tuple, list, Row, dict)):
        return operator.itemgetter(field)
    return operator.attrgetter(str(field))


def _replacer_for(value: Any) -> Callable[[Any, Any, Any], Any]:
    if isinstance(value, Row):
        return _replace_in_row
    if isinstance(value, tuple):
        return _replace_in_tuple
    if isinstance(value, (list, dict)):
        return _replace_in_container
    if dataclasses.is_dataclass(value):
        return _replace_in_dataclass
    return _replace_in_object


def _replace_in_tuple(record: Any, field: int, value: Any) -> Any:
    values = list(record)
    values[field] = value
    # A named tuple is built from an iterable by its own constructor.
    return tuple(values) if type(record) is tuple else type(record)._make(values)


def _replace_in_row(record: Row, field: int, value: Any) -> Row:
    values = list(record)
    values[field] = value
    return Row._make(values, record._fields, record._row_kind)


def _replace_in_container(record: Any, field: Any, value: Any) -> Any:
    changed = record.copy()
    changed[field] = value
    return changed


def _replace_in_dataclass(record: Any, field: str, value: Any) -> Any:
    return dataclasses.replace(record, **{field: value})


def _replace_in_object(record: Any, field: str, value: Any) -> Any:
    changed = copy.copy(record)
    setattr(changed, field, value)
    return changed
