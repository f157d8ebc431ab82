"""Input of an operator that chooses which of its two inputs is read next, record by record.

Everything that arrives is queued by input, and the subtask takes from the queue that the operator has chosen. A chunk
is read one record at a time, because the choice may change behind each of them: what is left of it waits as well.
When the chosen input has ended, the other one is read, so that the job can end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from firesteel.contracts.stream_operators import InputSelection
from firesteel.runtime.operator import Timestamps
from firesteel.runtime.payload_queue import PayloadQueue

Receive = Callable[[list[Any], Timestamps], None]

_WANTED = {InputSelection.FIRST: (0,), InputSelection.SECOND: (1,), InputSelection.ALL: (0, 1)}


class SelectedInput:
    """The queues of both inputs and the operator's choice; a pure machine.

    ``ask`` gives the choice, ``receive`` takes the records of each input, ``channels`` counts its open channels.
    """

    def __init__(
        self, ask: Callable[[], InputSelection], receive: tuple[Receive, Receive], channels: tuple[int, int]
    ) -> None:
        self._ask = ask
        self._receive = receive
        self._open = list(channels)
        self._payloads = (PayloadQueue(), PayloadQueue())
        self._chunks: tuple[deque[tuple[Any, Timestamps]], ...] = (deque(), deque())
        self._wanted: tuple[int, ...] | None = None  # None: to be asked
        self._before: tuple[int, ...] | None = None
        self._last = 1

    def add(self, index: int, payload: bytes | memoryview) -> None:
        """A payload has arrived on an input."""
        self._payloads[index].add(payload)

    def channel_ended(self, index: int) -> None:
        """One more channel of an input has been read to its end."""
        self._open[index] -= 1

    def ask_again(self) -> None:
        """Something has happened that may have changed the operator's choice."""
        self._wanted = None

    @property
    def may_read(self) -> bool:
        """Whether `take` may find something; asks nobody, so that user code runs in `take` only."""
        if self._wanted is None:
            return self._waits(0) or self._waits(1)
        return self._choose(self._wanted) is not None

    def take(self) -> bytes | None:
        """Read what is left of chunks, and return the next payload to process; None when the choice is to wait."""
        while (index := self._choose(self._asked())) is not None:
            self._last = index
            if not self._chunks[index]:
                self._before, self._wanted = (
                    self._wanted,
                    None,
                )  # the payload is processed before the next look
                return self._payloads[index].take()
            value, timestamps = self._chunks[index].popleft()
            self._wanted = None
            self._receive[index]([value], timestamps)
        return None

    def receiver(self, index: int) -> Receive:
        """What takes the chunks of an input, for `take` to read them."""

        def receive(values: list[Any], timestamps: Timestamps) -> None:
            times = [None] * len(values) if timestamps is None else [[time] for time in timestamps]
            self._chunks[index].extend(zip(values, times, strict=True))
            self._wanted = self._before  # none of its records has been read yet

        return receive

    def close(self) -> None:
        """Forget what still waits."""
        for queue in self._payloads:
            queue.close()

    def _asked(self) -> tuple[int, ...]:
        if self._wanted is None and (self._waits(0) or self._waits(1)):
            self._wanted = _WANTED[self._ask()]
        return () if self._wanted is None else self._wanted

    def _waits(self, index: int) -> bool:
        return bool(self._chunks[index]) or len(self._payloads[index]) > 0

    def _ended(self, index: int) -> bool:
        return self._open[index] == 0 and not self._waits(index)

    def _choose(self, wanted: tuple[int, ...]) -> int | None:
        if wanted and all(self._ended(index) for index in wanted):
            wanted = (0, 1)
        for index in (1 - self._last, self._last):  # in turns when both are wanted
            if index in wanted and self._waits(index):
                return index
        return None
