"""Windows as Flink defines them, in the plainest way: a list of windows that is searched for every record.

Part of the interpreter of `record_by_record`, and like it independent of the engine. What is in a window is opaque here:
it is made by ``add`` in the order of arrival, and by ``merge`` where sessions become one, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from firesteel_support.value_programs import Windows

__all__ = ["NaiveWindows", "OpenWindow"]


@dataclass(eq=False)
class OpenWindow:
    """A window of one key from ``start`` to before ``end``; one of so many records has its number as both."""

    key: Any
    start: int
    end: int
    contents: Any = None
    timers: set[int] = field(default_factory=set)
    count: int = 0  # of the count trigger
    next_fire: int | None = None  # of the continuous trigger


class NaiveWindows:
    """The windows of one step. ``fire`` and ``gone`` are called with a window, ``late`` with a record."""

    def __init__(
        self,
        settings: Windows,
        add: Callable[[Any, Any, int], Any],
        merge: Callable[[Any, Any], Any],
        fire: Callable[[OpenWindow], None],
        gone: Callable[[OpenWindow], None],
        late: Callable[[Any, int], None],
    ) -> None:
        self.settings = settings
        self.add, self.merge, self.fire, self.gone, self.late = add, merge, fire, gone, late
        self.open: list[OpenWindow] = []
        self.clock = -(2**63)
        self.seen: dict[Any, int] = {}  # records of a key so far, for windows by count

    def receive(self, key: Any, value: Any, timestamp: int) -> None:
        """One record."""
        if self.settings.by_count:
            self._count(key, value, timestamp)
            return
        taken = False
        for window in self._windows_of(key, timestamp):
            if self._end_of_life(window) <= self.clock:
                continue
            taken = True
            if window not in self.open:
                self.open.append(window)
            window.contents = self.add(window.contents, value, timestamp)
            if self._on_element(window, timestamp):
                self._fire(window)
            window.timers.add(self._end_of_life(window))
        if not taken and timestamp + self.settings.lateness <= self.clock:
            self.late(value, timestamp)

    def advance(self, clock: int) -> None:
        """Event time has come so far: timers fire, one after the other, as if time had not jumped."""
        self.clock = clock
        while True:
            due = [
                (min(w.timers), n, w) for n, w in enumerate(self.open) if w.timers and min(w.timers) <= clock
            ]
            if not due:
                return
            time, _, window = min(due)
            window.timers.remove(time)
            if self._on_time(window, time) and window.contents is not None:
                self._fire(window)
            if time == self._end_of_life(window):
                self.open.remove(window)
                self.gone(window)

    def _fire(self, window: OpenWindow) -> None:
        self.fire(window)
        if self.settings.trigger == "purging count":
            window.contents = None

    def _end_of_life(self, window: OpenWindow) -> int:
        return window.end - 1 + self.settings.lateness

    # Which windows ------------------------------------------------------------------------------------

    def _windows_of(self, key: Any, timestamp: int) -> list[OpenWindow]:
        size, slide = self.settings.size, self.settings.slide or self.settings.size
        if self.settings.merge:
            return [self._session(key, timestamp, timestamp + size)]
        last = timestamp // slide * slide
        starts = [start for start in range(last, last - size, -slide) if start <= timestamp < start + size]
        return [self._window(key, start, start + size) for start in starts]

    def _window(self, key: Any, start: int, end: int) -> OpenWindow:
        found = [w for w in self.open if (w.key, w.start, w.end) == (key, start, end)]
        return found[0] if found else OpenWindow(key, start, end)

    def _session(self, key: Any, start: int, end: int) -> OpenWindow:
        """One window of all that touch this one."""
        touched = [w for w in self.open if w.key == key and w.start <= end and w.end >= start]
        if not touched:
            return OpenWindow(key, start, end)
        merged = OpenWindow(key, min(start, *(w.start for w in touched)), max(end, *(w.end for w in touched)))
        for window in touched:
            self.open.remove(window)
            both = merged.contents is not None
            merged.contents = self.merge(merged.contents, window.contents) if both else window.contents
        if merged.end - 1 > self.clock:
            merged.timers.add(merged.end - 1)
        self.open.append(merged)
        return merged

    def _count(self, key: Any, value: Any, timestamp: int) -> None:
        """Windows of so many records of a key: each fires when it is full."""
        size, slide = self.settings.size, self.settings.slide or self.settings.size
        number = self.seen.get(key, 0)
        self.seen[key] = number + 1
        for start in range(number // slide, -1, -1):
            if number < start * slide + size:
                window = self._window(key, start, start)
                if window not in self.open:
                    self.open.append(window)
                window.contents = self.add(window.contents, value, timestamp)
                if number + 1 == start * slide + size:
                    self.fire(window)

    # When they fire -----------------------------------------------------------------------------------

    def _on_element(self, window: OpenWindow, timestamp: int) -> bool:
        end = window.end - 1
        if "count" in self.settings.trigger:
            window.count += 1
            if window.count < self.settings.every:
                return False
            window.count = 0
            return True
        if end <= self.clock:
            return True
        window.timers.add(end)
        if self.settings.trigger == "continuous" and window.next_fire is None:
            self._fire_again(window, timestamp - timestamp % self.settings.every)
        return False

    def _on_time(self, window: OpenWindow, time: int) -> bool:
        if "count" in self.settings.trigger:
            return False
        if time == window.end - 1:
            return True
        if time == window.next_fire:
            self._fire_again(window, time)
            return True
        return False

    def _fire_again(self, window: OpenWindow, time: int) -> None:
        window.next_fire = min(time + self.settings.every, window.end - 1)
        window.timers.add(window.next_fire)
