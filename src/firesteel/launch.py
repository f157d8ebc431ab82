"""The composition root: compiles a graph, chooses the executor, starts the job master.

The API calls `submit`. Commands and tests change what that does for a while: another executor
(`use_executor`), somebody who watches the jobs (`observe_jobs`), or nothing being run at all (`intercept`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import CANCEL_GRACE, EXECUTOR
from firesteel.compiler.compile import compile_job
from firesteel.graph.stream_graph import StreamGraph
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.progress import JobListener, ProgressDisplay
from firesteel.plan.executor import Executor

ExecutorFactory = Callable[[Configuration], Executor]

#: Set to 1: jobs show their progress on standard error.
PROGRESS_VARIABLE = "FIRESTEEL_PROGRESS"


@dataclass(frozen=True, slots=True)
class Submission:
    """A program that is about to run."""

    graph: StreamGraph
    configuration: Configuration
    job_name: str


class JobObserver(JobListener):
    """Somebody who wants to know of every job that this process submits."""

    def job_submitted(self, client: MasterJobClient) -> None:
        """A job is about to start."""


_chosen_executor: ContextVar[ExecutorFactory | None] = ContextVar("firesteel_executor", default=None)

# These two are of the process, not of a context: a program may well submit from a thread of its own.
_observers: list[JobObserver] = []
_interceptors: list[Callable[[Submission], None]] = []


def submit(graph: StreamGraph, configuration: Configuration, job_name: str) -> MasterJobClient:
    """Compile and start a job; returns when the engine has taken it, raises what keeps it from starting."""
    for intercept_submission in _interceptors:
        intercept_submission(Submission(graph, configuration, job_name))
    plan = compile_job(graph, configuration, job_name)
    grace = configuration.get(CANCEL_GRACE).to_millis() / 1000
    executor = _executor_factory(configuration)(configuration)
    master = JobMaster(plan, executor, grace_seconds=grace, listeners=[*_progress(), *_observers])
    client = MasterJobClient(master)
    for observer in _observers:
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
def intercept(receiver: Callable[[Submission], None]) -> Iterator[None]:
    """Hand submissions to ``receiver`` first; it raises if they are not to run."""
    _interceptors.append(receiver)
    try:
        yield
    finally:
        _interceptors.remove(receiver)


def _progress() -> list[JobListener]:
    return [ProgressDisplay()] if os.environ.get(PROGRESS_VARIABLE) == "1" else []


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
