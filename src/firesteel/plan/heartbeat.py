"""Signs of life on a control connection: how often, how long without, and what a task concludes from them."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

__all__ = ["HeartbeatSettings", "Trust"]


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """In seconds. Whoever has not been heard for ``timeout`` is lost; ``interval`` is at most half of it."""

    interval: float
    timeout: float


class Trust:
    """Until when a task may assume that its master still counts on it. Times are monotonic seconds.

    A process that was stopped for a while does not know it. Its master may have given it up meanwhile, and what the
    master sent before that still waits in the socket, looking like news. So signs of life of a task are questions with
    numbers, and only an answer proves something: the master has heard the task after it asked, so it cannot have given it
    up for silence until ``timeout`` after that. May be used from several threads.

    >>> trust = Trust(HeartbeatSettings(interval=10, timeout=50), now=0.0)
    >>> question = trust.ask(10.0)
    >>> trust.until
    50.0
    >>> trust.answered(question)  # however late it is read
    >>> trust.until
    60.0
    """

    def __init__(self, settings: HeartbeatSettings | None, now: float) -> None:
        self._seconds = math.inf if settings is None else settings.timeout
        self._lock = threading.Lock()
        self._asked: dict[int, float] = {}
        self._questions = 0
        #: Later than this the task needs another answer before it does anything that others can see.
        self.until = now + self._seconds

    def ask(self, now: float) -> int:
        """The number of a question that is sent now; earlier ones may still be answered."""
        with self._lock:
            self._questions += 1
            self._asked = {number: at for number, at in self._asked.items() if at + self._seconds > now}
            self._asked[self._questions] = now
            return self._questions

    def answered(self, question: int) -> None:
        """The master has answered; it counted on the task when it did."""
        with self._lock:
            asked = self._asked.get(question)
            if asked is not None:
                self.until = max(self.until, asked + self._seconds)
                self._asked = {number: at for number, at in self._asked.items() if number > question}
