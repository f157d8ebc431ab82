"""Puts timestamps on whole batches: as the user's assigner reads them, as they were, or as the clock says."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable
from typing import Any

from firesteel.common.errors import short_repr
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_millis
from firesteel.common.watermark_strategy import IngestionTime, WatermarkStrategy
from firesteel.runtime.operator import Operator, Timestamps

Stamper = Callable[[Operator, list[Any], Timestamps], Timestamps]


def create_stamper(strategy: WatermarkStrategy, now: Callable[[], float]) -> Stamper:
    """The function (operator, values, timestamps so far) -> timestamps for a strategy.

    The operator's cursor shows which record the assigner was working on.
    """
    if isinstance(strategy.generator, IngestionTime):
        return _IngestionStamper(now)
    assign = strategy.timestamp_function()
    return _kept if assign is None else _AssigningStamper(assign)


def _kept(owner: Operator, values: list[Any], timestamps: Timestamps) -> Timestamps:
    if timestamps is None:
        return None
    stamps: list[Any] = timestamps
    try:
        array("q", stamps)
        return timestamps
    except (TypeError, OverflowError):  # some records may have none
        return [None if stamp is None else _clamped(stamp, "the source") for stamp in stamps]


class _AssigningStamper:
    def __init__(self, assign: Callable[[Any, int], int]) -> None:
        self._assign = assign

    def __call__(self, owner: Operator, values: list[Any], timestamps: Timestamps) -> Timestamps:
        assign = self._assign
        owner.cursor = cursor = iter(values)
        if timestamps is None:
            stamps = [assign(value, MIN_TIMESTAMP) for value in cursor]
        else:
            # The cursor comes last: zip asks its first iterable once more at the end.
            stamps = [
                assign(value, MIN_TIMESTAMP if old is None else old)
                for old, value in zip(timestamps, cursor, strict=False)
            ]
        try:
            checked: list[Any] = array("q", stamps).tolist()  # looks at all, at a few nanoseconds each
            return checked
        except (TypeError, OverflowError):
            return _checked(owner, values, stamps)


class _IngestionStamper:
    """The machine's time; it does not go back when the machine's clock is set back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = MIN_TIMESTAMP

    def __call__(self, owner: Operator, values: list[Any], timestamps: Timestamps) -> Timestamps:
        self._last = max(self._last, to_millis(self._now()))
        return [self._last] * len(values)


def _checked(owner: Operator, values: list[Any], stamps: list[Any]) -> list[int | None]:
    """The timestamps within 64 bits, one by one; what is no int is refused together with its record."""
    found: list[int | None] = []
    for stamp in stamps:
        try:
            found.append(_clamped(stamp, "the timestamp assigner"))
        except TypeError:
            owner.cursor = iter(values[len(found) + 1 :])
            raise
    return found


def _clamped(stamp: Any, origin: str) -> int:
    """Python's numbers are longer than those of watermarks on the wire."""
    try:
        return min(max(operator.index(stamp), MIN_TIMESTAMP), MAX_TIMESTAMP)
    except TypeError:
        raise TypeError(
            f"a timestamp must be an int, milliseconds since 1970, got {short_repr(stamp)} from {origin}"
        ) from None
