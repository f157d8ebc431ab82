"""Copies of values that are still in use: what leaves an operator must not change when its state does.

Within a task records are handed on as they are. A window that fires and keeps its contents would otherwise
emit the very accumulator that it goes on changing. Most values cannot change, so most copies cost nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

from firesteel.common.types import Row

_ATOMS = frozenset(
    {int, float, str, bytes, bool, complex, type(None), Decimal, date, datetime, time, timedelta, frozenset}
)


def detached(value: Any) -> Any:
    """The value itself when it cannot change, otherwise a copy that shares nothing with it."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is tuple and _are_atoms(value):
        return value
    if kind is Row and _are_atoms(value):
        return Row._make(list(value), value._fields, value._row_kind)
    if kind is list and _are_atoms(value):
        return value.copy()
    if kind is dict and _are_atoms(value.values()):  # keys must not change anyway
        return value.copy()
    return copy.deepcopy(value)


def detached_all(values: list[Any]) -> list[Any]:
    """`detached` of each, at next to no cost when none of them can change."""
    kinds = set(map(type, values))
    if kinds <= _ATOMS or (kinds == {tuple} and _are_atoms(chain.from_iterable(values))):
        return values
    return list(map(detached, values))


def _are_atoms(values: Iterable[Any]) -> bool:
    return _ATOMS.issuperset(map(type, values))
