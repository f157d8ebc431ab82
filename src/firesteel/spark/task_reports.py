"""When a task tells the job master how far it is, and what it has done with its time.

The task reports between two pieces of work. While it hands rows over it cannot, and that lasts as long as its receivers are
busy; so a thread repeats the last report then, with the times up to now. Its figures are still true: a task that
waits processes nothing.

A task waits for its receivers (back pressure), rests because there is nothing to do, or is busy: that is all other time. It
is measured where the loop waits, a few times a second or for every handful of chunks, and never for a record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from firesteel.plan.messages import ProcessStatistics, TaskReport, TaskTimes

__all__ = ["TaskReports"]


class TaskReports:
    """Reports of one task every ``seconds``, given to ``send``; `close` ends its thread.

    ``process`` measures the process of the task, ``clock`` is the one that its reports go by.
    """

    def __init__(
        self,
        send: Callable[[TaskReport], None],
        seconds: float,
        process: Callable[[], ProcessStatistics] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._send = send
        self._seconds = seconds
        self._process = process
        self._clock = clock
        self._lock = threading.Lock()
        self._last: TaskReport | None = None
        self._reported_at = time.monotonic()
        #: When the next report is due.
        self.due_at = self._reported_at + seconds
        self._waiting_since: float | None = None
        self._waited = 0.0  # seconds since the last report
        self._waited_before = 0.0  # and until then
        self._rested = 0.0
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

    def rested(self, since: float) -> None:
        """The task has had nothing to do since then, by the monotonic clock. Called by the task only, so without a lock."""
        self._rested += time.monotonic() - since

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
        self._waited_before += self._waited
        self._reported_at, self._waited, self.due_at = now, 0.0, now + self._seconds
        at = self._clock()
        self._send(
            replace(
                self._last,
                back_pressure=share,
                times=self._times(at - self._last.began),
                process=None if self._process is None else self._process(),
                at=at,
            )
        )

    def _times(self, age: float) -> TaskTimes:
        """Of a task that was opened ``age`` seconds ago."""
        waited, rested = self._waited_before, self._rested
        return TaskTimes(max(0.0, age - waited - rested) * 1000, rested * 1000, waited * 1000)

    def _add_waiting(self, now: float) -> None:
        assert self._waiting_since is not None
        self._waited += now - self._waiting_since
        self._waiting_since = now
