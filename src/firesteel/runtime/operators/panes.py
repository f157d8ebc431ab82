"""Where the contents of tumbling and sliding windows are kept: one table per pane, from key to contents.

A pane is the stretch of time in which records belong to the same windows; its width is the greatest common
divisor of size and slide. Tumbling windows have one pane each. Sliding windows share panes when their
contents can be merged, so a record is added once, however many windows it is in; otherwise each window
has a table of its own. No timer is kept per key: a heap knows which windows are still to fire, and which are
still to go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

from firesteel.common.time import MIN_TIMESTAMP
from firesteel.runtime.operators.window_contents import Table
from firesteel.state.keyed_snapshot import SnapshotPart, TablePart

#: In the block of a pane, besides its start and how far windows had fired: the start is that of a window.
OF_WINDOW = "window"


class PaneGrid:
    """The geometry: windows of one size every so often, and the panes they are made of."""

    __slots__ = ("offset", "size", "slide", "width")

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self.size = size
        self.slide = slide
        self.offset = offset
        self.width = math.gcd(size, slide)

    def pane_of(self, timestamp: int) -> int:
        """Start of the pane that ``timestamp`` is in."""
        return timestamp - (timestamp - self.offset) % self.width

    def windows_of(self, pane: int) -> range:
        """Starts of the windows that a pane is part of, latest first; none in a gap between windows."""
        last = pane - (pane - self.offset) % self.slide
        return range(last, pane + self.width - self.size - 1, -self.slide)

    def panes_of(self, window: int) -> range:
        """Starts of the panes of a window."""
        return range(window, window + self.size, self.width)


class PaneStore:
    """Tables by pane (or by window when ``is_shared`` is false), and which windows wait for what.

    In snapshots a pane is a block of keys and contents with its start. While one is in progress, contents that are
    about to change have to be announced (`save`).
    """

    def __init__(self, grid: PaneGrid, is_shared: bool, lateness: int) -> None:
        self.grid = grid
        self.is_shared = is_shared
        self._lateness = lateness
        self._tables: dict[int, Table] = {}
        self._known: set[int] = set()
        self._to_fire: list[int] = []
        self._to_go: list[int] = []
        self.clock = MIN_TIMESTAMP
        self._frozen: dict[int, list[_PanePart]] = {}  # of snapshots in progress
        self._extra: tuple[Any, ...] = ()  # what every block says besides start and clock

    # Tables -------------------------------------------------------------------------------------------

    def table(self, start: int) -> Table:
        """The table of a pane (or window), which is made when it does not exist."""
        table = self._tables.get(start)
        if table is None:
            table = self._tables[start] = {}
            for window in self.grid.windows_of(start) if self.is_shared else (start,):
                self._expect(window)
        return table

    def peek(self, start: int) -> Table:
        """The table of a pane (or window), empty when it does not exist."""
        return self._tables.get(start) or {}

    def tables_of(self, window: int) -> list[Table]:
        """The tables that a window's contents are in, earliest first."""
        starts = self.grid.panes_of(window) if self.is_shared else (window,)
        return [self._tables[start] for start in starts if start in self._tables]

    def is_open(self, pane: int) -> bool:
        """Whether none of the pane's windows has fired yet, so that records need nothing but adding."""
        windows = self.grid.windows_of(pane)
        return bool(windows) and windows[-1] + self.grid.size - 1 > self.clock

    def is_over(self, window: int) -> bool:
        """Whether a window takes no more records."""
        return window + self.grid.size - 1 + self._lateness <= self.clock

    def has_fired(self, window: int) -> bool:
        """Whether the window's end has passed."""
        return window + self.grid.size - 1 <= self.clock

    # Windows ------------------------------------------------------------------------------------------

    def _expect(self, window: int, fired_until: int = MIN_TIMESTAMP) -> None:
        if window in self._known or self.is_over(window):
            return
        self._known.add(window)
        heappush(self._to_go, window)
        if window + self.grid.size - 1 > max(self.clock, fired_until):
            heappush(self._to_fire, window)

    def next_time(self) -> int | None:
        """The last timestamp of the window that fires next."""
        return self._to_fire[0] + self.grid.size - 1 if self._to_fire else None

    def advance(self, clock: int) -> Iterator[tuple[int, bool]]:
        """Windows up to ``clock`` in the order of what happens to them: True for firing, False for going."""
        self.clock = clock
        to_fire, to_go, last = self._to_fire, self._to_go, self.grid.size - 1
        while to_go:
            if to_fire and to_fire[0] <= to_go[0] + self._lateness:
                if to_fire[0] + last > clock:
                    return
                yield heappop(to_fire), True
            else:
                if to_go[0] + last + self._lateness > clock:
                    return
                yield heappop(to_go), False

    def drop(self, window: int) -> None:
        """The window goes, and with it the tables that no later window needs."""
        self._known.discard(window)
        if not self.is_shared:
            self._tables.pop(window, None)
            return
        grid = self.grid
        for pane in range(window, window + min(grid.slide, grid.size), grid.width):
            self._tables.pop(pane, None)

    # Snapshots ----------------------------------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        """Whether a snapshot is in progress, so that changes have to be announced."""
        return bool(self._frozen)

    def save(self, start: int, keys: list[Any]) -> None:
        """What these keys have in a pane (or window) is about to change."""
        for part in self._frozen.get(start, ()):
            if part.table is self._tables.get(start):
                part.save(keys)
                part.touched[0].update(keys)

    def freeze(self, name: str) -> list[SnapshotPart]:
        """The panes as they are now."""
        parts: list[SnapshotPart] = []
        for start, table in self._tables.items():
            part = _PanePart(name, table, (start, self.clock, *self._extra), self._thaw)
            self._frozen.setdefault(start, []).append(part)
            parts.append(part)
        return parts

    def _thaw(self, part: _PanePart) -> None:
        left = [each for each in self._frozen.get(part.start, ()) if each is not part]
        if left:
            self._frozen[part.start] = left
        else:
            self._frozen.pop(part.start, None)

    def stop_sharing(self) -> None:
        """Keep a table per window from now on, because that is what was restored; while there are no tables."""
        assert not self._tables
        self.is_shared = False
        self._extra = (OF_WINDOW,)

    def restore(self, keys: list[Any], values: list[Any], extra: Any) -> None:
        """Take a block of a snapshot back; ``extra`` is the pane's start and how far windows had fired."""
        start, fired_until = extra[:2]
        if keys:
            self._tables.setdefault(start, {}).update(zip(keys, values, strict=True))
            for window in self.grid.windows_of(start) if self.is_shared else (start,):
                self._expect(window, fired_until)


class _PanePart(TablePart):
    """One pane in a snapshot."""

    def __init__(
        self, name: str, table: Table, extra: tuple[Any, ...], on_close: Callable[[_PanePart], None]
    ) -> None:
        super().__init__(table, None, set(), put=lambda keys, values: ("entries", name, keys, values, extra))
        self.start = extra[0]
        self._on_close = on_close

    def close(self) -> None:
        """Let the pane go."""
        super().close()
        self._on_close(self)
