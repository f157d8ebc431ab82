"""Values as Arrow has them in Python, turned into those of a declared type, a column at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from firesteel.common.types import Row
from firesteel.connectors.files.timestamps import in_utc, instant, local

#: Converts the values of a column, of which any may be None.
Fit = Callable[[list[Any]], list[Any]]

_LISTS = (BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)


def fit_of(declared: TypeInformation, local_zone: bool) -> Fit | None:
    """What has to be done to values of a declared type; None when they are right as they are."""
    if isinstance(declared, ExternalTypeInfo):
        return fit_of(declared.type_info, local_zone)
    if isinstance(declared, BasicTypeInfo):
        return _basic(declared.basic_type)
    shown = local if local_zone else in_utc
    if isinstance(declared, TimestampTypeInfo):
        return _each(lambda value: _to_millis(shown(value)))
    if isinstance(declared, LocalTimeTypeInfo):
        is_timestamp = declared._time_type is LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME
        return _each(shown) if is_timestamp else None
    if isinstance(declared, RowTypeInfo):
        return _rows(declared, local_zone)
    if isinstance(declared, TupleTypeInfo):
        return _tuples(declared, local_zone)
    if isinstance(declared, _LISTS):
        return _lists(fit_of(declared.element_type, local_zone))
    if isinstance(declared, MapTypeInfo):
        return _maps(fit_of(declared.key_type, local_zone), fit_of(declared.value_type, local_zone))
    return None


def _basic(kind: BasicType) -> Fit | None:
    if kind is BasicType.BIG_INT:
        return _each(int)
    if kind is BasicType.INSTANT:
        return _each(instant)
    return None


def _each(one: Callable[[Any], Any]) -> Fit:
    return lambda values: [None if value is None else one(value) for value in values]


def _to_millis(value: Any) -> Any:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _rows(declared: RowTypeInfo, local_zone: bool) -> Fit:
    names = tuple(declared.get_field_names())
    fields = _fields(list(names), declared.get_field_types(), local_zone)

    def fit(values: list[Any]) -> list[Any]:
        columns = fields([value for value in values if value is not None])
        made = iter(Row._make_all(zip(*columns, strict=True), names))
        return [None if value is None else next(made) for value in values]

    return fit


def _tuples(declared: TupleTypeInfo, local_zone: bool) -> Fit:
    types = declared.get_field_types()
    fields = _fields([f"f{index}" for index in range(len(types))], types, local_zone)

    def fit(values: list[Any]) -> list[Any]:
        made = zip(*fields([value for value in values if value is not None]), strict=True)
        return [None if value is None else next(made) for value in values]

    return fit


def _fields(
    names: list[str], types: Any, local_zone: bool
) -> Callable[[list[dict[str, Any]]], list[list[Any]]]:
    fits = [fit_of(kind, local_zone) for kind in types]

    def columns(dicts: list[dict[str, Any]]) -> list[list[Any]]:
        values = [[one[name] for one in dicts] for name in names]
        return [column if fit is None else fit(column) for column, fit in zip(values, fits, strict=True)]

    return columns


def _lists(element: Fit | None) -> Fit | None:
    if element is None:
        return None
    return lambda values: [None if value is None else element(value) for value in values]


def _maps(key: Fit | None, item: Fit | None) -> Fit | None:
    if key is None and item is None:
        return None

    def one(value: dict[Any, Any]) -> dict[Any, Any]:
        keys, items = list(value), list(value.values())
        return dict(
            zip(keys if key is None else key(keys), items if item is None else item(items), strict=True)
        )

    return _each(one)
