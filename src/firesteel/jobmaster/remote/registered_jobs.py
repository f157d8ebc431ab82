"""Registers the jobs of this process, so that commands in other processes can find them, and notes how they ended."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.time import to_millis
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.remote.history import LOST, remember
from firesteel.jobmaster.remote.registry import Registration, RegistryEntry, register, registry_directory
from firesteel.jobmaster.terminal.progress import ObservedJob

__all__ = ["RegisteredJobs"]

_LOG = logging.getLogger(__name__)


class RegisteredJobs:
    """Observes jobs: each is registered while it runs, and remembered afterwards. `close` it before the process ends.

    ``asked_for``: somebody wants the jobs to be found, and is warned when they cannot be.
    """

    def __init__(self, asked_for: bool = True) -> None:
        self._log_level = logging.WARNING if asked_for else logging.DEBUG
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[Registration, MasterJobClient]] = {}

    def job_submitted(self, client: MasterJobClient) -> None:
        """Register a job; one that cannot be registered runs nevertheless."""
        entry = RegistryEntry(
            str(client.get_job_id()),
            client.get_job_name(),
            os.getpid(),
            socket.gethostname(),
            to_millis(time.time()),
            client.rest_url,
        )
        try:
            registration = register(entry)
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
            self._jobs[entry.job_id] = registration, client

    def standing_by(self, job_id: JobID) -> None:
        """There is nothing to find before this driver leads."""

    def engine_starting(self, job_id: JobID) -> None:
        """It can be found already."""

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Forget a job that is over, and remember how it ended."""
        if not status.is_terminal_state():
            return
        with self._lock:
            registration, client = self._jobs.pop(str(job.job_id), (None, None))
        if registration is None or client is None:
            return
        self._remember(registration.entry, status.name, client.why_ended(status))
        registration.withdraw()

    def _remember(self, entry: RegistryEntry, status: str, reason: str) -> None:
        try:
            remember(entry, status, reason)
        except OSError as error:
            _LOG.log(self._log_level, "the end of job %s is not noted: %s", entry.job_id, error)

    def close(self) -> None:
        """The process ends: jobs that are not over by now are lost."""
        with self._lock:
            left, self._jobs = list(self._jobs.values()), {}
        for registration, _ in left:
            self._remember(registration.entry, LOST, "its process has ended before it")
            registration.withdraw()
