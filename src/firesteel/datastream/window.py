"""Windows, assigners and triggers; at PyFlink's path."""

from __future__ import annotations

from typing import NoReturn

from firesteel.contracts.windows import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
)
from firesteel.datastream.not_yet import not_yet

__all__ = [
    "CountWindow",
    "GlobalWindow",
    "MergingWindowAssigner",
    "TimeWindow",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
]

_LATER = frozenset(
    {
        "ContinuousEventTimeTrigger",
        "ContinuousProcessingTimeTrigger",
        "CountSlidingWindowAssigner",
        "CountTrigger",
        "CountTumblingWindowAssigner",
        "CountWindowSerializer",
        "DynamicEventTimeSessionWindows",
        "DynamicProcessingTimeSessionWindows",
        "EventTimeSessionWindows",
        "EventTimeTrigger",
        "GlobalWindowSerializer",
        "GlobalWindows",
        "NeverTrigger",
        "ProcessingTimeSessionWindows",
        "ProcessingTimeTrigger",
        "PurgingTrigger",
        "SessionWindowTimeGapExtractor",
        "SlidingEventTimeWindows",
        "SlidingProcessingTimeWindows",
        "TimeWindowSerializer",
        "TumblingEventTimeWindows",
        "TumblingProcessingTimeWindows",
    }
)


def __getattr__(name: str) -> NoReturn:
    if name in _LATER:
        raise not_yet(f"{__name__}.{name}", "windows are")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
