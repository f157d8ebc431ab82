"""The way of rows from one simulated task to one of the next stage, with Spark's manners.

Spark hands a row over only when it has seen the next one, or the end of the sender. A task that forgets
its flush row therefore leaves its last payload stuck here for ever, and the simulator notices.
"""

from __future__ import annotations

from collections import deque

__all__ = ["SimulatedChannel"]


class SimulatedChannel:
    """A queue of rows; with a ``capacity`` its sender has to wait while it is full.

    >>> channel = SimulatedChannel(capacity=2)
    >>> channel.put(b"payload")
    >>> channel.deliverable
    False
    >>> channel.put(b"")
    >>> channel.deliverable, channel.full
    (True, True)
    """

    __slots__ = ("_capacity", "_rows", "sender_ended")

    def __init__(self, capacity: int | None = None) -> None:
        # With room for one row only, Spark's rule would let nothing through.
        self._capacity = None if capacity is None else max(2, capacity)
        self._rows: deque[bytes] = deque()
        self.sender_ended = False

    @property
    def full(self) -> bool:
        """Whether the sender has to wait."""
        return self._capacity is not None and len(self._rows) >= self._capacity

    @property
    def deliverable(self) -> bool:
        """Whether the first row may be handed over."""
        return len(self._rows) > 1 or (self.sender_ended and bool(self._rows))

    @property
    def drained(self) -> bool:
        """Whether everything that will ever be sent has been handed over."""
        return self.sender_ended and not self._rows

    @property
    def stuck(self) -> int:
        """How many payloads (not counting flush rows) wait to be handed over."""
        return sum(1 for row in self._rows if row)

    def put(self, payload: bytes) -> None:
        """Send a row."""
        self._rows.append(payload)

    def take(self) -> memoryview:
        """Receive a row; a view of bytes, as Spark's Arrow batches give it."""
        return memoryview(self._rows.popleft())
