"""The assigner behind the old shortcut ``time_window``: event or processing time as the environment says."""

from __future__ import annotations

from typing import Any

from firesteel.common.time import AnyLength
from firesteel.contracts.window_assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.contracts.windows import WindowAssigner
from firesteel.datastream.time_characteristic import TimeCharacteristic

__all__ = ["time_windows"]


def time_windows(
    characteristic: TimeCharacteristic, size: AnyLength, slide: AnyLength | None
) -> WindowAssigner[Any, Any]:
    """Tumbling windows, or sliding ones when there is a slide."""
    by_machine = characteristic is TimeCharacteristic.ProcessingTime
    if slide is None:
        return TumblingProcessingTimeWindows.of(size) if by_machine else TumblingEventTimeWindows.of(size)
    if by_machine:
        return SlidingProcessingTimeWindows.of(size, slide)
    return SlidingEventTimeWindows.of(size, slide)
