"""For how long a job has been in which state, as its metrics tell."""

from __future__ import annotations

import threading
from collections.abc import Callable

from firesteel.common.job_status import JobStatus

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
        #: When the last attempt that started from a checkpoint did so, in milliseconds since 1970; -1: none has.
        self.restored_at_ms = -1

    def changed(self, status: JobStatus) -> None:
        """The job has gone to ``status``."""
        with self._lock:
            self._status, self._since = status, self._now()
            if status not in _DOWN and status is not JobStatus.CREATED:
                self._down_since = None
            elif self._down_since is None and status in _DOWN:
                self._down_since = self._since

    def restored(self) -> None:
        """An attempt starts from a checkpoint."""
        self.restored_at_ms = int(self._now() * 1000)

    def metrics(self) -> dict[str, int]:
        """Under Flink's names."""
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
