"""Where the contents of tumbling and sliding windows are kept, when which window fires, and when it goes.

Which of two stores depends on how many windows a record is in:

- One, as in tumbling windows: `PaneStore` has a table per window, from key to contents.
- Several, as in sliding windows: records have to be added to each of them, one after the other, as only that gives
  what folding in the order of arrival gives. `WindowBlocks` has a table per *block*, which is a
  row of windows, from key to the contents of each.
- Several, with a function that says that merging is exact: then `PaneStore` has a table per *pane*, the stretch of
  time in which records belong to the same windows. Windows share panes, so a record is added once.

No timer is kept per key: a heap knows which windows are still to fire, and which are still to go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import MISSING
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.runtime.operators.windows.output import Table
from firesteel.state.snapshot.keyed_snapshot import SnapshotSection, TableSection

#: The third word of a block in a snapshot, besides its start and how far windows had fired: contents are by the start of
#: their window. Without a third word they are those of a pane; with any other one, those of the window that starts there,
#: as earlier versions have written.
BY_WINDOW = "windows"

#: Some of the windows of a block: the table from key to slots, the first slot, the one after the last.
Slots = tuple[Table, int, int]

_LEAST_SLOTS = 16  # in a block
_MOST_PANES_REMEMBERED = 1024  # with the slots of their windows


class PaneGrid:
    """The geometry: windows of one size, one every ``slide`` milliseconds, and the panes they are made of."""

    __slots__ = ("offset", "size", "slide", "width")

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self.size = size
        self.slide = slide
        self.offset = offset
        self.width = math.gcd(size, slide)

    @property
    def overlaps(self) -> bool:
        """Whether a record may be in several windows."""
        return self.size > self.slide

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


class GridStore:
    """Tables by where they start, and which windows wait for what.

    In snapshots a table is a block of keys and contents with its start. While one is in progress, contents that are
    about to change have to be announced (`save`). ``slots``: how many contents a key has in a table.
    """

    slots = 1

    def __init__(self, grid: PaneGrid, lateness: int) -> None:
        self.grid = grid
        self._lateness = lateness
        self._tables: dict[int, Table] = {}
        self._known: set[int] = set()
        self._to_fire: list[int] = []
        self._to_remove: list[int] = []
        self.clock = MIN_TIMESTAMP
        self._frozen: dict[int, list[PaneSection]] = {}  # of snapshots in progress

    # Windows ------------------------------------------------------------------------------------------

    def is_open(self, pane: int) -> bool:
        """Whether none of the pane's windows has fired yet, so that records need nothing but adding."""
        windows = self.grid.windows_of(pane)
        return bool(windows) and windows[-1] + self.grid.size - 1 > self.clock

    def is_over(self, window: int) -> bool:
        """Whether no more records are added to a window."""
        return window + self.grid.size - 1 + self._lateness <= self.clock

    def has_fired(self, window: int) -> bool:
        """Whether the window's end has passed."""
        return window + self.grid.size - 1 <= self.clock

    def _schedule(self, window: int, fired_until: int = MIN_TIMESTAMP) -> bool:
        """Have a window fire and go; false when that is known, or the window is over."""
        if window in self._known or self.is_over(window):
            return False
        self._known.add(window)
        heappush(self._to_remove, window)
        if window + self.grid.size - 1 > max(self.clock, fired_until):
            heappush(self._to_fire, window)
        return True

    def next_time(self) -> int | None:
        """The last timestamp of the window that fires next."""
        return self._to_fire[0] + self.grid.size - 1 if self._to_fire else None

    def advance(self, clock: int) -> Iterator[tuple[int, bool]]:
        """Windows up to ``clock`` in the order of what happens to them: True for firing, False for going."""
        self.clock = clock
        to_fire, to_remove, last = self._to_fire, self._to_remove, self.grid.size - 1
        while to_remove:
            if to_fire and to_fire[0] <= to_remove[0] + self._lateness:
                if to_fire[0] + last > clock:
                    return
                yield heappop(to_fire), True
            else:
                if to_remove[0] + last + self._lateness > clock:
                    return
                yield heappop(to_remove), False

    # Snapshots ----------------------------------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        """Whether a snapshot is in progress, so that changes have to be announced."""
        return bool(self._frozen)

    def save(self, start: int, keys: list[Any]) -> None:
        """What these keys have in the table of ``start`` is about to change."""
        for section in self._frozen.get(start, ()):
            if section.table is self._tables.get(start):
                section.save(keys)
                section.touched[0].update(keys)

    def freeze(self, name: str) -> list[SnapshotSection]:
        """The tables as they are now."""
        sections: list[SnapshotSection] = []
        for start, table in self._tables.items():
            section = self._section(name, start, table)
            self._frozen.setdefault(start, []).append(section)
            sections.append(section)
        return sections

    def _section(self, name: str, start: int, table: Table) -> PaneSection:
        return PaneSection(name, table, (start, self.clock), self._thaw)

    def _thaw(self, section: PaneSection) -> None:
        others = [other for other in self._frozen.get(section.start, ()) if other is not section]
        if others:
            self._frozen[section.start] = others
        else:
            self._frozen.pop(section.start, None)


