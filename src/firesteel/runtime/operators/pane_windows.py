"""Tumbling and sliding windows with their default trigger: what most programs use, and the fast way to do it.

The same results as `window.WindowOperator`, from tables of panes instead of state and timers per key and
window. The property tests compare both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import repeat
from typing import Any, cast

from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_millis
from firesteel.contracts.window_assigners import checked_timestamp
from firesteel.contracts.windows import TimeWindow
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.detached import detached, detached_all
from firesteel.runtime.operators.panes import PaneGrid, PaneStore
from firesteel.runtime.operators.sliding_merge import SlidingMerge
from firesteel.runtime.operators.window_base import WindowingOperator
from firesteel.runtime.operators.window_contents import MISSING, Table, merged_key, merged_tables
from firesteel.runtime.operators.window_conversion import PANES, from_general, from_panes
from firesteel.runtime.operators.window_output import LateRecords, WindowContext, WindowResults, WindowStates
from firesteel.runtime.operators.window_parts import WindowParts

_MANY_PANES = 4  # per window, from which on it pays to keep merged contents between windows


class PaneWindowOperator(WindowingOperator):
    """Tumbling and sliding windows, by event time or processing time."""

    def __init__(self, parts: WindowParts, grid: PaneGrid, shares_panes: bool) -> None:
        super().__init__(parts)
        self._state = parts.state
        self._grid = grid
        self._is_event_time = parts.assigner.is_event_time()
        self._is_single = self._grid.size == self._grid.slide
        self._panes = PaneStore(self._grid, shares_panes or self._is_single, parts.allowed_lateness)
        self._sliding: SlidingMerge | None = None

    def open(self, context: OperatorContext) -> None:
        """Open the user's functions, make the contexts, take in what was restored."""
        self._open_functions(context)
        parts = self._parts
        self._restore()
        self.output = context.output
        self._now = context.services.now
        states = WindowStates(self._state)
        window_context = WindowContext(self, context, states, is_merging=False)
        self._results = WindowResults(
            context.output, parts.function, parts.contents.is_single, window_context, states, self._state
        )
        self._late = LateRecords(context, parts.late_tag)
        self._fires_all_at_end = context.mode is RuntimeMode.BATCH

    def _restore(self) -> None:
        """Take in what was restored, whichever operator has written it; then it is known whether panes are shared."""
        state, panes = self._state, self._panes
        found = from_general(state, self._is_event_time)
        entries = state.take_restored_entries(PANES)
        is_by_window = found or any(len(extra) > 2 for keys, _, extra in entries if keys)
        if is_by_window and panes.is_shared and not self._is_single:
            parts = self._parts
            found += from_panes(entries, self._grid, True, parts.allowed_lateness, parts.contents)
            entries = []
            panes.stop_sharing()
        for keys, values, extra in entries:
            panes.restore(keys, values, extra)
        for key, window, kept, has_fired in found:
            fired_until = window.max_timestamp() if has_fired else MIN_TIMESTAMP
            panes.restore([key], [kept], (window.start, fired_until))
        state.add_store(PANES, panes)
        if panes.is_shared and len(self._grid.panes_of(0)) >= _MANY_PANES:
            self._sliding = SlidingMerge(self._parts.contents, panes)

    # Records ------------------------------------------------------------------------------------------

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Add every record to its pane."""
        stamps = self._stamps(timestamps)
        add_batch = self._parts.contents.add_batch
        try:
            if self._panes.is_frozen:
                self._announce(stamps, values)
            self.cursor = cursor = iter(values)
            add_batch(self._pane_at, self._one_by_one, self._parts.key_of, stamps, cursor)
        except TypeError:
            if timestamps is not None and self._is_event_time and None in timestamps:
                checked_timestamp(None)
            raise
        self._results.flush()
        self._late.flush()

    def _announce(self, timestamps: Iterable[int], values: list[Any]) -> None:
        """Tell snapshots in progress which contents are about to change."""
        self.cursor = cursor = iter(values)
        key_of, grid, is_shared = self._parts.key_of, self._grid, self._panes.is_shared
        touched: dict[int, list[Any]] = {}
        for timestamp, value in zip(timestamps, cursor, strict=False):
            key, pane = key_of(value), grid.pane_of(timestamp)
            hash(key)
            for start in (pane,) if is_shared else grid.windows_of(pane):
                touched.setdefault(start, []).append(key)
        for start, keys in touched.items():
            self._panes.save(start, keys)

    def _stamps(self, timestamps: Timestamps) -> Iterable[int]:
        if not self._is_event_time:
            # One time for the whole batch, and never one whose windows have fired already.
            return repeat(max(to_millis(self._now()), self._panes.clock + 1))
        if timestamps is None:
            return repeat(checked_timestamp(None))
        return cast("list[int]", timestamps)

    def _pane_at(self, timestamp: int) -> tuple[int, int, Table | None]:
        """Bounds and table of a pane; no table when records cannot simply be added."""
        pane = self._grid.pane_of(timestamp)
        if not self._panes.is_shared or not self._panes.is_open(pane):
            return pane, pane, None
        return pane, pane + self._grid.width, self._panes.table(pane)

    def _one_by_one(self, key: Any, value: Any, timestamp: int) -> None:
        """A record of which some windows have fired or gone, or whose windows share nothing."""
        panes, pane = self._panes, self._grid.pane_of(timestamp)
        windows = [window for window in self._grid.windows_of(pane) if not panes.is_over(window)]
        if not windows:
            if timestamp + self._parts.allowed_lateness <= panes.clock:
                self._late.add(value, timestamp)
            return
        add = self._parts.contents.add
        for start in (pane,) if panes.is_shared else windows:
            table = panes.table(start)
            table[key] = add(table.get(key, MISSING), value)
        if self._sliding is not None:
            self._sliding.changed(pane, key)
        for window in windows:
            if panes.has_fired(window):
                self._fire_key(window, key)

    # Firing -------------------------------------------------------------------------------------------

    def _fire_key(self, window: int, key: Any) -> None:
        """A late record: the whole result of its window again, for its key."""
        contents = self._parts.contents
        tables = self._panes.tables_of(window)
        if len(tables) == 1:
            result = contents.result(tables[0][key])
            result = detached(result) if contents.is_single else result
        else:
            result = contents.result(merged_key(contents, key, tables))
        if self._state.tracks:
            self._state.touch((key,))
        self._state.current_key = key
        self._results.fire(key, self._window(window), result)

    def _fire(self, window: int) -> None:
        """The end of a window: the results of all its keys."""
        contents = self._parts.contents
        found = self._contents_of(window)
        results = contents.results(found.values())
        shares = self._panes.is_shared and not self._is_single
        is_kept = shares or self._parts.allowed_lateness > 0
        if is_kept and contents.is_single and self._sliding is None:
            results = detached_all(results)
        self._results.fire_all(self._window(window), found, results)

    def _contents_of(self, window: int) -> Table:
        if self._sliding is not None:
            return self._sliding.window(window)
        tables = self._panes.tables_of(window)
        return tables[0] if len(tables) == 1 else merged_tables(self._parts.contents, tables)

    def _go(self, window: int) -> None:
        """The window is over: tell the window function, drop the contents."""
        if self._results.has_function:
            found = self._window(window)
            for key in dict.fromkeys(key for table in self._panes.tables_of(window) for key in table):
                if self._state.tracks:
                    self._state.touch((key,))
                self._state.current_key = key
                self._results.clear(key, found)
        self._panes.drop(window)

    def _window(self, start: int) -> TimeWindow:
        return TimeWindow(start, start + self._grid.size)

    # Time ---------------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> None:
        """Let windows fire and go, then pass the watermark on."""
        self.current_watermark = timestamp
        if self._is_event_time:
            self._advance(timestamp)
        self.output.watermark(timestamp)

    def next_deadline(self) -> float:
        """The end of the next processing-time window."""
        time = None if self._is_event_time else self._panes.next_time()
        return math.inf if time is None else (time + 1) / 1000

    def on_time(self, now: float) -> None:
        """Let windows fire and go."""
        self._advance(to_millis(now) - 1)

    def finish(self) -> None:
        """In BATCH all windows fire at the end; in STREAMING processing-time windows die with the job."""
        if self._fires_all_at_end and not self._is_event_time:
            self._advance(MAX_TIMESTAMP)

    def _advance(self, clock: int) -> None:
        for window, fires in self._panes.advance(clock):
            if fires:
                self._fire(window)
            else:
                self._go(window)
        self._results.flush()
