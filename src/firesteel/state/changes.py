"""Which keys were touched since when: what a delta has to write, and what a snapshot in progress has saved already.

Time is cut into generations by the snapshots. A delta is relative to the last *completed* checkpoint, and whether a
checkpoint is completed is known long after its snapshot was taken; so the keys of a generation are kept until a later
checkpoint is completed, and pass to the next generation when theirs is aborted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Changes"]


class Changes:
    """The touched keys of tables (in sets) or of timers (in dicts, because their order is kept).

    ``current`` collects those of now. It is another object after every snapshot: do not keep it.
    """

    __slots__ = ("_earlier", "_new", "current")

    def __init__(self, new: Callable[[], Any] = set) -> None:
        self._new = new
        self._earlier: list[tuple[int, Any]] = []  # what was touched before the snapshot of that number
        self.current: Any = new()

    def cut(self, checkpoint_id: int) -> None:
        """A snapshot begins: from now on touched is touched after it."""
        self._earlier.append((checkpoint_id, self.current))
        self.current = self._new()

    def before_last_cut(self) -> Any:
        """All that was touched between the base and the last snapshot."""
        if len(self._earlier) == 1:
            return self._earlier[0][1]
        all_touched = self._new()
        for _, touched in self._earlier:
            all_touched.update(touched)
        return all_touched

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """That snapshot is the base from now on."""
        self._earlier = [generation for generation in self._earlier if generation[0] > checkpoint_id]

    def discard(self, checkpoint_id: int) -> None:
        """That snapshot will never be the base: what was touched before it belongs to the next one."""
        for index, (number, touched) in enumerate(self._earlier):
            if number == checkpoint_id:
                del self._earlier[index]
                # In place: a snapshot in progress looks at the same object. To it these keys are nothing new.
                self._later(index).update(touched)
                return

    def _later(self, index: int) -> Any:
        return self._earlier[index][1] if index < len(self._earlier) else self.current

    def count(self) -> int:
        """How many keys are remembered, some of them perhaps more than once."""
        return len(self.current) + sum(len(touched) for _, touched in self._earlier)

    def forget(self) -> None:
        """There is no base any more."""
        self._earlier.clear()
        self.current = self._new()