class PaneStore(GridStore):
    """A table per pane; where windows do not overlap, a window is a pane."""

    def pane_at(self, timestamp: int) -> tuple[int, int, Table | None]:
        """Bounds of a pane and its table; no table when records cannot simply be added."""
        start, end = self.bounds(timestamp)
        return start, end, self.table(start) if self.is_open(start) else None

    def starts_at(self, timestamp: int) -> Iterable[int]:
        """Where the tables start that a record is added to."""
        return self.bounds(timestamp)[:1]

    def bounds(self, timestamp: int) -> tuple[int, int]:
        """First timestamp of the pane that a timestamp is in, and the one after its last."""
        grid = self.grid
        if grid.overlaps:
            pane = grid.pane_of(timestamp)
            return pane, pane + grid.width
        window = timestamp - (timestamp - grid.offset) % grid.slide
        if timestamp < window + grid.size:
            return window, window + grid.size
        return window + grid.size, window + grid.slide  # a gap between windows

    def table(self, start: int) -> Table:
        """The table of a pane, which is made when it does not exist."""
        table = self._tables.get(start)
        if table is None:
            table = self._tables[start] = {}
            for window in self.grid.windows_of(start):
                self._schedule(window)
        return table

    def peek(self, start: int) -> Table:
        """The table of a pane, empty when it does not exist."""
        return self._tables.get(start) or {}

    def tables_of(self, window: int) -> list[Table]:
        """The tables that a window's contents are in, earliest first."""
        starts = self.grid.panes_of(window) if self.grid.overlaps else (window,)
        return [self._tables[start] for start in starts if start in self._tables]

    def drop(self, window: int) -> None:
        """The window goes, and with it the tables that no later window needs."""
        self._known.discard(window)
        grid = self.grid
        for pane in range(window, window + grid.slide, grid.width) if grid.overlaps else (window,):
            self._tables.pop(pane, None)

    def restore(self, keys: list[Any], values: list[Any], extra: Any) -> None:
        """Restore a block of a snapshot; ``extra`` is the pane's start and how far windows had fired."""
        start, fired_until = extra
        if keys:
            self._tables.setdefault(start, {}).update(zip(keys, values, strict=True))
            for window in self.grid.windows_of(start):
                self._schedule(window, fired_until)

    def restore_window(self, key: Any, window: int, contents: Any, fired_until: int) -> None:
        """Restore what a key has in a window that shares nothing."""
        self.restore([key], [contents], (window, fired_until))


