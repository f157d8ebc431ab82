"""Submitting a job: which executor runs it, who is told, what is raised where."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from firesteel import launch
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, NotEnoughSlotsError
from firesteel.common.job_status import JobStatus
from firesteel.common.options import EXECUTOR
from firesteel.graph.stream_graph import Edge, GraphBuilder, StreamGraph
from firesteel.plan.exchange import Auto
from firesteel.plan.executor import Deployment, Master
from firesteel.plan.messages import TaskFinished, TaskId, TaskStarted
from firesteel.plan.operator_specs import PrintSpec, SourceSpec
from firesteel.plan.shipped import Shipped


class AtOnce:
    """An executor whose tasks have finished before it returns; also its own attempt."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def start(self, deployment: Deployment, master: Master) -> AtOnce:
        for stage in deployment.plan.stages:
            for index in range(stage.tasks):
                master.deliver(TaskId(stage.index, index), TaskStarted("here", 1))
                master.deliver(TaskId(stage.index, index), TaskFinished())
        return self

    def join(self, timeout: float | None = None) -> bool:
        return True

    def error(self) -> BaseException | None:
        return None

    def kill(self) -> None:
        pass


class Full(AtOnce):
    def start(self, deployment: Deployment, master: Master) -> AtOnce:
        raise NotEnoughSlotsError(needed=2, available=1)


def graph() -> StreamGraph:
    builder = GraphBuilder()
    source = builder.add("Source", SourceSpec(Shipped.of(None, "source"), True))
    builder.add("Print", PrintSpec(), (Edge(source, Auto()),))
    return builder.build()


def test_executor_of_the_context_runs_the_job() -> None:
    seen: list[Configuration] = []

    def factory(configuration: Configuration) -> AtOnce:
        seen.append(configuration)
        return AtOnce(configuration)

    configuration = Configuration()
    with launch.use_executor(factory):
        client = launch.submit(graph(), configuration, "job")
    client.wait()
    assert seen == [configuration]
    assert client.get_job_name() == "job"


def test_executor_of_the_configuration_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("engines_of_this_test")
    module.AtOnce = AtOnce
    monkeypatch.setitem(sys.modules, module.__name__, module)
    configuration = Configuration().set_string(EXECUTOR.key, "engines_of_this_test:AtOnce")
    with launch.use_executor(Full):
        launch.submit(graph(), configuration, "job").wait()


@pytest.mark.parametrize("name", ["no_such_module:x", "json:nothing", "json"])
def test_executor_that_does_not_exist_is_refused(name: str) -> None:
    configuration = Configuration().set_string(EXECUTOR.key, name)
    with pytest.raises(
        InvalidOptionError, match=r"option 'firesteel\.executor': expected 'module:attribute'"
    ):
        launch.submit(graph(), configuration, "job")


def test_job_that_cannot_start_raises_from_submit() -> None:
    with launch.use_executor(Full), pytest.raises(NotEnoughSlotsError):
        launch.submit(graph(), Configuration(), "job")


def test_observers_are_told_of_jobs_and_their_states() -> None:
    class Observer(launch.JobObserver):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def job_submitted(self, client: Any) -> None:
            self.seen.append(client)

        def status_changed(self, job: Any, status: JobStatus) -> None:
            self.seen.append(status)

    observer = Observer()
    with launch.use_executor(AtOnce), launch.observe_jobs(observer):
        client = launch.submit(graph(), Configuration(), "job")
        client.wait()
    assert observer.seen == [client, JobStatus.RUNNING, JobStatus.FINISHED]


def test_interceptor_sees_the_program_before_anything_runs() -> None:
    class Stop(Exception):
        pass

    taken: list[launch.Submission] = []

    def take(submission: launch.Submission) -> None:
        taken.append(submission)
        raise Stop

    program = graph()
    with launch.intercept(take), pytest.raises(Stop):
        launch.submit(program, Configuration(), "job")
    assert [(one.graph, one.job_name) for one in taken] == [(program, "job")]


def test_progress_is_shown_when_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(launch.PROGRESS_VARIABLE, "1")
    with launch.use_executor(AtOnce):
        client = launch.submit(graph(), Configuration(), "job")
    client.wait()
    assert capsys.readouterr().err.splitlines() == [
        f"job job ({client.get_job_id()}) switched to RUNNING",
        f"job job ({client.get_job_id()}) switched to FINISHED",
    ]
