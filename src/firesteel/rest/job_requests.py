"""What clients ask of jobs, over REST: one function for each, with values instead of JSON.

Those that start something give the trigger id; `RestClient.outcome` waits with it, and the constants are where it asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.job_status import JobStatus
from firesteel.rest.client import NotRestError, RestClient

__all__ = [
    "DISPOSALS",
    "JobLine",
    "await_end",
    "cancel",
    "checkpoints_of",
    "is_over",
    "job_status",
    "jobs",
    "rescaling_of",
    "savepoints_of",
    "start_checkpoint",
    "start_disposal",
    "start_rescaling",
    "start_savepoint",
    "start_stop",
]

DISPOSALS = "/savepoint-disposal"
_FIRST_POLL, _LONGEST_POLL = 0.02, 0.5


@dataclass(frozen=True, slots=True)
class JobLine:
    """What a service says of each of its jobs. Times are in milliseconds; ``ended`` is -1 while it runs."""

    job_id: str
    name: str
    state: str
    started: int
    ended: int = -1
    duration: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether it has come to a final state."""
        return is_over(self.state)


def jobs(client: RestClient) -> list[JobLine]:
    """All jobs that a service shows, the oldest first."""
    answer = client.get("/jobs/overview")
    try:
        lines = [_line(each) for each in answer["jobs"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NotRestError(
            f"what listens at {client.url} is no REST interface of Firesteel: its jobs cannot be read ({error!r})"
        ) from error
    return sorted(lines, key=lambda each: (each.started, each.job_id))


def _line(job: Mapping[str, Any]) -> JobLine:
    return JobLine(
        str(job["jid"]),
        str(job["name"]),
        str(job["state"]),
        int(job["start-time"]),
        int(job["end-time"]),
        int(job["duration"]),
        dict(job.get("tasks", {})),
    )


def job_status(client: RestClient, job_id: str) -> str:
    """The name of a job's state."""
    return str(client.get(f"/jobs/{job_id}/status")["status"])


def is_over(state: str) -> bool:
    """Whether a state is a final one; states of other versions are not."""
    return state in JobStatus.__members__ and JobStatus[state].is_terminal_state()


def cancel(client: RestClient, job_id: str) -> None:
    """Tell a job to end now; `await_end` waits until it has."""
    client.patch(f"/jobs/{job_id}", {"mode": "cancel"})


def await_end(client: RestClient, job_id: str, on_wait: Callable[[float], None] = time.sleep) -> str:
    """Wait until a job is over; the state in which it has ended."""
    wait = _FIRST_POLL
    while not is_over(state := job_status(client, job_id)):
        on_wait(wait)
        wait = min(_LONGEST_POLL, 1.5 * wait)
    return state


# Started with a trigger id ----------------------------------------------------------------------------


def savepoints_of(job_id: str) -> str:
    """Where savepoints and stops of a job are asked for."""
    return f"/jobs/{job_id}/savepoints"


def checkpoints_of(job_id: str) -> str:
    """Where checkpoints of a job are asked for."""
    return f"/jobs/{job_id}/checkpoints"


def rescaling_of(job_id: str) -> str:
    """Where changes of a job's parallelism are asked for."""
    return f"/jobs/{job_id}/rescaling"


def start_savepoint(
    client: RestClient, job_id: str, directory: str | None, cancel_job: bool = False, form: str = ""
) -> str:
    """Begin a savepoint, below a directory or where it is configured; its location is ``location`` of the outcome."""
    body = _given({"target-directory": directory, "cancel-job": cancel_job or None, "formatType": form})
    return _trigger(client, client.post(savepoints_of(job_id), body))


def start_stop(client: RestClient, job_id: str, directory: str | None, drain: bool, form: str = "") -> str:
    """Begin to end a job with a savepoint; asked for as a savepoint is."""
    body = _given({"targetDirectory": directory, "drain": drain, "formatType": form})
    return _trigger(client, client.post(f"/jobs/{job_id}/stop", body))


def start_checkpoint(client: RestClient, job_id: str, kind: str) -> str:
    """Begin a checkpoint: CONFIGURED, FULL or INCREMENTAL; its number is ``checkpointId`` of the outcome."""
    return _trigger(client, client.post(checkpoints_of(job_id), {"checkpointType": kind}))


def start_disposal(client: RestClient, path: str) -> str:
    """Begin to delete a savepoint, on the machine of the service; asked for at `DISPOSALS`."""
    return _trigger(client, client.post(DISPOSALS, {"savepoint-path": path}))


def start_rescaling(client: RestClient, job_id: str, parallelism: int) -> str:
    """Begin to give a job another parallelism."""
    return _trigger(client, client.patch(rescaling_of(job_id), {"parallelism": str(parallelism)}))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _trigger(client: RestClient, answer: Any) -> str:
    try:
        return str(answer["request-id"])
    except (KeyError, TypeError) as error:
        raise NotRestError(f"{client.url} has answered without a trigger id: {answer!r:.200}") from error
