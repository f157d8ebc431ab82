"""Writes to a stream that may stop accepting anything, without stopping those who write.

The writing is done by a thread of its own, and whoever writes waits for it. As long as the stream accepts something now
and then, that is all: everything is written, in order, and is out when `write` returns. When it has accepted nothing for a
while, waiting is over: what comes from then on is dropped and counted, until the stream moves again; then the first
thing that is written is how much is missing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["STALL_SECONDS", "PatientWriter"]

#: A stream that has accepted nothing for this long has nobody who reads it.
STALL_SECONDS = 10.0
_IDLE_SECONDS = 0.1  # after which the thread ends; the next one who writes starts another

#: Writes something; calls its argument whenever a piece of it is out.
Writing = Callable[[Callable[[], None]], None]


class _Order:
    """One thing to be written, and what came of it."""

    def __init__(self, writing: Writing, size: int) -> None:
        self.writing = writing
        self.size = size
        self.done = False
        self.error: BaseException | None = None


class PatientWriter:
    """One stream. ``warn`` tells that it is stuck, on another way; ``tell`` writes to it how much was dropped."""

    def __init__(
        self,
        name: str,
        stall_seconds: float,
        warn: Callable[[str], None],
        tell: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._stall_seconds = stall_seconds
        self._warn = warn
        self._tell = tell
        self._now = now
        self._condition = threading.Condition()
        self._orders: deque[_Order] = deque()
        self._thread: threading.Thread | None = None
        self._moved_at = 0.0
        self._stuck = False
        self._dropped_texts = 0
        self._dropped_size = 0

    def write(self, writing: Writing, size: int) -> None:
        """Have something of ``size`` characters written; returns when it is, or when the stream is stuck.

        Raises what the writing raises.
        """
        order = _Order(writing, size)
        with self._condition:
            if self._stuck:
                self._drop(order)
                return
            self._begin(order)
            while not order.done and not self._stuck:
                self._condition.wait(max(0.01, self._moved_at + self._stall_seconds - self._now()))
                if not order.done and self._now() - self._moved_at >= self._stall_seconds:
                    self._drop_waiting()
                    break
            else:
                if order.error is not None:
                    raise order.error
                return
        self._warn(
            f"{self._name} has accepted nothing for {self._stall_seconds:.0f} s, nobody seems to read it: what tasks print is "
            "dropped until it is read again, and the job continues"
        )

    def _begin(self, order: _Order) -> None:
        if not self._orders:
            self._moved_at = self._now()
        self._orders.append(order)
        if self._thread is None or not self._thread.is_alive():  # as after a fork
            self._thread = threading.Thread(target=self._run, name="firesteel-console", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _drop_waiting(self) -> None:
        """The stream is stuck: only the order that is being written stays, which nobody can revoke."""
        self._stuck = True
        while len(self._orders) > 1:
            self._drop(self._orders.pop())
        self._condition.notify_all()

    def _drop(self, order: _Order) -> None:
        order.done = True
        self._dropped_texts += 1
        self._dropped_size += order.size

    def _moved(self) -> None:
        """Something has been accepted."""
        with self._condition:
            self._moved_at = self._now()
            self._stuck = False

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._orders and not self._condition.wait_for(lambda: self._orders, _IDLE_SECONDS):
                    self._thread = None
                    return
                order = self._orders[0]
                missing = self._missing()
            try:
                if missing:
                    self._tell(missing)
                order.writing(self._moved)
            except BaseException as error:  # noqa: BLE001 - raised again by whoever wanted it written
                order.error = error
            with self._condition:
                order.done = True
                self._orders.popleft()
                self._moved_at = self._now()
                self._stuck = False
                self._condition.notify_all()

    def _missing(self) -> str:
        texts, size = self._dropped_texts, self._dropped_size
        self._dropped_texts = self._dropped_size = 0
        if not texts:
            return ""
        return (
            f"firesteel: {size} characters in {texts} pieces are missing here: {self._name} was not read for "
            f"{self._stall_seconds:.0f} s and more"
        )
