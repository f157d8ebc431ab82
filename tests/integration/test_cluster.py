"""The same on a standalone Spark cluster with two workers, which starts from the installed PySpark."""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from same_results import PROGRAMS
from support import PROGRAMS as PROGRAM_FILES
from support import Driver, start_driver, until

from firesteel_support.rest_client import RestClient

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def run(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The driver that does everything, at the point where only its endless job runs."""
    directory = tmp_path_factory.mktemp("driver")
    command = [str(PROGRAM_FILES / "on_cluster.py"), cluster.url, str(directory)]
    started = start_driver(directory, command, **cluster.environment)
    try:
        started.await_output("running")
        yield started
    finally:
        started.kill_family()


@pytest.fixture(scope="module")
def seen(run: Driver) -> Any:
    return pickle.loads((run.directory / "seen.pickle").read_bytes())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_same_results_on_a_cluster(name: str, mode: str, seen: Any) -> None:
    assert seen[mode][name] == PROGRAMS[name].wanted(batch=mode == "batch")


def test_tasks_run_on_both_workers(seen: Any, cluster: Cluster) -> None:
    places = [Path(place) for place, _, _ in seen["places"]]
    assert [any(p.is_relative_to(work) for p in places) for work in cluster.work_directories] == [True, True]


def test_executors_get_firesteel_and_cached_files_from_the_driver(seen: Any) -> None:
    for _, package, words in seen["places"]:
        assert "firesteel.zip" in package
        assert words == "words"


def test_what_tasks_print_and_log_comes_back_from_executors(run: Driver, seen: Any) -> None:
    lines = run.stdout().splitlines()
    assert sum(line.startswith("print in task") for line in lines) == 60
    assert sum(line.startswith("LOG in.task logged") for line in lines) == 60
    printed = [line for line in lines if line.endswith("> printed")]
    assert {line.partition(">")[0] for line in printed} == {f"p:{n}" for n in range(1, 7)}
    assert len(printed) == 60


def test_too_few_slots_on_a_cluster_say_so(seen: Any) -> None:
    assert "NotEnoughSlotsError" in seen["slots"]
    assert "has 16" in seen["slots"]
    assert "executor cores" in seen["slots"]


def test_executors_are_task_managers_that_can_be_looked_into(run: Driver, seen: Any) -> None:
    (url,) = [line.removeprefix("rest: ") for line in run.stdout().splitlines() if line.startswith("rest: ")]
    rest = RestClient(url)

    # The first record may come while the last task is still being started, and Spark may be too busy to tell of its executors at
    # once: until then there are as many slots as tasks.
    def is_all_known(answer: Any) -> bool:
        return (
            assigned_tasks(answer) == 12 and sum(each["slotsNumber"] for each in answer["taskmanagers"]) == 16
        )

    managers = rest.wait_for("/taskmanagers", is_all_known)["taskmanagers"]
    assert {each["id"] for each in managers} == {"executor-0", "executor-1"}
    for manager in managers:
        dump = rest.wait_for(f"/taskmanagers/{manager['id']}/thread-dump", has_threads_of_the_jvm)
        tasks = [each["threadName"] for each in dump["threadInfos"] if "JVM: " not in each["threadName"]]
        assert any("MainThread" in name for name in tasks)


def assigned_tasks(answer: Any) -> int:
    return sum(each["assignedTasks"] for each in answer["taskmanagers"])


def has_threads_of_the_jvm(dump: Any) -> bool:
    return any(each["threadName"].startswith("JVM: ") for each in dump["threadInfos"])


def test_killed_executor_ends_the_job_with_a_clear_message(run: Driver, cluster: Cluster, seen: Any) -> None:
    victim = cluster.executors()[0]
    os.kill(victim.pid, signal.SIGKILL)
    run.await_output("over after")
    assert "TaskLostError: lost task" in run.stdout()
    run.wait()
    number = re.search(r"--executor-id\W+(\d+)", victim.command)
    assert number is not None
    assert f"lost: ['executor-{number[1]}']" in run.stdout()
    assert run.stderr() == ""
    until(lambda: not run.family(), "the driver's processes are gone")
    until(lambda: not cluster.executors() and not cluster.python_workers(), "the job's processes are gone")
