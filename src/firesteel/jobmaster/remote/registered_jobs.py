"""Registers the jobs of this process, so that commands in other processes can find them, and notes how they ended."""

from __future__ import annotations

import logging
import threading
import time

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.remote.endpoint import JobEndpoint
from firesteel.jobmaster.remote.history import LOST, remember
from firesteel.jobmaster.remote.registry import registry_directory
from firesteel.jobmaster.terminal.progress import ObservedJob

__all__ = ["RegisteredJobs"]

_LOG = logging.getLogger(__name__)

#: How long the answer to a request may take that was under way when its job ended.
_ANSWER_SECONDS = 60.0
#: How long all of them may take when the process ends.
_LINGER_SECONDS = 2.0


class RegisteredJobs:
    """Observes jobs: each is registered while it runs, and remembered afterwards. `close` it before the process ends.

    ``asked_for``: somebody wants the jobs to be found, and is warned when they cannot be.
    """

    def __init__(self, asked_for: bool = True) -> None:
        self._log_level = logging.WARNING if asked_for else logging.DEBUG
        self._lock = threading.Lock()
        self._endpoints: dict[str, JobEndpoint] = {}
        self._clients: dict[str, MasterJobClient] = {}
        self._closing: set[threading.Thread] = set()

    def job_submitted(self, client: MasterJobClient) -> None:
        """Register a job; one that cannot be registered runs nevertheless."""
        try:
            endpoint = JobEndpoint(client, client.get_job_name())
        except OSError as error:
            _LOG.log(
                self._log_level,
                "job %s is not registered in %s, so 'firesteel list' will not show it: %s",
                client.get_job_id(),
                registry_directory(),
                error,
            )
            return
        with self._lock:
            self._endpoints[endpoint.entry.job_id] = endpoint
            self._clients[endpoint.entry.job_id] = client

    def standing_by(self, job_id: JobID) -> None:
        """There is nothing to talk to before this driver leads."""

    def engine_starting(self, job_id: JobID) -> None:
        """It can be talked to already."""

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Forget a job that is over; requests about it that are under way still get their answers."""
        if not status.is_terminal_state():
            return
        with self._lock:
            endpoint = self._endpoints.pop(str(job.job_id), None)
            if endpoint is None:
                return
            client = self._clients.pop(str(job.job_id))
            # Aside: whoever tells of the change must not wait for those who have asked.
            closing = threading.Thread(
                target=self._retire, args=(endpoint,), name="firesteel-job-farewell", daemon=True
            )
            self._closing.add(closing)
        self._remember(endpoint, status.name, endpoint.wish or client.why_ended(status))
        endpoint.withdraw()
        closing.start()

    def _remember(self, endpoint: JobEndpoint, status: str, reason: str) -> None:
        try:
            remember(endpoint.entry, status, reason)
        except OSError as error:
            _LOG.log(self._log_level, "the end of job %s is not noted: %s", endpoint.entry.job_id, error)

    def _retire(self, endpoint: JobEndpoint) -> None:
        """A program may run thousands of jobs: nothing that listens is left of those that are over."""
        try:
            endpoint.close(_ANSWER_SECONDS)
        finally:
            with self._lock:
                self._closing.discard(threading.current_thread())

    def close(self) -> None:
        """Let answers that are due go out, then answer no more."""
        with self._lock:
            endpoints, self._endpoints = list(self._endpoints.values()), {}
            self._clients.clear()
            closing = list(self._closing)
        for endpoint in endpoints:
            self._remember(endpoint, LOST, "its process has ended before it")
            endpoint.close()
        deadline = time.monotonic() + _LINGER_SECONDS
        for thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))
