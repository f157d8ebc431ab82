"""The assigners behind ``count_window``, ``time_window`` and their counterparts for streams without keys."""

from __future__ import annotations

from typing import Any

from firesteel.common.time import AnyLength
from firesteel.contracts.window_assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.contracts.windows import TimeWindow, WindowAssigner
from firesteel.datastream.time_characteristic import TimeCharacteristic

__all__ = ["count_windows", "time_windows"]


def count_windows(size: int, slide: int) -> WindowAssigner[Any, Any]:
    """Tumbling windows of ``size`` records, or sliding ones when there is a slide."""
    return CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size)


def time_windows(
    characteristic: TimeCharacteristic, size: AnyLength, slide: AnyLength | None
) -> WindowAssigner[Any, TimeWindow]:
    """Tumbling windows, or sliding ones when there is a slide, of the environment's time."""
    by_machine = characteristic is TimeCharacteristic.ProcessingTime
    if slide is None:
        return TumblingProcessingTimeWindows.of(size) if by_machine else TumblingEventTimeWindows.of(size)
    if by_machine:
        return SlidingProcessingTimeWindows.of(size, slide)
    return SlidingEventTimeWindows.of(size, slide)
