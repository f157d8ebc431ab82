"""The jobs that a service shows: those of this process, while they run and for a while after their end."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from firesteel.common._override import override
from firesteel.common.completable_future import CompletableFuture
from firesteel.compiler.program_plans import Bounds
from firesteel.jobmaster.attempt import TaskProcess
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.queryable_states import QueryableState
from firesteel.plan.executor import EngineExecutor, VisibleExecutors
from firesteel.plan.messages import (
    DumpThreads,
    SampleStacks,
    SetLogLevels,
    StacksSampled,
    TaskId,
    ThreadsDumped,
)
from firesteel.rest.metric_source import KeptMetrics, MetricSource
from firesteel.rest.outline import JobOutline, outline_of

__all__ = [
    "EndedJob",
    "JobControl",
    "JobDirectory",
    "JobInspector",
    "LiveJob",
    "Sampling",
    "ServedJob",
    "ServedJobs",
    "last_accumulators",
]

_LOG = logging.getLogger(__name__)

#: How long tasks may take to say what they do.
_ANSWER_SECONDS = 5.0

#: How many jobs that are over are kept. They are small: without user code, and without state.
KEPT_JOBS = 100


class JobControl(Protocol):
    """What can be asked of a job that runs; futures hold what becomes of it."""

    def cancel(self) -> None:
        """Ask it to end now, without waiting until it has."""

    def savepoint(self, directory: str | None) -> CompletableFuture:
        """Take a savepoint; its path."""
        ...

    def stop(self, drain: bool, directory: str | None) -> CompletableFuture:
        """Take a savepoint and end; its path when the job has ended."""
        ...

    def checkpoint(self, full: bool) -> CompletableFuture:
        """Take a checkpoint now; its number."""
        ...

    def queryable_states(self) -> tuple[QueryableState, ...]:
        """The states that can be asked for now."""
        ...

    def query_state(self, name: str, key: Any) -> CompletableFuture:
        """What a state holds for a key; both are JSON, the answer as bytes."""
        ...

    def rescale(self, parallelism: int) -> CompletableFuture:
        """Go on with another default parallelism; complete when it does."""
        ...

    def change_requirements(self, bounds: Mapping[str, Bounds]) -> CompletableFuture:
        """Go on with another parallelism of some operators, by their ids."""
        ...


class JobInspector(Protocol):
    """What can be asked of the processes of a job, and of its engine's. All of it asks them, and may take a while."""

    def executors(self) -> tuple[EngineExecutor, ...]:
        """The processes of the engine, and those that were lost; none where it does not tell of them."""
        ...

    def executor_threads(self, executor_id: str) -> list[tuple[str, str]]:
        """Name and stack of the threads of a process of the engine."""
        ...

    def processes(self) -> list[TaskProcess]:
        """Those of the tasks, and when each was last heard."""
        ...

    def threads(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, ThreadsDumped]:
        """What the threads of tasks do now; those that do not answer are missing."""
        ...

    def sample(self, tasks: Sequence[TaskId], sampling: Sampling) -> Mapping[TaskId, StacksSampled]:
        """Samples of what tasks do, which takes as long as they are told to look."""
        ...

    def set_log_levels(self, levels: Mapping[str, int]) -> None:
        """Have tasks log at these levels."""
        ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tasks are looked at: how often, how many seconds apart, how deep."""

    samples: int
    delay: float
    depth: int

    @property
    def seconds(self) -> float:
        """How long a task is looked at; a busy one takes longer to answer."""
        return self.samples * self.delay


class ServedJob(Protocol):
    """A job that runs or has ended, in this process or elsewhere."""

    @property
    def outline(self) -> JobOutline:
        """Its plan, which is another one after the job was rescaled."""
        ...

    @property
    def control(self) -> JobControl | None:
        """How to change it; None when it has ended."""
        ...

    @property
    def inspector(self) -> JobInspector | None:
        """How to look into its processes; None when it has ended, and nothing is left of its engine."""
        ...

    def snapshot(self) -> JobSnapshot:
        """What is known of it now."""
        ...

    def metrics(self) -> MetricSource:
        """Where its metrics are found; the last values when it has ended."""
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
        self.client.wish = "asked for over REST"
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
    def queryable_states(self) -> tuple[QueryableState, ...]:
        return self.client.queryable_states

    @override
    def query_state(self, name: str, key: Any) -> CompletableFuture:
        return self.client.query_state(name, key)

    @override
    def rescale(self, parallelism: int) -> CompletableFuture:
        return self.client.rescale(parallelism)

    @override
    def change_requirements(self, bounds: Mapping[str, Bounds]) -> CompletableFuture:
        return self.client.change_requirements(bounds)


class _EngineInspector(JobInspector):
    """Of a job that has ended: its engine may still be there, for the next one."""

    def __init__(self, engine: VisibleExecutors | None) -> None:
        self._engine = engine

    @override
    def executors(self) -> tuple[EngineExecutor, ...]:
        return () if self._engine is None else self._engine.executors()

    @override
    def executor_threads(self, executor_id: str) -> list[tuple[str, str]]:
        return [] if self._engine is None else self._engine.executor_threads(executor_id)

    @override
    def processes(self) -> list[TaskProcess]:
        return []

    @override
    def threads(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, ThreadsDumped]:
        return {}

    @override
    def sample(self, tasks: Sequence[TaskId], sampling: Sampling) -> Mapping[TaskId, StacksSampled]:
        return {}

    @override
    def set_log_levels(self, levels: Mapping[str, int]) -> None:
        """Nobody is left to log."""


class _MasterInspector(_EngineInspector):
    """Through the master of a job in this process."""

    def __init__(self, master: JobMaster) -> None:
        super().__init__(master.engine)
        self.master = master

    @override
    def processes(self) -> list[TaskProcess]:
        return self.master.task_processes()

    @override
    def threads(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, ThreadsDumped]:
        answers = self.master.inquire(tasks, DumpThreads, _ANSWER_SECONDS)
        return {task: answer for task, answer in answers.items() if isinstance(answer, ThreadsDumped)}

    @override
    def sample(self, tasks: Sequence[TaskId], sampling: Sampling) -> Mapping[TaskId, StacksSampled]:
        def ask(question: int) -> SampleStacks:
            return SampleStacks(question, sampling.samples, sampling.delay, sampling.depth)

        # A busy task is looked at less often than it should be: its interpreter has to be waited for.
        answers = self.master.inquire(tasks, ask, 3 * sampling.seconds + _ANSWER_SECONDS)
        return {task: answer for task, answer in answers.items() if isinstance(answer, StacksSampled)}

    @override
    def set_log_levels(self, levels: Mapping[str, int]) -> None:
        self.master.tell_tasks(SetLogLevels(dict(levels)))


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

    @property
    def engine(self) -> VisibleExecutors | None:
        """Who tells of the engine's processes."""
        return self._client.master.engine

    @property
    @override
    def inspector(self) -> JobInspector:
        return _MasterInspector(self._client.master)

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
    engine: VisibleExecutors | None = None

    @property
    def control(self) -> None:
        """There is nothing to change any more."""
        return None

    @property
    def inspector(self) -> JobInspector | None:
        """Its own processes are gone; those of the engine may be there."""
        return None if self.engine is None else _EngineInspector(self.engine)

    def snapshot(self) -> JobSnapshot:
        """What was known of it at its end."""
        return self.last

    def metrics(self) -> MetricSource:
        """The values that its metrics had at its end."""
        return self.kept

    def accumulators(self) -> Mapping[str, Any]:
        """Results of its accumulators; empty when merging them has failed."""
        return self.results

    def error(self) -> BaseException | None:
        """What it has ended with, if not well."""
        return self.reason


def last_accumulators(job_id: str, job: ServedJob) -> Mapping[str, Any]:
    """The accumulators of a job that has ended; merging them runs user code, and whoever only watches goes on without."""
    try:
        return job.accumulators()
    except Exception as error:  # noqa: BLE001 - see above
        problem = f"{type(error).__name__}: {error}"
        _LOG.warning(
            "job %s is kept without its accumulators, because they cannot be merged: %s", job_id, problem
        )
        return {}


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
        results = last_accumulators(job_id, job)
        kept = KeptMetrics(job.outline, job.metrics())
        ended = EndedJob(job.outline, job.snapshot(), results, kept, job.error(), job.engine)
        with self._lock:
            if self._jobs.get(job_id) is not job:
                return
            self._jobs[job_id] = ended
            over = [key for key, each in self._jobs.items() if isinstance(each, EndedJob)]
            for key in over[: max(0, len(over) - self.kept)]:
                del self._jobs[key]
