"""Payloads that wait until another input of their operator has been read to its end.

In BATCH a broadcast function sees all that is broadcast before the first record of its other input. Payloads of the
edges of a stage arrive in any order, so those that come too early are kept here. When the awaited input has ended, the
task takes them out a few at a time, so that what they lead to can leave in between; until the last one is out, what
arrives queues up behind.
"""

from __future__ import annotations

from firesteel.runtime.payload_queue import PayloadQueue


class HeldInput:
    """A queue of payloads that opens when ``awaited`` channels have ended."""

    def __init__(self, awaited: int, in_memory: int | None = None) -> None:
        self._awaited = awaited
        self._payloads = PayloadQueue() if in_memory is None else PayloadQueue(in_memory)

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return len(self._payloads) == 0

    @property
    def is_open(self) -> bool:
        """Whether the awaited input has ended."""
        return self._awaited == 0

    def awaited_ended(self) -> None:
        """One more channel of the awaited input has ended."""
        self._awaited -= 1

    def add(self, payload: bytes | memoryview) -> None:
        """Keep a payload."""
        self._payloads.add(payload)

    def take(self, count: int) -> list[bytes]:
        """The next payloads, at most ``count``."""
        return [self._payloads.take() for _ in range(min(count, len(self._payloads)))]

    def close(self) -> None:
        """Forget what still waits."""
        self._payloads.close()
