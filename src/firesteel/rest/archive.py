"""What is to be seen of a job, written down when it ends: the answers of its paths, as one JSON file.

Answers and not what they are made of: a later version that shows jobs in another way can still read them.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from firesteel.checkpoint.storage import Storage, absolute, open_storage, shown
from firesteel.common.errors import FiresteelError
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.terminal.progress import ObservedJob
from firesteel.rest.endpoints import Call, Context, Endpoint
from firesteel.rest.errors import RestError
from firesteel.rest.metric_source import MetricSource
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.served_jobs import EndedJob, LiveJob, ServedJob, last_accumulators

__all__ = ["FORMAT", "JobArchive", "archive_of", "write_archive"]

_LOG = logging.getLogger(__name__)

FORMAT = 1
_JOB = "/jobs/{jobid}"
#: More than are remembered.
_ATTEMPTS = 20
#: How long the end of a process waits for what is still being written.
_JOIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _OneJob:
    """A directory of jobs with one job."""

    job_id: str
    job: ServedJob

    def all(self) -> list[ServedJob]:
        return [self.job]

    def find(self, job_id: str) -> ServedJob | None:
        return self.job if job_id == self.job_id else None


def archive_of(job_id: str, job: ServedJob) -> dict[str, Any]:
    """All answers about a job, by path; and its metrics by place, because their paths answer whatever they are asked for."""
    call = Call(Context(_OneJob(job_id, job)), {"jobid": job_id})
    answers: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        if endpoint.method == "GET" and endpoint.path.startswith(_JOB) and not _is_asked_with_more(endpoint):
            answers |= _answers(endpoint, call, job)
    overview = next(each for each in ENDPOINTS if (each.method, each.path) == ("GET", "/jobs/overview"))
    return {
        "version": FORMAT,
        "jid": job_id,
        "overview": overview.answer(call)["jobs"][0],
        "answers": answers,
        "metrics": _metrics(job, job.metrics()),
    }


def _is_asked_with_more(endpoint: Endpoint) -> bool:
    """Whether a path answers from what somebody has started, or what the query names."""
    return "{triggerid}" in endpoint.path or any(
        each.required or each.name == "get" for each in endpoint.query
    )


def _answers(endpoint: Endpoint, call: Call, job: ServedJob) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for path in _paths(endpoint, call, job):
        try:
            answer = endpoint.answer(Call(call.context, path))
        except RestError:
            continue  # what is not there, or not any more
        answers[endpoint.path.format(**path)] = answer
    return answers


def _paths(endpoint: Endpoint, call: Call, job: ServedJob) -> Iterator[dict[str, Any]]:
    """All values that the parameters of a path have for this job."""
    names = [each.name for each in endpoint.parameters]
    if not {"jobid", "vertexid", "subtaskindex", "attempt", "checkpointid"}.issuperset(names):
        return
    snapshot = job.snapshot()
    values: dict[str, Iterable[Any]] = {
        "jobid": [call.path["jobid"]],
        "vertexid": [vertex.id for vertex in job.outline.vertices],
        "attempt": range(max(0, snapshot.attempt - _ATTEMPTS), snapshot.attempt + 1),
        "checkpointid": [each.id for each in snapshot.statistics.checkpoints.history],
        "subtaskindex": range(max((each.parallelism for each in job.outline.vertices), default=0)),
    }
    for chosen in itertools.product(*(values[name] for name in names)):
        yield dict(zip(names, chosen, strict=True))


def _metrics(job: ServedJob, source: MetricSource) -> dict[str, Any]:
    """The last values, by the paths that ask for them."""
    return {
        "job": _plain(source.job()),
        "vertices": {
            vertex.id: [_plain(source.subtask(vertex.number, index)) for index in range(vertex.parallelism)]
            for vertex in job.outline.vertices
        },
    }


def _plain(values: Any) -> dict[str, Any]:
    return {
        name: value if isinstance(value, int | float | str | bool) else str(value)
        for name, value in dict(values).items()
    }


def write_archive(storage: Storage, archive: dict[str, Any]) -> None:
    """Put it where others find it; one of the same job is replaced by the newer one."""
    storage.make_directory()
    storage.publish(f"{archive['jid']}.json", json.dumps(archive).encode())


class JobArchive:
    """Observes jobs: each is written down when it has ended. `close` it before the process ends."""

    def __init__(self, directory: str) -> None:
        self._directory = absolute(directory)
        self._storage = open_storage(self._directory)
        self._lock = threading.Lock()
        self._watched: dict[MasterJobClient, threading.Event] = {}  # set when the job is written down

    def job_submitted(self, client: MasterJobClient) -> None:
        """Wait for the end of a job."""
        with self._lock:
            self._watched[client] = threading.Event()
        client.when_over(lambda: self._begin(client))

    def standing_by(self, job_id: JobID) -> None:
        """There is nothing to write down."""

    def engine_starting(self, job_id: JobID) -> None:
        """There is nothing to write down."""

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Only the end matters, and then there is more to see than the state."""

    def close(self) -> None:
        """Wait until all jobs that have ended are written down, also those whose end nobody has been told yet."""
        with self._lock:
            watched = list(self._watched.items())
        for client, written in watched:
            if client.is_over():
                written.wait(_JOIN_SECONDS)

    def _begin(self, client: MasterJobClient) -> None:
        # Aside: the end of a job waits for nobody who only watches.
        threading.Thread(target=self._write, args=(client,), name="firesteel-archive", daemon=True).start()

    def _write(self, client: MasterJobClient) -> None:
        job_id, job = str(client.get_job_id()), LiveJob(client)
        try:
            write_archive(self._storage, archive_of(job_id, _ended(job_id, job)))
        except (FiresteelError, OSError) as error:
            _LOG.warning("job %s is not archived in %s: %s", job_id, shown(self._directory), error)
        except Exception:  # noqa: BLE001 - whoever archives a job must not be able to end its process
            _LOG.exception("job %s is not archived in %s", job_id, shown(self._directory))
        finally:
            with self._lock:
                self._watched.pop(client).set()


def _ended(job_id: str, job: LiveJob) -> EndedJob:
    """What is left of a job."""
    results = last_accumulators(job_id, job)
    return EndedJob(job.outline, job.snapshot(), results, job.metrics(), job.error())
