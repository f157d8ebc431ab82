"""Talking to a job of another process on this machine, through what `endpoint` offers."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

from firesteel.common.errors import JobExecutionError
from firesteel.control.channel import HANDSHAKE_SECONDS, AuthenticationError, Channel, connect_channel
from firesteel.jobmaster.remote.registry import RegistryEntry, entries, forget_lost
from firesteel.plan.executor import LOOPBACK

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

    def tasks(self) -> list[tuple[str, str, str]]:
        """The job's tasks: name, state, and where they run."""
        return [(name, state, where) for name, state, where in self._ask({"do": "tasks"})]

    def metrics(self) -> list[tuple[str, str, str]]:
        """The metrics of the job's functions, in total: operator, name, value in words."""
        return [(operator, name, value) for operator, name, value in self._ask({"do": "metrics"})]

    def cancel(self) -> str:
        """End the job now; the state in which it has ended, which may be another one than CANCELED."""
        return str(self._ask({"do": "cancel"}))

    def savepoint(self, directory: str | None) -> str:
        """Take a savepoint; the job continues. Its path."""
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
            return connect_channel(sock, bytes.fromhex(self.entry.secret))
        except AuthenticationError as error:  # somebody else has the port by now
            sock.close()
            raise self._gone() from error
        except OSError as error:
            sock.close()
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
            forget_lost(entry)
        except NotAnsweringError:
            found.append((job, "NOT ANSWERING"))
    return found
