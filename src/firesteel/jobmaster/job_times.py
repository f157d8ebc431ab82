"""When a job began and ended, and for how long it has been in which state, as its metrics tell."""

from __future__ import annotations

import threading
from collections.abc import Callable

from firesteel.common.job_status import JobStatus
from firesteel.common.time import to_millis

__all__ = ["JobTimes"]

_DOWN = (JobStatus.FAILING, JobStatus.RESTARTING)
_STATES = {
    "initializingTime": JobStatus.CREATED,
    "runningTime": JobStatus.RUNNING,
    "failingTime": JobStatus.FAILING,
    "restartingTime": JobStatus.RESTARTING,
    "cancellingTime": JobStatus.CANCELLING,
}


class JobTimes:
    """Told of every change; may be asked from any thread. Times are milliseconds, -1 of a job that has ended, as in Flink."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._status = JobStatus.CREATED
        self._since = now()
        self._down_since: float | None = None
        #: In milliseconds since 1970. They stay what they are, whatever time a simulation skips later.
        self.began_ms = to_millis(self._since)
        self.ended_ms: int | None = None

    def changed(self, status: JobStatus) -> None:
        """The job has gone to ``status``."""
        with self._lock:
            self._status, self._since = status, self._now()
            if status not in _DOWN and status is not JobStatus.CREATED:
                self._down_since = None
            elif self._down_since is None and status in _DOWN:
                self._down_since = self._since

    def ended(self) -> None:
        """The job is over, and nothing of it is left."""
        self.ended_ms = to_millis(self._now())

    def metrics(self) -> dict[str, int]:
        """Under Flink's names: for how long the job is in its state, or down; 0 for all others."""
        with self._lock:
            now, status, since, down_since = self._now(), self._status, self._since, self._down_since
        if status.is_terminal_state():
            return {"uptime": -1, "downtime": -1, **dict.fromkeys(_STATES, 0)}
        spent = int((now - since) * 1000)
        return {
            "uptime": spent if status is JobStatus.RUNNING else 0,
            "downtime": 0 if down_since is None else int((now - down_since) * 1000),
            **{name: spent if status is state else 0 for name, state in _STATES.items()},
        }
