"""Where a thread that reads from another system hands over what it has read to the task that polls.

It is bounded: whoever reads faster than the job can take waits. What went wrong in the thread comes out at the task, behind
the records that were read before.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

#: So many records wait for the task at the most, and a batch more.
CAPACITY = 10_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """A batch that a client gave: records of one split, in order, and the position of the split behind each of them.

    ``positions`` runs parallel to ``values`` and may be a range; a reader that begins at one of them gives the records
    that follow. None: the split cannot be read again from the middle. ``timestamps`` are event times in milliseconds, None
    when there are none. ``ended``: nothing will ever follow in this split.
    """

    values: list[Any]
    split: Hashable = None
    positions: Sequence[Any] | None = None
    timestamps: list[int | None] | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        for name, others in (("positions", self.positions), ("timestamps", self.timestamps)):
            if others is not None and len(others) != len(self.values):
                raise ValueError(
                    f"a batch of {len(self.values)} records of the split {self.split!r} has {len(others)} {name}; "
                    "each record needs one"
                )


class HandOver:
    """A queue between one thread and one task; ``wake`` has the task look."""

    def __init__(self, wake: Callable[[], None], capacity: int = CAPACITY) -> None:
        self._wake = wake
        self._capacity = capacity
        self._changed = threading.Condition()
        self._items: deque[Any] = deque()
        self._waiting = 0
        self._error: BaseException | None = None
        self._ended = False
        self._closed = False

    # The thread's side ---------------------------------------------------------------------------------

    def offer(self, item: Any, size: int) -> bool:
        """Hand something over if there is room; ``size`` is its number of records."""
        with self._changed:
            if self._closed or self._waiting >= self._capacity:
                return False
            self._items.append((item, size))
            self._waiting += size
        self._wake()
        return True

    def put(self, item: Any, size: int) -> bool:
        """Hand something over, as soon as there is room; False when nobody wants it any more."""
        while not self.offer(item, size):
            if self.wait_for_room(None):
                return False
        return True

    def wait_for_room(self, seconds: float | None) -> bool:
        """Wait until there is room, at most so long; True when nobody wants anything any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting < self._capacity, seconds)
            return self._closed

    def pause(self, seconds: float) -> bool:
        """Wait so long; True when nobody wants anything any more."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, seconds)

    def end(self) -> None:
        """All has been read."""
        with self._changed:
            self._ended = True
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Nothing more can be read; the task fails with this when it has taken what was there before."""
        with self._changed:
            self._error = error
        self._wake()

    # The task's side -----------------------------------------------------------------------------------

    def take(self) -> Any:
        """The next item; None when there is none now. Raises what the thread failed with."""
        with self._changed:
            if self._items:
                item, size = self._items.popleft()
                self._waiting -= size
                self._changed.notify_all()
                return item
            if self._error is not None:
                raise self._error
            return None

    @property
    def ended(self) -> bool:
        """Everything has been read and taken."""
        with self._changed:
            return self._ended and not self._items

    @property
    def closed(self) -> bool:
        """Nobody wants anything any more."""
        return self._closed

    def close(self) -> None:
        """Let the thread end: nothing more is wanted, and what waits is dropped."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._waiting = 0
            self._changed.notify_all()
