"""When a task tells the job master how far it is, and what it has done with its time.

The task reports between two pieces of work. While it hands rows over it cannot, and that lasts as long as its receivers are
busy; so a thread reports for it then. The two never meet: the task goes on when the thread has made its report.

A task waits for its receivers (back pressure), rests because there is nothing to do, or is busy: that is all other time. It
is measured where the loop waits, a few times a second or for every handful of chunks, and never for a record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from firesteel.plan.messages import ProcessStatistics, TaskReport, TaskTimes

__all__ = ["TaskReports"]

_LOG = logging.getLogger(__name__)


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
        self._make: Callable[[], TaskReport] | None = None
        self._reported_at = time.monotonic()
        #: When the next report is due.
        self.due_at = self._reported_at + seconds
        self._waiting_since: float | None = None
        self._waited = 0.0  # seconds since the last report
        self._waited_before = 0.0  # and until then
        self._rested = 0.0
        self._over = threading.Event()
        self._watch = threading.Thread(
            target=self._report_while_waiting, name="firesteel-reports", daemon=True
        )
        self._watch.start()

    def report(self, report: TaskReport) -> None:
        """Send what the task itself says."""
        with self._lock:
            self._complete_and_send(report, time.monotonic())

    def begin_to_wait(self, make: Callable[[], TaskReport]) -> None:
        """The task hands rows over, which may take any time; ``make`` gives its report, and is called in another thread."""
        with self._lock:
            self._make = make
            self._waiting_since = time.monotonic()

    def end_to_wait(self) -> None:
        """The rows were taken: time counts as back pressure no longer."""
        with self._lock:
            self._add_waiting(time.monotonic())
            self._waiting_since = None

    def rested(self, since: float) -> None:
        """The task has had nothing to do since then, by the monotonic clock. Called by the task only, so without a lock."""
        self._rested += time.monotonic() - since

    def close(self) -> None:
        """End the thread that reports while the task waits."""
        self._over.set()

    def _report_while_waiting(self) -> None:
        while not self._over.wait(self._seconds):
            with self._lock:
                now = time.monotonic()
                if self._waiting_since is None or now < self.due_at:
                    continue
                assert self._make is not None
                try:
                    report = self._make()
                except Exception:  # noqa: BLE001 - the task meets it, too, when it reports itself, and fails then
                    _LOG.warning("a task that waits for its receivers could not report", exc_info=True)
                    return
                self._complete_and_send(report, now)

    def _complete_and_send(self, report: TaskReport, now: float) -> None:
        """Send a report with what only this class knows."""
        if self._waiting_since is not None:
            self._add_waiting(now)
        seconds = now - self._reported_at
        share = min(1.0, self._waited / seconds) if seconds > 0 else 0.0
        self._waited_before += self._waited
        self._reported_at, self._waited, self.due_at = now, 0.0, now + self._seconds
        at = self._clock()
        self._send(
            replace(
                report,
                back_pressure=share,
                times=self._times(at - report.began),
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
