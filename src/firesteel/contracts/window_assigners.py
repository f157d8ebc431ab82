"""The assigners that Flink brings along: tumbling, sliding, count and global windows.

Time windows are aligned to 1970-01-01 UTC plus an offset, not to the first record or the start of the job.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.time import MIN_TIMESTAMP, AnyLength, millis_of
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ValueStateDescriptor
from firesteel.contracts.triggers import (
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from firesteel.contracts.window_serializers import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)
from firesteel.contracts.windows import CountWindow, GlobalWindow, TimeWindow, WindowAssigner

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "GlobalWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "checked_timestamp",
]

_Context = WindowAssigner.WindowAssignerContext


def checked_timestamp(timestamp: int | None) -> int:
    """The timestamp of a record that is to go into an event-time window; refused when there is none."""
    if timestamp is None or timestamp == MIN_TIMESTAMP:
        raise ProgramError(
            "a record without a timestamp reached an event-time window; call assign_timestamps_and_watermarks() "
            "on the stream first, or use processing-time windows"
        )
    return timestamp


class _EventTime(WindowAssigner[Any, TimeWindow]):
    """Time windows by the timestamps of the records."""

    @override
    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        """Fires when the watermark passes the end."""
        return EventTimeTrigger()

    @override
    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    @override
    def is_event_time(self) -> bool:
        return True


class _ProcessingTime(WindowAssigner[Any, TimeWindow]):
    """Time windows by the machine's time."""

    @override
    def get_default_trigger(self, env: Any) -> ProcessingTimeTrigger:
        """Fires when the machine's time passes the end."""
        return ProcessingTimeTrigger()

    @override
    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    @override
    def is_event_time(self) -> bool:
        return False


# Tumbling and sliding -------------------------------------------------------------------------------


