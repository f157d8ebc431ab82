"""What changed in large maps and lists since when: what a delta has to write of them.

New entries get rising numbers, so of those a delta needs to know only the first: what is behind it is new. Entries that
were there before and have changed or gone are remembered one by one, by their keys; when they are many, the whole map
is written again. See `tracked_state` for the generations between snapshots.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

__all__ = ["CollectionChanges", "Mark"]

_MANY = (
    65_536  # keys in memory for one map; beyond, and beyond a quarter of the map, all of it is written again
)


class Mark:
    """What changed in one large map or list: entries from ``first_new`` on are new, ``keys`` were there before."""

    __slots__ = ("first_new", "keys", "writes_all")

    def __init__(self, first_new: int, writes_all: bool = False) -> None:
        self.first_new = first_new
        self.writes_all = writes_all  # whether a delta has to write all of it
        self.keys: set[Any] = set()

    def note(self, keys: list[Any], count: int) -> None:
        """Entries of these keys, which were there before, change or go; the map has ``count`` entries."""
        if not self.writes_all:
            self.keys.update(keys)
            if len(self.keys) > max(_MANY, count // 4):
                self.writes_all, self.keys = True, set()

    def copy(self) -> Mark:
        """A copy that can be changed on its own."""
        return self.followed_by(self)

    def followed_by(self, later: Mark) -> Mark:
        """The changes of two generations in one mark."""
        merged = Mark(min(self.first_new, later.first_new), self.writes_all or later.writes_all)
        merged.keys = self.keys | later.keys
        return merged


#: By the number of the map or list; or by what names a table, all of whose maps and lists are to be written again.
Marks = dict[Hashable, Mark]


class CollectionChanges:
    """The marks of each generation."""

    __slots__ = ("_earlier", "current")

    def __init__(self) -> None:
        self._earlier: list[tuple[int, Marks]] = []
        self.current: Marks = {}

    def mark(self, collection: Hashable, first_new: int, writes_all: bool = False) -> Mark:
        """The mark of a collection since the last snapshot; made with ``first_new``, the number of its next entry."""
        mark = self.current.get(collection)
        if mark is None:
            mark = self.current[collection] = Mark(first_new)
        mark.writes_all = mark.writes_all or writes_all
        return mark

    def cut(self, checkpoint_id: int) -> None:
        """A snapshot begins: what changes from now on belongs to the next generation."""
        self._earlier.append((checkpoint_id, self.current))
        self.current = {}

    def before_last_cut(self) -> Marks:
        """What changed between the base and the last snapshot."""
        merged: Marks = {}
        for _, marks in self._earlier:
            merged = _merged(merged, marks)
        return merged

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """That snapshot is the base from now on."""
        self._earlier = [generation for generation in self._earlier if generation[0] > checkpoint_id]

    def discard(self, checkpoint_id: int) -> None:
        """That snapshot will never be the base: its changes belong to the next one."""
        for index, (number, marks) in enumerate(self._earlier):
            if number == checkpoint_id:
                del self._earlier[index]
                if index < len(self._earlier):
                    later, after = self._earlier[index]
                    self._earlier[index] = (later, _merged(marks, after))
                else:
                    self.current = _merged(marks, self.current)
                return

    def forget(self) -> None:
        """There is no base any more."""
        self._earlier.clear()
        self.current = {}


def _merged(first: Marks, second: Marks) -> Marks:
    """Both; what is changed in it later changes neither of them, because a snapshot in progress may look at them."""
    merged = {collection: mark.copy() for collection, mark in first.items()}
    for collection, mark in second.items():
        merged[collection] = merged[collection].followed_by(mark) if collection in merged else mark.copy()
    return merged
