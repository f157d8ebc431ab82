"""The jobs that a service shows: those of this process, while they run and for a while after their end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from firesteel.common._override import override
from firesteel.common.completable_future import CompletableFuture
from firesteel.compiler.program_plans import Bounds
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.rest.metric_source import KeptMetrics, MetricSource
from firesteel.rest.outline import JobOutline, outline_of

__all__ = ["EndedJob", "JobControl", "JobDirectory", "LiveJob", "ServedJob", "ServedJobs"]

#: How many jobs that are over are kept. They are small: without user code, and without state.
KEPT_JOBS = 100


class JobControl(Protocol):
    """What can be asked of a job that runs; futures hold what becomes of it."""

    def cancel(self) -> None:
        """End it now."""

    def savepoint(self, directory: str | None) -> CompletableFuture:
        """Take a savepoint; its path."""
        ...

    def stop(self, drain: bool, directory: str | None) -> CompletableFuture:
        """Take a savepoint and end; its path when the job has ended."""
        ...

    def checkpoint(self, full: bool) -> CompletableFuture:
        """Take a checkpoint now; its number."""
        ...

    def rescale(self, parallelism: int) -> CompletableFuture:
        """Go on with another default parallelism; complete when it does."""
        ...

    def change_requirements(self, bounds: Mapping[str, Bounds]) -> CompletableFuture:
        """Go on with another parallelism of some operators, by their ids."""
        ...


class ServedJob(Protocol):
    """A job that runs or has ended, in this process or elsewhere."""

    @property
    def outline(self) -> JobOutline:
        """Its plan."""
        ...

    @property
    def control(self) -> JobControl | None:
        """How to change it; None when it has ended."""
        ...

    def snapshot(self) -> JobSnapshot:
        """What is known of it now."""
        ...

    def metrics(self) -> MetricSource:
        """Its metrics now."""
        ...

    def accumulators(self) -> Mapping[str, Any]:
        """Results of its accumulators so far; raises what merging them raises."""
        ...

    def error(self) -> BaseException | None:
        """What it has ended with, if not well."""
        ...


class JobDirectory(Protocol):
    """Where a service finds jobs."""

    def all(self) -> list[ServedJob]:
        """Those that are known, the oldest first."""
        ...

    def find(self, job_id: str) -> ServedJob | None:
        """The one with this id."""
        ...


@dataclass(frozen=True, slots=True)
class _ClientControl(JobControl):
    """Through the client of a job in this process."""

    client: MasterJobClient

    @override
    def cancel(self) -> None:
        self.client.cancel()

    @override
    def savepoint(self, directory: str | None) -> CompletableFuture:
        return self.client.trigger_savepoint(directory)

    @override
    def stop(self, drain: bool, directory: str | None) -> CompletableFuture:
        return self.client.stop_with_savepoint(drain, directory)

    @override
    def checkpoint(self, full: bool) -> CompletableFuture:
        return self.client.trigger_checkpoint(full)

    @override
    def rescale(self, parallelism: int) -> CompletableFuture:
        return self.client.rescale(parallelism)

    @override
    def change_requirements(self, bounds: Mapping[str, Bounds]) -> CompletableFuture:
        return self.client.change_requirements(bounds)


class LiveJob(ServedJob):
    """A job of this process that has not ended."""

    def __init__(self, client: MasterJobClient) -> None:
        self._client = client
        self._outlined = client.plan, outline_of(client.plan)

    @property
    @override
    def outline(self) -> JobOutline:
        plan, outline = self._outlined
        if self._client.plan is not plan:  # the job was rescaled
            plan = self._client.plan
            outline = outline_of(plan)
            self._outlined = plan, outline
        return outline

    @property
    @override
    def control(self) -> JobControl:
        return _ClientControl(self._client)

    @override
    def snapshot(self) -> JobSnapshot:
        return self._client.snapshot()

    @override
    def metrics(self) -> MetricSource:
        return self._client.metric_registry

    @override
    def accumulators(self) -> Mapping[str, Any]:
        return dict(self._client.get_accumulators().result())

    @override
    def error(self) -> BaseException | None:
        return self._client.error()


@dataclass(frozen=True, slots=True)
class EndedJob:
    """What is left of a job: frozen data."""

    outline: JobOutline
    last: JobSnapshot
    results: Mapping[str, Any]
    kept: MetricSource
    reason: BaseException | None = None

    @property
    def control(self) -> None:
        """There is nothing to change any more."""
        return None

    def snapshot(self) -> JobSnapshot:
        """The last one."""
        return self.last

    def metrics(self) -> MetricSource:
        """The last values."""
        return self.kept

    def accumulators(self) -> Mapping[str, Any]:
        """The results."""
        return self.results

    def error(self) -> BaseException | None:
        """What it has ended with, if not well."""
        return self.reason


class ServedJobs(JobDirectory):
    """The jobs of this process; may be used from any thread."""

    def __init__(self, kept: int = KEPT_JOBS) -> None:
        #: How many jobs that are over are kept.
        self.kept = kept
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, ServedJob] = OrderedDict()

    @override
    def all(self) -> list[ServedJob]:
        with self._lock:
            return list(self._jobs.values())

    @override
    def find(self, job_id: str) -> ServedJob | None:
        with self._lock:
            return self._jobs.get(job_id)

    def add(self, client: MasterJobClient) -> None:
        """Show a job from now on; when it has ended, only what there is to see of it is kept."""
        job_id, job = str(client.get_job_id()), LiveJob(client)
        with self._lock:
            self._jobs[job_id] = job
        client.when_over(lambda: self._retire_aside(job_id, job))

    def _retire_aside(self, job_id: str, job: LiveJob) -> None:
        # Merging accumulators is user code, and the end of a job waits for nobody who only watches.
        retiring = threading.Thread(
            target=self._retire, args=(job_id, job), name="firesteel-rest-retiring", daemon=True
        )
        retiring.start()

    def _retire(self, job_id: str, job: LiveJob) -> None:
        try:
            results: Mapping[str, Any] = job.accumulators()
        except Exception:  # noqa: BLE001 - merging runs user code; what it raises is the error of the job already
            results = {}
        kept = KeptMetrics(job.outline, job.metrics())
        ended = EndedJob(job.outline, job.snapshot(), results, kept, job.error())
        with self._lock:
            if self._jobs.get(job_id) is not job:
                return
            self._jobs[job_id] = ended
            over = [key for key, each in self._jobs.items() if isinstance(each, EndedJob)]
            for key in over[: max(0, len(over) - self.kept)]:
                del self._jobs[key]
