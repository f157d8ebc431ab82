"""The composition root: compiles a graph, chooses the executor, starts the job master.

The API calls `submit`. Commands and tests change what that does for a while: another executor
(`use_executor`), somebody who watches the jobs (`observe_jobs`), or something else being run, or nothing at
all (`intercept`).
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

from firesteel.checkpoint.matching import ProgramOperator
from firesteel.checkpoint.state_pickle import collect_program_classes
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.job_id import JobID
from firesteel.common.options import EXECUTOR, HIGH_AVAILABILITY, MAX_PARALLELISM
from firesteel.compiler.compile import compile_job
from firesteel.graph.operator_ids import operator_ids
from firesteel.graph.stream_graph import StreamGraph
from firesteel.jobmaster.console import CONSOLE
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.preparation import prepare, standby_settings
from firesteel.jobmaster.progress import JobListener, ProgressDisplay
from firesteel.jobmaster.registered_jobs import RegisteredJobs
from firesteel.jobmaster.standby import Leadership, await_leadership
from firesteel.plan.executor import Executor
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.shipped import Shipped
from firesteel.state.backends import check_backend

ExecutorFactory = Callable[[Configuration], Executor]

#: Set to 1: jobs show their progress on standard error.
PROGRESS_VARIABLE = "FIRESTEEL_PROGRESS"

#: Set to 1: jobs of a plain ``python job.py`` are registered, as those of ``firesteel run`` always are.
REGISTER_VARIABLE = "FIRESTEEL_REGISTER"


@dataclass(frozen=True, slots=True)
class Submission:
    """A program that is about to run; ``executor`` and ``state_backend`` win over what the configuration says."""

    graph: StreamGraph
    configuration: Configuration
    job_name: str
    executor: ExecutorFactory | None = None
    state_backend: Shipped | None = None


class JobObserver(JobListener, Protocol):
    """Somebody who wants to know of every job that this process submits."""

    def job_submitted(self, client: MasterJobClient) -> None:
        """A job is about to start."""

    def standing_by(self, job_id: JobID) -> None:
        """Another driver runs the job; this one waits."""


_chosen_executor: ContextVar[ExecutorFactory | None] = ContextVar("firesteel_executor", default=None)

# These are of the process, not of a context: a program may well submit from a thread of its own.
_observers: list[JobObserver] = []
_interceptors: list[Callable[[Submission], Submission | None]] = []
_leaderships: dict[str, Leadership] = {}  # by the directory of the lease


def submit(
    graph: StreamGraph, configuration: Configuration, job_name: str, state_backend: Shipped | None = None
) -> MasterJobClient:
    """Compile and start a job; returns when the engine has taken it, raises what keeps it from starting."""
    submission = Submission(graph, configuration, job_name, state_backend=state_backend)
    for intercept_submission in _interceptors:
        submission = intercept_submission(submission) or submission
    return _start(submission)


def _start(submission: Submission) -> MasterJobClient:
    configuration = submission.configuration
    if submission.state_backend is None:
        check_backend(configuration)
    plan = compile_job(submission.graph, configuration, submission.job_name)
    plan = replace(plan, program_classes=collect_program_classes(), state_backend=submission.state_backend)
    executor = (submission.executor or _executor_factory(configuration))(configuration)
    program = _program(submission.graph, plan, configuration)
    leadership = _leadership(plan, configuration)
    if leadership is None:
        return _deploy(plan, program, configuration, executor)
    try:
        return _deploy(plan, program, configuration, executor, leadership)
    except BaseException:
        leadership.release()  # changes nothing when the job has ended, or is about to
        raise


def _leadership(plan: JobPlan, configuration: Configuration) -> Leadership | None:
    """Wait until this driver leads the job, if it has several."""
    settings = standby_settings(plan, configuration)
    if settings is None:
        return None
    earlier = _leaderships.get(settings.directory)
    if earlier is not None and not earlier.is_over:
        # It would stand by for itself, and end the program when the other job ends.
        raise InvalidOptionError(
            f"option '{HIGH_AVAILABILITY.key}': this program runs a job '{plan.name}' with the id {settings.job_id} "
            "already, and standby drivers tell jobs by their ids; give each job of a program a name of its own: "
            "execute(name)"
        )

    def on_standby() -> None:
        for observer in _observers:
            observer.standing_by(settings.job_id)

    leadership = await_leadership(
        settings, plan.name, lambda text: CONSOLE.write(f"{text}\n", "stderr"), on_standby
    )
    _leaderships[settings.directory] = leadership
    return leadership


def _deploy(
    plan: JobPlan,
    program: list[ProgramOperator],
    configuration: Configuration,
    executor: Executor,
    leadership: Leadership | None = None,
) -> MasterJobClient:
    # The last thing that may refuse the job: it claims the job's directory.
    before = (0, False) if leadership is None else (leadership.claimed_before, leadership.finished_before)
    prepared = prepare(plan, program, configuration, *before)
    observers = [*_observers, *_registration()]
    master = JobMaster(
        prepared.plan,
        executor,
        prepared.settings,
        beginning=prepared.beginning,
        store=prepared.store,
        listeners=[*([] if leadership is None else [leadership]), *_progress(), *observers],
    )
    if leadership is not None:
        leadership.bind(master, prepared.claimed)
    client = MasterJobClient(master, None if leadership is None else leadership.hand_over)
    for observer in observers:
        observer.job_submitted(client)
    master.start()
    client.wait_until_deployed()
    return client


@contextmanager
def use_executor(factory: ExecutorFactory) -> Iterator[None]:
    """Run the jobs that are submitted inside the block on this executor."""
    token = _chosen_executor.set(factory)
    try:
        yield
    finally:
        _chosen_executor.reset(token)


@contextmanager
def observe_jobs(observer: JobObserver) -> Iterator[None]:
    """Tell ``observer`` of the jobs that are submitted inside the block."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextmanager
