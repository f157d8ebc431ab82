"""Takes samples of jobs again and again, in a thread of its own: who looks at a screen does not wait for an answer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from firesteel.cli.live_view.lines import Picture
from firesteel.cli.live_view.samples import JobSample, sample_job, unknown_job
from firesteel.cli.running_jobs import FoundJob, found_jobs
from firesteel.cli.target import Target
from firesteel.common.errors import FiresteelError
from firesteel.common.time import to_millis
from firesteel.rest.client import RestClient, RestClientError
from firesteel.rest.job_requests import is_over

__all__ = ["Sampler", "Samples"]

#: Rates are those of this time: tasks report twice in a second, and figures of a shorter one would jump.
_RATE_SECONDS = 10.0
#: A job that answers no sooner is shown as one that does not answer.
_PATIENCE_SECONDS = 5.0


class Samples:
    """The newest samples, and those of some seconds ago; ``job_id``: of one job only, given by the beginning of its id."""

    def __init__(self, target: Target, job_id: str = "", clock: Callable[[], float] = time.time) -> None:
        self._target = target
        self._job_id = job_id.lower()
        self._clock = clock
        self._taken: deque[tuple[float, list[JobSample]]] = deque()
        self._clients: dict[str, RestClient] = {}

    def take(self) -> Picture:
        """Ask all wanted jobs; when they cannot be listed, the picture has those of the last time."""
        now = self._clock()
        problem = ""
        try:
            jobs = [self._sample(job) for job in found_jobs(self._target) if self._is_wanted(job)]
        except FiresteelError as error:
            problem = str(error)
            jobs = list(self._taken[-1][1]) if self._taken else []
        self._taken.append((now, jobs))
        while len(self._taken) > 2 and now - self._taken[1][0] >= _RATE_SECONDS:
            self._taken.popleft()
        before = self._taken[0][1] if len(self._taken) > 1 else []
        return Picture(jobs, before, self._target.url or "", to_millis(now), problem)

    def close(self) -> None:
        """Let go of the connections."""
        for client in self._clients.values():
            client.close()

    def _is_wanted(self, job: FoundJob) -> bool:
        if self._job_id:
            return job.job_id.startswith(self._job_id)
        return not is_over(job.state)

    def _sample(self, job: FoundJob) -> JobSample:
        if not job.url or job.problem or job.state == "NOT ANSWERING":
            return unknown_job(job)
        client = self._clients.get(job.url)
        if client is None:
            client = self._clients[job.url] = self._target.client(job.url, _PATIENCE_SECONDS)
        try:
            return sample_job(client, job.job_id)
        except RestClientError as error:  # it has ended meanwhile, or is very busy
            return unknown_job(job, str(error))
        except (KeyError, TypeError, ValueError) as error:  # a service of another version
            return unknown_job(job, f"what {job.url} says of it cannot be read: {error!r}")


class Sampler:
    """Calls ``on_picture`` with every new sample, from its own thread, until it is closed."""

    def __init__(self, samples: Samples, seconds: float, on_picture: Callable[[Picture], None]) -> None:
        self._samples = samples
        self._seconds = seconds
        self._on_picture = on_picture
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="firesteel-top", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more; does not wait for one that is under way."""
        self._closed.set()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                self._on_picture(self._samples.take())
                self._closed.wait(self._seconds)
        finally:
            self._samples.close()
