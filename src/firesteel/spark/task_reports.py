"""When a task tells the job master how far it is, and for how much of its time it waited for its receivers.

The task reports between two pieces of work. While it hands rows over it cannot, and that lasts as long as its receivers are
busy; so a thread repeats the last report then, with the back pressure up to now. Its figures are still true: a task that
waits processes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from firesteel.plan.messages import TaskReport

__all__ = ["TaskReports"]


class TaskReports:
    """Reports of one task every ``seconds``, given to ``send``; `close` ends its thread."""

    def __init__(self, send: Callable[[TaskReport], None], seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._lock = threading.Lock()
        self._last: TaskReport | None = None
        self._reported_at = time.monotonic()
        #: When the next report is due.
        self.due_at = self._reported_at + seconds
        self._waiting_since: float | None = None
        self._waited = 0.0  # seconds since the last report
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._repeat, name="firesteel-reports", daemon=True)
        self._watch.start()

    def report(self, report: TaskReport) -> None:
        """Send what the task itself says."""
        with self._lock:
            self._last = report
            self._send_last(time.monotonic())

    def begin_to_wait(self, first: Callable[[], TaskReport]) -> None:
        """The task hands rows over, which may take any time; ``first`` gives a report if there was none yet."""
        if self._last is None:
            self.report(first())
        with self._lock:
            self._waiting_since = time.monotonic()

    def end_to_wait(self) -> None:
        """The rows were taken."""
        with self._lock:
            self._add_waiting(time.monotonic())
            self._waiting_since = None

    def close(self) -> None:
        """Nothing more is repeated."""
        self._over.set()

    def _repeat(self) -> None:
        while not self._over.wait(self._seconds):
            with self._lock:
                now = time.monotonic()
                if self._waiting_since is not None and now >= self.due_at:
                    self._send_last(now)

    def _send_last(self, now: float) -> None:
        assert self._last is not None
        if self._waiting_since is not None:
            self._add_waiting(now)
        seconds = now - self._reported_at
        share = min(1.0, self._waited / seconds) if seconds > 0 else 0.0
        self._reported_at, self._waited, self.due_at = now, 0.0, now + self._seconds
        self._send(replace(self._last, back_pressure=share))

    def _add_waiting(self, now: float) -> None:
        assert self._waiting_since is not None
        self._waited += now - self._waiting_since
        self._waiting_since = now