class PaneSection(TableSection):
    """One table in a snapshot; ``extra`` begins with its start."""

    def __init__(
        self,
        name: str,
        table: Table,
        extra: tuple[Any, ...],
        on_close: Callable[[PaneSection], None],
        encode: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(
            table,
            None,
            set(),
            put=lambda keys, values: ("entries", name, keys, values, extra),
            encode=encode,
        )
        self.start = extra[0]
        self._on_close = on_close

    @override
    def close(self) -> None:
        super().close()
        self._on_close(self)


class WindowBlocks(GridStore):
    """The contents of windows that overlap and share nothing: a table per block, from key to a row of contents.

    A *block* is a row of twice as many windows as a record is in, or more, so the windows of a record are in one block
    or in two neighbours, and they are neighbours there: adding a record to all of them is one loop over a slice. A key's
    row has a slot per window of the block, the latest one first, because in that order a record is added to its windows.
    A slot without contents has `MISSING` in it.

    In snapshots a row is a dictionary from the start of a window to its contents.
    """

    def __init__(self, grid: PaneGrid, lateness: int) -> None:
        super().__init__(grid, lateness)
        self.slots = max(_LEAST_SLOTS, 2 * -(-grid.size // grid.slide))
        self._length = self.slots * grid.slide  # from the start of a block to that of the next one
        self._waiting: dict[int, int] = {}  # by block: its windows that have not gone
        # Of some panes whose windows have not all gone.
        self._slots_by_pane: dict[int, list[Slots]] = {}

    # Blocks and slots ---------------------------------------------------------------------------------

    def block_of(self, window: int) -> int:
        """Start of the block that a window is in."""
        return window - (window - self.grid.offset) % self._length

    def _slot_of(self, window: int) -> int:
        return self.slots - 1 - (window - self.grid.offset) % self._length // self.grid.slide

    def pane_at(self, timestamp: int) -> tuple[int, int, list[Slots] | None]:
        """Bounds of a pane and the slots of its windows; no slots when records cannot simply be added."""
        pane = self.grid.pane_of(timestamp)
        return pane, pane + self.grid.width, self._slots_of(pane) if self.is_open(pane) else None

    def starts_at(self, timestamp: int) -> Iterable[int]:
        """Where the tables start that a record is added to."""
        return set(map(self.block_of, self.grid.windows_of(self.grid.pane_of(timestamp))))

    def _slots_of(self, pane: int) -> list[Slots]:
        """Where the contents of an open pane's windows are, the latest windows first."""
        pane_slots = self._slots_by_pane.get(pane)
        if pane_slots is None:
            if len(self._slots_by_pane) >= _MOST_PANES_REMEMBERED:
                self._slots_by_pane.clear()
            pane_slots = self._slots_by_pane[pane] = []
            windows = self.grid.windows_of(pane)
            for block in dict.fromkeys(map(self.block_of, windows)):
                slots = [self._slot_of(window) for window in windows if self.block_of(window) == block]
                pane_slots.append((self._tables.setdefault(block, {}), slots[0], slots[-1] + 1))
            for window in windows:
                self._schedule(window)
        return pane_slots

    def row(self, window: int, key: Any) -> tuple[list[Any], int]:
        """The row of a key that a window is in, which is made when it does not exist, and the window's slot."""
        self._schedule(window)
        table = self._tables.setdefault(self.block_of(window), {})
        row = table.get(key)
        if row is None:
            row = table[key] = [MISSING] * self.slots
        return row, self._slot_of(window)

    def contents(self, window: int) -> Iterator[tuple[Any, Any]]:
        """The keys that have something in a window, and what."""
        slot = self._slot_of(window)
        for key, row in self._tables.get(self.block_of(window), {}).items():
            contents = row[slot]
            if contents is not MISSING:
                yield key, contents

    # Windows ------------------------------------------------------------------------------------------

    @override
    def _schedule(self, window: int, fired_until: int = MIN_TIMESTAMP) -> bool:
        is_new = super()._schedule(window, fired_until)
        if is_new:
            block = self.block_of(window)
            self._waiting[block] = self._waiting.get(block, 0) + 1
        return is_new

    def drop(self, window: int) -> None:
        """The window goes, and with the last one of a block its table."""
        self._known.discard(window)
        for pane in [pane for pane in self._slots_by_pane if pane < window + self.grid.slide]:
            del self._slots_by_pane[pane]
        block, slot = self.block_of(window), self._slot_of(window)
        self._waiting[block] -= 1
        if not self._waiting[block]:
            del self._waiting[block]
            self._tables.pop(block, None)
            return
        table = self._tables[block]
        if self.is_frozen:
            self.save(block, list(table))
        for row in table.values():
            row[slot] = MISSING

    # Snapshots ----------------------------------------------------------------------------------------

    @override
    def _section(self, name: str, start: int, table: Table) -> PaneSection:
        return PaneSection(name, table, (start, self.clock, BY_WINDOW), self._thaw, self._encoder(start))

    def _encoder(self, block: int) -> Callable[[list[Any]], dict[int, Any]]:
        """What makes rows of a block readable without knowing the block."""
        starts = [block + slot * self.grid.slide for slot in reversed(range(self.slots))]

        def encode(row: list[Any]) -> dict[int, Any]:
            by_start = zip(starts, row, strict=True)
            return {start: contents for start, contents in by_start if contents is not MISSING}

        return encode

    def restore(self, keys: list[Any], values: list[Any], extra: Any) -> None:
        """Restore a block of a snapshot; ``extra`` tells how far windows had fired."""
        for key, row in zip(keys, values, strict=True):
            for window, contents in row.items():
                self.restore_window(key, window, contents, extra[1])

    def restore_window(self, key: Any, window: int, contents: Any, fired_until: int) -> None:
        """Restore what a key has in a window."""
        self._schedule(window, fired_until)
        row, slot = self.row(window, key)
        row[slot] = contents
