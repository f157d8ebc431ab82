"""Talking to a job of another process on this machine, through what `job_endpoint` offers."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from typing import Any

from firesteel.common.errors import JobExecutionError
from firesteel.jobmaster.job_endpoint import LOOPBACK
from firesteel.jobmaster.job_registry import RegistryEntry, entries, unregister
from firesteel.plan.control_protocol import HANDSHAKE_SECONDS, Channel

__all__ = ["DriverGoneError", "NotAnsweringError", "RunningJob", "running_jobs"]


class NotAnsweringError(JobExecutionError):
    """The driver of a job does not answer, or ended before it had."""


class DriverGoneError(NotAnsweringError):
    """Nobody listens where the registry says: the driver has ended, one way or another."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs on this machine. Methods wait for the driver's answer, and raise what it answers instead."""

    entry: RegistryEntry

    def status(self) -> str:
        """The name of the job's state."""
        return str(self._ask({"do": "status"}))

    def cancel(self) -> str:
        """End the job now; the state in which it has ended, which may be another one than CANCELED."""
        return str(self._ask({"do": "cancel"}))

    def savepoint(self, directory: str | None) -> str:
        """Take a savepoint; the job goes on. Its path."""
        return str(self._ask({"do": "savepoint", "directory": directory}))

    def stop(self, drain: bool, directory: str | None) -> str:
        """Take a savepoint and end the job; its path."""
        return str(self._ask({"do": "stop", "drain": drain, "directory": directory}))

    def _ask(self, request: dict[str, Any]) -> Any:
        channel = self._connect()
        try:
            channel.send(json.dumps(request).encode())
            frame = channel.receive()
        except OSError:
            frame = None
        finally:
            channel.close()
        if frame is None:
            raise NotAnsweringError(
                f"the driver of job {self.entry.job_id} (process {self.entry.pid}) ended before it had answered"
            )
        answer = json.loads(frame)
        if "error" in answer:
            raise JobExecutionError(answer["error"])
        return answer["result"]

    def _connect(self) -> Channel:
        try:
            sock = socket.create_connection((LOOPBACK, self.entry.port), timeout=HANDSHAKE_SECONDS)
        except ConnectionRefusedError as error:
            raise self._gone() from error
        try:
            return Channel(sock, bytes.fromhex(self.entry.secret), challenge_first=False)
        except AuthenticationError as error:  # somebody else has the port by now
            raise self._gone() from error
        except (EOFError, OSError) as error:
            raise NotAnsweringError(
                f"the driver of job {self.entry.job_id} (process {self.entry.pid}) does not answer; is it stopped, or "
                "very busy?"
            ) from error

    def _gone(self) -> DriverGoneError:
        return DriverGoneError(f"the driver of job {self.entry.job_id} (process {self.entry.pid}) has ended")


def running_jobs() -> list[tuple[RunningJob, str]]:
    """The jobs of this machine with their states, oldest first; what dead drivers have left is removed."""
    found = []
    for entry in entries():
        job = RunningJob(entry)
        try:
            found.append((job, job.status()))
        except DriverGoneError:
            unregister(entry)
        except NotAnsweringError:
            found.append((job, "NOT ANSWERING"))
    return found
