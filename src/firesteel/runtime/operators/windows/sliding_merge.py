"""The contents of one sliding window after the other, each from the one before at a few merges per key.

Merging all panes of every window would cost a key as many merges per firing as a window has panes: 96 for a
day in steps of a quarter of an hour. Instead, time is cut at a *middle*. Behind it, ``back`` is the merge of
everything from the start of the current window to the middle, with notes how to undo pane after pane as
windows move on. From the middle on, ``front`` grows pane by pane. A window is the merge of both. When the
windows have moved past the middle, the panes of the current one become the new back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common._values import MISSING, private, private_all
from firesteel.runtime.operators.windows.output import Contents, Table, merged_key
from firesteel.runtime.operators.windows.panes import PaneStore


class SlidingMerge:
    """Contents of windows that are asked for in the order of their starts."""

    def __init__(self, contents: Contents, panes: PaneStore) -> None:
        self._contents = contents
        self._merge: Callable[[Any, Any], Any] = contents.merge
        self._panes = panes
        self._back: Table = {}
        self._undo: dict[int, Table] = {}  # by pane: what its keys had in ``back`` before it was merged in
        self._front: Table = {}
        self._start = self._middle = self._end = 0
        self._stale: dict[Any, None] = {}  # in a fixed order, as results are

    def changed(self, pane: int, key: Any) -> None:
        """A record was added to a pane that may have been merged already."""
        if self._start <= pane < self._end:
            self._stale[key] = None

    def window(self, start: int) -> Table:
        """The contents of the window, for all its keys."""
        if self._start <= start < self._middle:
            self._forget_before(start)
            self._extend(start + self._panes.grid.size)
        else:
            self._begin(start)
        table = _copy(self._back)
        _merge_into(table, _copy(self._front), self._merge)
        self._refresh(table, start)
        return table

    def _begin(self, start: int) -> None:
        """Merge all panes of a window, from its end to its start."""
        grid, back = self._panes.grid, self._back
        back.clear()
        self._undo.clear()
        self._front.clear()
        self._stale.clear()
        merge = self._merge
        for pane in reversed(grid.panes_of(start)):
            undo = self._undo[pane] = {}
            for key, contents in _copy(self._panes.peek(pane)).items():
                undo[key] = old = back.get(key, MISSING)
                back[key] = contents if old is MISSING else merge(contents, private(old))
        self._start, self._middle, self._end = start, start + grid.size, start + grid.size

    def _forget_before(self, start: int) -> None:
        """Undo the merge into ``back`` of the panes before a window."""
        back = self._back
        for pane in range(self._start, start, self._panes.grid.width):
            for key, old in self._undo.pop(pane).items():
                if old is MISSING:
                    del back[key]
                else:
                    back[key] = old
        self._start = start

    def _extend(self, end: int) -> None:
        """Merge the panes up to the end of a window into ``front``."""
        for pane in range(self._end, end, self._panes.grid.width):
            _merge_into(self._front, _copy(self._panes.peek(pane)), self._merge)
        self._end = end

    def _refresh(self, table: Table, start: int) -> None:
        """Merge again what belongs to keys whose panes have changed since they were merged."""
        if self._stale:
            tables = self._panes.tables_of(start)
            for key in self._stale:
                contents = merged_key(self._contents, key, tables)
                if contents is MISSING:
                    table.pop(key, None)
                else:
                    table[key] = contents


def _copy(table: Table) -> Table:
    """A copy that merging may use up."""
    return dict(zip(table, private_all(table.values()), strict=True))


def _merge_into(target: Table, source: Table, merge: Callable[[Any, Any], Any]) -> None:
    get = target.get
    for key, contents in source.items():
        old = get(key, MISSING)
        target[key] = contents if old is MISSING else merge(old, contents)