class _Grid:
    """Windows of one size at regular distances; tumbling ones have their size as distance."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if size <= 0 or slide <= 0:
            raise ProgramError(f"{self._shown(size, slide, offset)}: size and slide must be above 0 ms")
        if abs(offset) >= slide:
            bound = "size" if size == slide else "slide"
            raise ProgramError(
                f"{self._shown(size, slide, offset)}: the offset must be smaller than the {bound}"
            )
        self._size = size
        self._slide = slide
        self._offset = offset
        self._width = math.gcd(size, slide)
        self._low = self._high = 0  # timestamps of which the windows are known
        self._known: list[TimeWindow] = []

    @property
    def grid(self) -> tuple[int, int, int]:
        """Size, slide and offset in milliseconds."""
        return self._size, self._slide, self._offset

    def _windows(self, timestamp: int) -> list[TimeWindow]:
        """The windows that contain ``timestamp``, latest first; none when it lies in a gap."""
        if not self._low <= timestamp < self._high:
            self._low = timestamp - (timestamp - self._offset) % self._width
            self._high = self._low + self._width
            last = timestamp - (timestamp - self._offset) % self._slide
            starts = range(last, timestamp - self._size, -self._slide)
            self._known = [TimeWindow(start, start + self._size) for start in starts]
        # The same objects for neighbouring records: as parts of keys they are found without a comparison.
        return self._known.copy()

    def _shown(self, size: int, slide: int, offset: int) -> str:
        return f"{type(self).__name__}({size}, {slide}, {offset})"

    @override
    def __repr__(self) -> str:
        return self._shown(*self.grid)


class _Tumbling(_Grid):
    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @override
    def _shown(self, size: int, slide: int, offset: int) -> str:
        return f"{type(self).__name__}({size}, {offset})"


class TumblingEventTimeWindows(_Tumbling, _EventTime):
    """Windows of one size, one after the other, by event time.

    >>> from firesteel.common.time import Time
    >>> TumblingEventTimeWindows.of(Time.seconds(5)).assign_windows("a", -1, None)
    [TimeWindow(start=-5000, end=0)]
    """

    @staticmethod
    def of(size: AnyLength, offset: AnyLength = 0) -> TumblingEventTimeWindows:
        """Windows of ``size``, shifted by ``offset``."""
        return TumblingEventTimeWindows(millis_of(size), millis_of(offset or 0))

    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        """The one window of the record."""
        return self._windows(checked_timestamp(timestamp))


class TumblingProcessingTimeWindows(_Tumbling, _ProcessingTime):
    """Windows of one size, one after the other, by processing time."""

    @staticmethod
    def of(size: AnyLength, offset: AnyLength = 0) -> TumblingProcessingTimeWindows:
        """Windows of ``size``, shifted by ``offset``."""
        return TumblingProcessingTimeWindows(millis_of(size), millis_of(offset or 0))

    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        """The window of this moment."""
        return self._windows(context.get_current_processing_time())


class _Sliding(_Grid):
    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        super().__init__(size, slide, offset)


class SlidingEventTimeWindows(_Sliding, _EventTime):
    """Windows of one size that start at regular distances, by event time; they may overlap, or leave gaps.

    >>> SlidingEventTimeWindows(4, 2, 0).assign_windows("a", 3, None)
    [TimeWindow(start=2, end=6), TimeWindow(start=0, end=4)]
    """

    @staticmethod
    def of(size: AnyLength, slide: AnyLength, offset: AnyLength = 0) -> SlidingEventTimeWindows:
        """Windows of ``size`` every ``slide``, shifted by ``offset``."""
        return SlidingEventTimeWindows(millis_of(size), millis_of(slide), millis_of(offset or 0))

    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        """All windows of the record, latest first."""
        return self._windows(checked_timestamp(timestamp))


class SlidingProcessingTimeWindows(_Sliding, _ProcessingTime):
    """Windows of one size that start at regular distances, by processing time."""

    @staticmethod
    def of(size: AnyLength, slide: AnyLength, offset: AnyLength = 0) -> SlidingProcessingTimeWindows:
        """Windows of ``size`` every ``slide``, shifted by ``offset``."""
        return SlidingProcessingTimeWindows(millis_of(size), millis_of(slide), millis_of(offset or 0))

    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        """All windows of this moment, latest first."""
        return self._windows(context.get_current_processing_time())


# Count and global -----------------------------------------------------------------------------------


class _ByCount(WindowAssigner[Any, CountWindow]):
    """Windows by the number of records of a key so far, which is kept as keyed state."""

    _count_descriptor: ValueStateDescriptor
    _window_size: int

    def _next_number(self, context: _Context) -> int:
        """The number of the record among those of its key, from 0."""
        state = context.get_runtime_context().get_state(self._count_descriptor)
        number: int = state.value() or 0
        state.update(number + 1)
        return number

    @override
    def get_default_trigger(self, env: Any) -> CountTrigger:
        """Fires when the window is full."""
        return CountTrigger(self._window_size)

    @override
    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    @override
    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_ByCount):
    """Windows of n records of a key, one after the other."""

    def __init__(self, window_size: int) -> None:
        self._window_size = _positive(window_size, "a count window needs a size")
        self._count_descriptor = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Windows of ``window_size`` records."""
        return CountTumblingWindowAssigner(window_size)

    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[CountWindow]:
        """The window that is being filled."""
        return [CountWindow(self._next_number(context) // self._window_size)]

    @property
    def grid(self) -> tuple[int, int]:
        """Size and slide in records."""
        return self._window_size, self._window_size

    @override
    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_ByCount):
    """Windows of n records of a key, one starting every m records; each fires when it is full."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._window_size = _positive(window_size, "a count window needs a size")
        self._window_slide = _positive(window_slide, "a sliding count window needs a slide")
        self._count_descriptor = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Windows of ``window_size`` records, one every ``window_slide`` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[CountWindow]:
        """The windows that are being filled, latest first."""
        number = self._next_number(context)
        size, slide = self.grid
        first = max(0, -((size - 1 - number) // slide))  # the first that has not ended before this record
        return [CountWindow(id) for id in range(number // slide, first - 1, -1)]

    @property
    def grid(self) -> tuple[int, int]:
        """Size and slide in records."""
        return self._window_size, self._window_slide

    @override
    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


def _positive(number: int, sentence: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
        raise ProgramError(f"{sentence} of at least 1 record, got {number!r}")
    return number


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window for everything; fires at the end of the input, or with a trigger of the program's own."""

    #: On the class, because classes of users need not call ``super().__init__()``.
    _default_trigger: EndOfStreamTrigger | None = None

    @staticmethod
    def create() -> GlobalWindows:
        """One that never fires by itself: it needs a trigger."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """One that fires when the input has ended, and only then; not in PyFlink."""
        windows = GlobalWindows()
        windows._default_trigger = EndOfStreamTrigger()
        return windows

    @override
    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[GlobalWindow]:
        return [GlobalWindow.get()]

    @override
    def get_default_trigger(self, env: Any) -> NeverTrigger | EndOfStreamTrigger:
        return self._default_trigger or NeverTrigger()

    @override
    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    @override
    def is_event_time(self) -> bool:
        return False

    @override
    def __repr__(self) -> str:
        return "GlobalWindows()"
