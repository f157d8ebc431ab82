"""The windows of one key that may merge, and under which window each keeps its contents.

When windows merge, their contents need not move: they stay stored under one of the old windows,
the *state window* of the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from firesteel.common._override import override
from firesteel.contracts.windows import MergingWindowAssigner, TimeWindow

#: Told what merged: the new window, the old ones, its state window, the state windows whose contents move there.
OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]


class MergingWindowSet:
    """The windows of the key at hand; ``mapping`` is from window to state window."""

    __slots__ = ("_assigner", "_mapping")

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], mapping: dict[Any, Any]) -> None:
        self._assigner = assigner
        self._mapping = mapping

    def state_window(self, window: Any) -> Any:
        """Where a window keeps its contents; None when there is no such window."""
        return self._mapping.get(window)

    def add(self, new: Any, on_merge: OnMerge) -> Any:
        """Add a window and return the one that it has become part of."""
        mapping = self._mapping
        if new in mapping:
            # Flink forgets the contents here when they are kept under another window (dynamic gaps only).
            return new
        if not mapping:
            mapping[new] = new
            return new
        merges = _Merges()
        self._assigner.merge_windows([*mapping, new], merges)
        result, merged_new = new, False
        for merge_result, members in merges.groups:
            # In one order, so that the outcome is always the same: that of time, or in which they came to be.
            old = [window for window in mapping if window in members]
            if all(isinstance(window, TimeWindow) for window in old):
                old.sort(key=attrgetter("start", "end"))
            if new in members:
                result, merged_new = merge_result, True
            if old:
                self._merge(merge_result, old, on_merge)
        if not merged_new:
            mapping[new] = new
        return result

    def _merge(self, result: Any, old: list[Any], on_merge: OnMerge) -> None:
        state_windows = [self._mapping.pop(window) for window in old]
        self._mapping[result] = state_windows[0]
        # A window that only took in the new element's, which has no contents yet, stays what it is.
        if old != [result]:
            on_merge(result, old, state_windows[0], state_windows[1:])


class _Merges(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.groups: list[tuple[Any, set[Any]]] = []

    @override
    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.groups.append((merge_result, set(to_be_merged)))
