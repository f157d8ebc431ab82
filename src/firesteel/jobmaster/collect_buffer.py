"""Records on their way from collecting tasks to the iterator of ``execute_and_collect``.

Made of two `SimpleQueue`s, one of blobs and one of permissions to add a blob, because Ctrl-C cannot leave
those in a wrong state (see `gate`): the consumer usually is the main thread.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

#: Blobs that may wait for the consumer; then the tasks wait.
CAPACITY = 32


class CollectBuffer:
    """A bounded queue of blobs that ends when the job ends."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._blobs: SimpleQueue[bytes | None] = SimpleQueue()  # None: the end
        self._room = _permissions(capacity)
        self._bounded = True
        self._discarding = False
        self._error: BaseException | None = None

    def put(self, blob: bytes) -> None:
        """Add a blob; blocks while the buffer is full, unless nobody will ever take from it."""
        if self._bounded:
            self._room.get()
            if not self._bounded:
                self._room.put(None)  # for the next one who waits
        if not self._discarding:
            self._blobs.put(blob)

    def lift_bound(self) -> None:
        """The producers are about to end: what they still hold is little, take it in."""
        self._bounded = False
        self._room.put(None)

    def bound_again(self) -> None:
        """New producers are about to begin."""
        if not self._bounded:
            self._room = _permissions(max(1, self._capacity - self._blobs.qsize()))
            self._bounded = True

    def end(self, error: BaseException | None) -> None:
        """Nothing more will come; after what is here the consumer gets ``error``, if there is one."""
        self._error = error
        self.lift_bound()
        self._blobs.put(None)

    def discard(self) -> None:
        """Nobody will take any more: drop what comes."""
        self._discarding = True
        self.lift_bound()

    def records(self) -> Iterator[Any]:
        """The records as they arrive; ends with the job, raises what the job failed with."""
        while (blob := self._blobs.get()) is not None:
            self._room.put(None)
            yield from pickle.loads(blob)
        self._blobs.put(None)  # for whoever asks again
        if self._error is not None:
            raise self._error.with_traceback(None)


def _permissions(count: int) -> SimpleQueue[None]:
    room: SimpleQueue[None] = SimpleQueue()
    for _ in range(count):
        room.put(None)
    return room
