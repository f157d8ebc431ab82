"""What a window is, and what users may write about windows: assigners and triggers.

The assigners and triggers that Flink brings along, and running them, are built on these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.time import MAX_TIMESTAMP
from firesteel.contracts.runtime_context import RuntimeContext

if TYPE_CHECKING:
    from firesteel.contracts.state import State, StateDescriptor

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

T = TypeVar("T", contravariant=True, default=Any)
W = TypeVar("W", default=Any)
W2 = TypeVar("W2", default=Any)
S = TypeVar("S", bound="State", default=Any)


class Window(ABC):
    """A finite group of elements."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that belongs to the window."""


class TimeWindow(Window):
    """The time from ``start`` up to, but not including, ``end``, in milliseconds.

    >>> window = TimeWindow(0, 5000)
    >>> window.max_timestamp(), window.intersects(TimeWindow(5000, 6000))
    (4999, True)
    >>> window.cover(TimeWindow(4000, 9000))
    TimeWindow(start=0, end=9000)
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    @override
    def max_timestamp(self) -> int:
        """One less than the end."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Start of the window of that size that ``timestamp`` falls into.

        >>> TimeWindow.get_window_start_with_offset(-1, 0, 5)
        -5
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(
        windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        """Tell ``callback`` which windows overlap or touch, and what they become."""
        groups: list[tuple[TimeWindow, set[TimeWindow]]] = []
        for window in sorted(windows, key=lambda w: (w.start, w.end)):
            if groups and groups[-1][0].intersects(window):
                merged, members = groups[-1]
                groups[-1] = (merged.cover(window), members | {window})
            else:
                groups.append((window, {window}))
        for merged, members in groups:
            if len(members) > 1:
                callback.merge(members, merged)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    @override
    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __lt__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) <= (other.start, other.end)

    @override
    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """One of the consecutive windows of a fixed number of elements."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    @override
    def max_timestamp(self) -> int:
        """The largest there is: such a window has no time."""
        return MAX_TIMESTAMP

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    @override
    def __hash__(self) -> int:
        return hash(self.id)

    @override
    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window that contains everything."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The instance that all share; any other one would be equal to it."""
        return _GLOBAL_WINDOW

    @override
    def max_timestamp(self) -> int:
        """The largest there is: the window never ends."""
        return MAX_TIMESTAMP

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    @override
    def __hash__(self) -> int:
        return 0

    @override
    def __repr__(self) -> str:
        return "GlobalWindow"


_GLOBAL_WINDOW = GlobalWindow()


class TriggerResult(Enum):
    """What a trigger decides: emit the window's result, drop its elements, both, or neither."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the result is emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the elements are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window's result is emitted."""

    class TriggerContext(ABC):
        """What a trigger may ask and do; timers and state belong to the key and the window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """The group under which the trigger registers its own metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Event time up to which the input is complete."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `Trigger.on_processing_time` called at ``time``."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `Trigger.on_event_time` called when the watermark reaches ``time``."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Forget the processing-time timer that was registered for ``time``."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Forget the event-time timer that was registered for ``time``."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
            """State of this key and this window."""

    class OnMergeContext(TriggerContext):
        """What a trigger may ask and do when windows merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the old windows into that of the new one."""

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext, /
    ) -> TriggerResult:
        """Decide when an element has been added."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext, /) -> TriggerResult:
        """Decide when a processing-time timer is due."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext, /) -> TriggerResult:
        """Decide when an event-time timer is due."""

    def can_merge(self) -> bool:
        """Whether the trigger works with windows that merge."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext, /) -> None:
        """Carry timers and state over to the window that others became."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext, /) -> None:
        """Forget timers and state of a window that goes."""


class WindowAssigner(ABC, Generic[T, W]):
    """Says to which windows an element belongs."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """The operator's place in the job."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext, /
    ) -> Collection[W]:
        """The windows of an element."""

    @abstractmethod
    def get_default_trigger(self, env: Any, /) -> Trigger[T, W]:
        """The trigger used when the program names none."""

    @abstractmethod
    def get_window_serializer(self) -> Any:
        """How windows are written; kept for PyFlink's sake."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows are made of event time."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may merge, as sessions do."""

    class MergeCallback(ABC, Generic[W2]):
        """Takes note of merges."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """The windows ``to_be_merged`` become ``merge_result``."""

    @abstractmethod
    def merge_windows(
        self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W], /
    ) -> None:
        """Tell ``callback`` which windows become one."""
