"""Registers the jobs of this process, so that commands in other processes can find them and talk to them."""

from __future__ import annotations

import logging
import threading

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_endpoint import JobEndpoint
from firesteel.jobmaster.job_registry import registry_directory
from firesteel.jobmaster.progress import ObservedJob

__all__ = ["RegisteredJobs"]

_LOG = logging.getLogger(__name__)


class RegisteredJobs:
    """Observes jobs: each is registered while it runs. `close` it before the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._endpoints: dict[str, JobEndpoint] = {}

    def job_submitted(self, client: MasterJobClient) -> None:
        """Register a job; one that cannot be registered runs all the same."""
        try:
            endpoint = JobEndpoint(client, client.get_job_name())
        except OSError as error:
            _LOG.warning(
                "job %s is not registered in %s, so 'firesteel list' will not show it: %s",
                client.get_job_id(),
                registry_directory(),
                error,
            )
            return
        with self._lock:
            self._endpoints[endpoint.entry.job_id] = endpoint

    def standing_by(self, job_id: JobID) -> None:
        """There is nothing to talk to before this driver leads."""

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Forget a job that is over; requests about it that are under way still get their answers."""
        endpoint = self._endpoints.get(str(job.job_id))
        if endpoint is not None and status.is_terminal_state():
            endpoint.withdraw()

    def close(self) -> None:
        """Let answers that are due go out, then answer no more."""
        with self._lock:
            endpoints, self._endpoints = list(self._endpoints.values()), {}
        for endpoint in endpoints:
            endpoint.close()
