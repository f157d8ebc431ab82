"""Looking into running jobs over HTTP: threads, flame graphs, logs by executor, levels of loggers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel import launch
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.datastream.functions import MapFunction
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.logs.levels import levels, set_levels
from firesteel.logs.log_book import LOGS
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel_support.rest_client import RestClient, check_shape


@pytest.fixture
def rest() -> Iterator[RestClient]:
    before = levels()
    service = RestService(RestSettings())
    with launch.observe_jobs(service):
        yield RestClient(service.url)
    service.close()
    LOGS.close()
    set_levels(before)


class Held(MapFunction):
    """Waits in the middle of a record until the test lets it go on: user code that does not come back."""

    here = threading.Event()
    may_go = threading.Event()

    def map(self, value: int) -> int:
        Held.here.set()
        self.wait_for_the_test()
        return value

    def wait_for_the_test(self) -> None:
        Held.may_go.wait()


@pytest.fixture
def job(rest: RestClient, request: pytest.FixtureRequest) -> Iterator[MasterJobClient]:
    Held.here, Held.may_go = threading.Event(), threading.Event()
    options = {
        "rest.flamegraph.num-samples": "5",
        "rest.flamegraph.delay-between-samples": "2 ms",
        **getattr(request, "param", {}),
    }
    env = simulated_environment(parallelism=1, configuration=Configuration.from_dict(options))
    source = ScriptedSource([Emit([1]), WaitForever()])
    env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").map(Held()).print()
    client = env.execute_async("held")
    assert isinstance(client, MasterJobClient)
    Held.here.wait()
    yield client
    Held.may_go.set()
    client.cancel().result()


def frames(node: dict[str, Any]) -> Iterator[str]:
    yield node["name"]
    for child in node["children"]:
        yield from frames(child)


def flame_graph_path(rest: RestClient, job: MasterJobClient) -> str:
    vertex = rest.get(f"/jobs/{job.get_job_id()}")["vertices"][0]["id"]
    return f"/jobs/{job.get_job_id()}/vertices/{vertex}/flamegraph"


def test_a_flame_graph_shows_where_user_code_is_stuck(rest: RestClient, job: MasterJobClient) -> None:
    path = flame_graph_path(rest, job)
    assert rest.get(path) == {"endTimestamp": -3}
    answer = rest.wait_for(path, lambda each: "data" in each)
    check_shape(answer, "FlameGraph")
    assert answer["data"]["value"] >= 5
    assert any("Held.wait_for_the_test:" in name for name in frames(answer["data"]))
    waiting = rest.get(f"{path}?type=off_cpu")["data"]
    assert any("Held.wait_for_the_test:" in name for name in frames(waiting))
    running = rest.get(f"{path}?type=ON_CPU")["data"]
    assert not any("Held.wait_for_the_test:" in name for name in frames(running))
    assert rest.wait_for(f"{path}?subtaskindex=0", lambda each: "data" in each)["data"]["value"] >= 5


@pytest.mark.parametrize("job", [{"rest.flamegraph.enabled": "false"}], indirect=True)
def test_a_flame_graph_that_is_switched_off_says_so(rest: RestClient, job: MasterJobClient) -> None:
    assert rest.get(flame_graph_path(rest, job)) == {"endTimestamp": -2}


def test_bad_questions_for_flame_graphs_are_refused(rest: RestClient, job: MasterJobClient) -> None:
    path = flame_graph_path(rest, job)
    status, answer = rest.call("GET", f"{path}?type=sideways")
    assert (status, answer["errors"][0]) == (
        400,
        "parameter 'type': expected one of FULL, ON_CPU, OFF_CPU, got 'sideways'",
    )
    assert rest.call("GET", f"{path}?subtaskindex=7")[0] == 404


def test_a_job_that_is_over_has_no_flame_graph(rest: RestClient, job: MasterJobClient) -> None:
    path = flame_graph_path(rest, job)
    Held.may_go.set()
    job.cancel().result()
    rest.wait_for(path, lambda each: each == {"endTimestamp": -1})


def test_threads_of_tasks_are_shown_while_user_code_is_stuck(rest: RestClient, job: MasterJobClient) -> None:
    manager = rest.get("/taskmanagers")["taskmanagers"][0]["id"]
    threads = rest.get(f"/taskmanagers/{manager}/thread-dump")["threadInfos"]
    assert any("in wait_for_the_test" in each["stringifiedThreadInfo"] for each in threads)
    assert any("Numbers" in each["threadName"] for each in threads)
    own = rest.get("/jobmanager/thread-dump")["threadInfos"]
    assert any(each["threadName"] == "firesteel-rest" for each in own)


def test_what_tasks_print_is_there_by_executor(rest: RestClient, job: MasterJobClient) -> None:
    Held.may_go.set()
    manager = rest.get("/taskmanagers")["taskmanagers"][0]["id"]
    rest.wait_for(f"/jobs/{job.get_job_id()}", lambda each: each["state"] == "RUNNING")
    printed = rest.wait_for(f"/taskmanagers/{manager}/stdout", lambda text: text)
    assert printed == "1\n"
    assert rest.get(f"/taskmanagers/{manager}/stdout?tail=1") == "\n"
    assert rest.get(f"/taskmanagers/{manager}/logs") == {"logs": []}


def test_logs_are_files_where_a_directory_is_named(rest: RestClient, tmp_path: Path) -> None:
    options = {"env.log.dir": str(tmp_path), "env.log.level": "INFO"}
    env = simulated_environment(parallelism=1, configuration=Configuration.from_dict(options))
    source = ScriptedSource([Emit([1]), WaitForever()])
    env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").print()
    client = env.execute_async("logged")
    assert isinstance(client, MasterJobClient)
    (log,) = rest.get("/jobmanager/logs")["logs"][:1]
    assert log["name"].endswith("-driver.log")
    text = rest.wait_for(f"/jobmanager/logs/{log['name']}", lambda text: "switched from" in text)
    assert rest.get("/jobmanager/log").startswith(text)
    assert len(rest.get("/jobmanager/log?tail=10")) == 10
    manager = rest.wait_for("/taskmanagers", lambda each: each["taskmanagers"])["taskmanagers"][0]["id"]
    (out,) = rest.wait_for(f"/taskmanagers/{manager}/logs", lambda each: each["logs"])["logs"]
    assert rest.get(f"/taskmanagers/{manager}/logs/{out['name']}") == "1\n"
    assert rest.call("GET", f"/taskmanagers/{manager}/logs/..%2f..%2fetc%2fpasswd")[0] == 404
    assert rest.call("GET", "/jobmanager/logs/passwd")[0] == 404
    client.cancel().result()


def test_levels_are_shown_and_changed_while_a_job_runs(rest: RestClient, job: MasterJobClient) -> None:
    status, answer = rest.call("PUT", "/log-levels", {"logger": "orders", "level": "DEBUG"})
    assert status == 200
    assert {"logger": "orders", "level": "DEBUG"} in answer["loggers"]
    assert logging.getLogger("orders").isEnabledFor(logging.DEBUG)
    assert rest.get("/log-levels") == answer
    rest.call("PUT", "/log-levels", {"logger": "orders", "level": None})
    assert not [each for each in rest.get("/log-levels")["loggers"] if each["logger"] == "orders"]


@pytest.mark.parametrize("body", [{"logger": "orders", "level": "LOUD"}, {"level": "INFO"}, {"logger": 7}])
def test_bad_levels_are_refused(rest: RestClient, body: dict[str, Any]) -> None:
    status, answer = rest.call("PUT", "/log-levels", body)
    assert status == 400
    assert answer["errors"]
