"""Records on their way from collecting tasks to the iterator of ``execute_and_collect``."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

#: Blobs that may wait for the consumer; then the tasks wait.
CAPACITY = 32


class CollectBuffer:
    """A bounded queue of blobs that ends when the job ends."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity: float = capacity
        self._blobs: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._discarding = False
        self._error: BaseException | None = None

    def put(self, blob: bytes) -> None:
        """Add a blob; blocks while the buffer is full, unless nobody will ever take from it."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._blobs) < self._capacity or self._discarding)
            if not self._discarding:
                self._blobs.append(blob)
                self._changed.notify_all()

    def lift_bound(self) -> None:
        """The producers are at their end: what they still hold is little, take it in."""
        with self._changed:
            self._capacity = float("inf")
            self._changed.notify_all()

    def end(self, error: BaseException | None) -> None:
        """Nothing more will come; after what is here the consumer gets ``error``, if there is one."""
        with self._changed:
            self._ended = True
            self._error = error
            self._capacity = float("inf")
            self._changed.notify_all()

    def discard(self) -> None:
        """Nobody will take any more: drop what is here and what comes."""
        with self._changed:
            self._discarding = True
            self._blobs.clear()
            self._changed.notify_all()

    def records(self) -> Iterator[Any]:
        """The records as they arrive; ends with the job, raises what the job failed with."""
        while (blob := self._take()) is not None:
            yield from pickle.loads(blob)
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _take(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._blobs or self._ended or self._discarding)
            if not self._blobs:
                return None
            blob = self._blobs.popleft()
            self._changed.notify_all()
            return blob