def register_jobs() -> Iterator[None]:
    """Let commands of other processes find the jobs that are submitted inside the block, and talk to them."""
    registered = RegisteredJobs()
    with observe_jobs(registered):
        try:
            yield
        finally:
            registered.close()


@contextmanager
def intercept(receiver: Callable[[Submission], Submission | None]) -> Iterator[None]:
    """Hand submissions to ``receiver`` first; it may give another one to run, and raises if none is to run."""
    _interceptors.append(receiver)
    try:
        yield
    finally:
        _interceptors.remove(receiver)


def _program(graph: StreamGraph, plan: JobPlan, configuration: Configuration) -> list[ProgramOperator]:
    """What has to be known of the operators to find their state again."""
    ids = operator_ids(graph)
    nodes = {ids[node.id]: node for node in graph}
    for_all = configuration.get(MAX_PARALLELISM) != MAX_PARALLELISM.default
    return [
        ProgramOperator(
            operator.id,
            operator.name,
            vertex.parallelism,
            vertex.max_parallelism,
            uid=nodes[operator.id].uid,
            max_parallelism_is_given=for_all or nodes[operator.id].max_parallelism is not None,
            state_types=operator.state_types,
        )
        for vertex in plan.vertices
        for operator in vertex.operators
    ]


def _progress() -> list[JobListener]:
    return [ProgressDisplay()] if os.environ.get(PROGRESS_VARIABLE) == "1" else []


def _registration() -> list[JobObserver]:
    is_wanted = os.environ.get(REGISTER_VARIABLE) == "1"
    return [_registered_jobs()] if is_wanted and not _is_registering() else []


def _is_registering() -> bool:
    return any(isinstance(observer, RegisteredJobs) for observer in _observers)


@functools.cache
def _registered_jobs() -> RegisteredJobs:
    registered = RegisteredJobs()
    atexit.register(registered.close)
    return registered


def _executor_factory(configuration: Configuration) -> ExecutorFactory:
    name = configuration.get(EXECUTOR)
    if name:
        return _load(name)
    chosen = _chosen_executor.get()
    if chosen is not None:
        return chosen
    # Late, because only jobs that run on Spark should need it.
    from firesteel.spark.executor import SparkExecutor

    return SparkExecutor


def _load(name: str) -> ExecutorFactory:
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidOptionError(
            f"option '{EXECUTOR.key}': expected 'module:attribute' naming a class or function that "
            f"makes an executor, got {name!r}: {error}"
        ) from error
    factory: ExecutorFactory = found
    return factory
