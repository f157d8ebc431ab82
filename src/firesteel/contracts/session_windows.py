"""Session windows: each record starts as a window of its own, and windows that overlap or touch merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.time import AnyLength, millis_of
from firesteel.contracts.triggers import EventTimeTrigger, ProcessingTimeTrigger
from firesteel.contracts.window_assigners import checked_timestamp
from firesteel.contracts.window_serializers import TimeWindowSerializer
from firesteel.contracts.windows import MergingWindowAssigner, TimeWindow, WindowAssigner

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "gap_of",
]

_Context = WindowAssigner.WindowAssignerContext


class SessionWindowTimeGapExtractor(ABC):
    """Tells the gap that a record asks for."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap after ``element`` in milliseconds."""


Extractor = SessionWindowTimeGapExtractor | Callable[[Any], int]


class _Sessions(MergingWindowAssigner[Any, TimeWindow]):
    """What all kinds of sessions share."""

    @override
    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def gap_of(self, element: Any) -> int:
        """The gap after a record in milliseconds."""
        raise NotImplementedError

    @override
    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()


class _EventTimeSessions(_Sessions):
    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        """A window of the record's own."""
        start = checked_timestamp(timestamp)
        return [TimeWindow(start, start + self.gap_of(element))]

    @override
    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        """Fires when the watermark passes the end."""
        return EventTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeSessions(_Sessions):
    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        """A window of the record's own."""
        start = context.get_current_processing_time()
        return [TimeWindow(start, start + self.gap_of(element))]

    @override
    def get_default_trigger(self, env: Any) -> ProcessingTimeTrigger:
        """Fires when the machine's time passes the end."""
        return ProcessingTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return False


class _StaticGap(_Sessions):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise ProgramError(f"{type(self).__name__} needs a gap above 0 ms, got {session_gap}")
        self._session_gap = session_gap

    @override
    def gap_of(self, element: Any) -> int:
        """The gap, which is the same for all."""
        return self._session_gap

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicGap(_Sessions):
    def __init__(self, session_window_time_gap_extractor: Extractor) -> None:
        extractor = session_window_time_gap_extractor
        if isinstance(extractor, SessionWindowTimeGapExtractor):
            self._extract: Callable[[Any], int] = extractor.extract
        elif callable(extractor):
            self._extract = extractor
        else:
            raise ProgramError(
                f"with_dynamic_gap() needs a SessionWindowTimeGapExtractor or a function of a record, got {extractor!r}"
            )

    @override
    def gap_of(self, element: Any) -> int:
        """The gap that the record asks for."""
        gap = self._extract(element)
        if gap <= 0:
            raise ProgramError(f"the gap of a session window must be above 0 ms, got {gap}")
        return gap

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class EventTimeSessionWindows(_StaticGap, _EventTimeSessions):
    """Sessions that end when a key has been silent for a gap of event time.

    >>> EventTimeSessionWindows(5).assign_windows("a", 3, None)
    [TimeWindow(start=3, end=8)]
    """

    @staticmethod
    def with_gap(size: AnyLength) -> EventTimeSessionWindows:
        """Sessions with the same gap for all records."""
        return EventTimeSessionWindows(millis_of(size))

    @staticmethod
    def with_dynamic_gap(extractor: Extractor) -> DynamicEventTimeSessionWindows:
        """Sessions in which each record says how long the gap after it may be."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_StaticGap, _ProcessingTimeSessions):
    """Sessions that end when a key has been silent for a gap of processing time."""

    @staticmethod
    def with_gap(size: AnyLength) -> ProcessingTimeSessionWindows:
        """Sessions with the same gap for all records."""
        return ProcessingTimeSessionWindows(millis_of(size))

    @staticmethod
    def with_dynamic_gap(extractor: Extractor) -> DynamicProcessingTimeSessionWindows:
        """Sessions in which each record says how long the gap after it may be."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap, _EventTimeSessions):
    """Event-time sessions in which each record says how long the gap after it may be."""

    @staticmethod
    def with_dynamic_gap(extractor: Extractor) -> DynamicEventTimeSessionWindows:
        """``extractor`` tells the gap after each record, in milliseconds."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap, _ProcessingTimeSessions):
    """Processing-time sessions in which each record says how long the gap after it may be."""

    @staticmethod
    def with_dynamic_gap(extractor: Extractor) -> DynamicProcessingTimeSessionWindows:
        """``extractor`` tells the gap after each record, in milliseconds."""
        return DynamicProcessingTimeSessionWindows(extractor)


def gap_of(assigner: WindowAssigner[Any, Any]) -> Callable[[Any], int]:
    """What tells the gap after a record, for one of the assigners above."""
    assert isinstance(assigner, _Sessions)
    return assigner.gap_of
