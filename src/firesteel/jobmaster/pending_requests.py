"""Who waits for something of a job: a number for the master's core, a future for the one who has asked."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Generic, TypeVar

from firesteel.common.errors import CheckpointError, FiresteelError
from firesteel.common.job_status import JobStatus

__all__ = ["PendingRequests"]

T = TypeVar("T")


class PendingRequests(Generic[T]):
    """Requests for ``what`` - a savepoint, a checkpoint - of a job; may be used from any thread.

    ``numbers``: where their numbers come from, so that requests for different things have different ones. ``error``: what those get
    who ask when the job is over.
    """

    def __init__(
        self,
        what: str,
        job_name: str,
        numbers: Iterator[int] | None = None,
        error: type[FiresteelError] = CheckpointError,
    ) -> None:
        self._what = what
        self._error = error
        self._job_name = job_name
        self._numbers = itertools.count(1) if numbers is None else numbers
        self._futures: dict[int, Future[T]] = {}
        self._lock = threading.Lock()
        self._ended: JobStatus | None = None

    def open(self) -> tuple[int, Future[T]]:
        """One more; it has its answer already when the job is over."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            number = next(self._numbers)
            if self._ended is None:
                self._futures[number] = future
                return number, future
        future.set_exception(self._too_late())
        return number, future

    def answer(self, request: int, result: T | None, error: BaseException | None) -> None:
        """Complete a request; None as the result: with the error."""
        with self._lock:
            future = self._futures.pop(request, None)
        if future is None:
            return
        if result is None:
            future.set_exception(error or self._too_late())
        else:
            future.set_result(result)

    def close(self, status: JobStatus) -> None:
        """The job is over: nothing more will be taken."""
        with self._lock:
            self._ended = status
            left = list(self._futures)
        for request in left:
            self.answer(request, None, None)

    def _too_late(self) -> FiresteelError:
        how = "" if self._ended is None else f": {self._ended.name}"
        return self._error(f"no {self._what} of job '{self._job_name}': the job is over{how}")
