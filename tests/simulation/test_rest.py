"""The REST interface over HTTP, against simulated jobs: running, failing, restarting, saved, stopped, cancelled."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from firesteel import launch
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.common.accumulators import IntCounter
from firesteel.common.errors import FiresteelError, SetupError
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import MapFunction, RuntimeContext
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.terminal.progress import ObservedJob
from firesteel.rest.archive import JobArchive
from firesteel.rest.listener import Listener
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel_support.rest_client import RestClient, check_shape

NOBODY = "0" * 32


@pytest.fixture
def rest() -> Iterator[RestClient]:
    service = RestService(RestSettings())
    with launch.observe_jobs(service):
        yield RestClient(service.url)
    service.close()


class Counting(MapFunction):
    """Adds one, counts records, and raises on a negative number as long as a file is not there."""

    def __init__(self, failed: Path) -> None:
        self._failed = failed

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = IntCounter()
        runtime_context.add_accumulator("seen", self._seen)

    def map(self, value: int) -> int:
        if value < 0 and not self._failed.exists():
            self._failed.touch()
            raise ValueError(f"negative: {value}")
        self._seen.add(1)
        return value + 1


def environment(tmp_path: Path, **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
            "web.checkpoints.history": "10000",  # so that none is forgotten while a busy machine asks for it
            "restart-strategy.type": "none",
            "my.password": "do not tell",
            **{key.replace("_", "."): value for key, value in options.items()},
        }
    )
    return simulated_environment(parallelism=2, configuration=configuration)


def started(
    tmp_path: Path, *script: Any, env: StreamExecutionEnvironment | None = None
) -> tuple[MasterJobClient, str]:
    env = env or environment(tmp_path)
    source = env.from_source(ScriptedSource(list(script)), WatermarkStrategy.no_watermarks(), "Numbers")
    source.key_by(lambda value: value % 2).map(Counting(tmp_path / "failed")).name("Plus one").print()
    client = env.execute_async("a job")
    assert isinstance(client, MasterJobClient)
    return client, f"/jobs/{client.get_job_id()}"


def run_to_end(client: MasterJobClient) -> None:
    client.cancel().result()


def test_a_running_job_is_shown_with_everything_that_has_a_path(rest: RestClient, tmp_path: Path) -> None:
    # One is looked at while others are taken.
    env = environment(tmp_path, **{"web.checkpoints.history": "10000"})
    client, job = started(tmp_path, Emit([1, 2, 3, 4]), WaitForever(), env=env)
    assert client.rest_url == rest.url
    details = rest.wait_for(
        job,
        lambda each: each["state"] == "RUNNING" and each["vertices"][-1]["metrics"]["read-records"] == 4,
    )
    rest.wait_for(f"{job}/checkpoints", lambda each: each["counts"]["completed"] > 0)
    newest = rest.get(f"{job}/checkpoints")["latest"]["completed"]["id"]
    host = rest.get("/taskmanagers")["taskmanagers"][0]["id"]
    values = {
        "jobid": client.get_job_id(),
        "vertexid": details["vertices"][-1]["id"],
        "subtaskindex": 1,
        "attempt": 0,
        "checkpointid": newest,
        "taskmanagerid": host,
    }
    for endpoint in ENDPOINTS:
        path = endpoint.path.format_map({**values, **dict.fromkeys(_OTHERS, NOBODY)})
        if (
            endpoint.method != "GET"
            or endpoint.status != 200
            or any(each.required for each in endpoint.query)
            or any(f"{{{name}}}" in endpoint.path for name in _OTHERS)
        ):
            continue
        for prefix in ("", "/v1"):
            status, answer = rest.call("GET", prefix + path)
            if endpoint.shape is not None:
                assert status == 200, (path, answer)
                check_shape(answer, endpoint.shape)
    run_to_end(client)


_OTHERS = ("triggerid", "logname", "jarid", "datasetid", "filename", "applicationid", "rescaleuuid")


def test_figures_of_a_running_job_are_those_of_its_records(rest: RestClient, tmp_path: Path) -> None:
    client, job = started(tmp_path, Emit([1, 2, 3, 4]), WaitForever())
    details = rest.wait_for(job, lambda each: each["vertices"][-1]["metrics"]["read-records"] == 4)
    vertex = f"{job}/vertices/{details['vertices'][-1]['id']}"
    subtasks = rest.get(vertex)["subtasks"]
    assert sum(each["metrics"]["read-records"] for each in subtasks) == 4
    (figure,) = rest.get(f"{vertex}/subtasks/metrics?get=numRecordsIn&agg=sum")
    assert figure == {"id": "numRecordsIn", "sum": 4.0}
    seen = rest.wait_for(f"{job}/accumulators", lambda each: each["user-task-accumulators"])
    assert seen["user-task-accumulators"] == [{"name": "seen", "type": "int", "value": "4"}]
    names = [node["id"] for node in rest.get(f"{job}/plan")["plan"]["nodes"]]
    assert names == [each["id"] for each in reversed(details["vertices"])]
    text = json.dumps([rest.get("/jobmanager/config"), rest.get(f"{job}/jobmanager/config")])
    assert "my.password" in text
    assert "do not tell" not in text
    run_to_end(client)


class Unmergeable(IntCounter):
    """Of several subtasks nobody can make one."""

    def merge(self, other: Any) -> None:
        raise RuntimeError("apples and pears")


class CountingBadly(Counting):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = Unmergeable()
        runtime_context.add_accumulator("seen", self._seen)


def test_a_job_whose_accumulators_cannot_be_merged_is_kept_without_and_the_log_says_why(
    rest: RestClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = JobArchive(str(tmp_path / "archive"))
    with launch.observe_jobs(archive):
        env = environment(tmp_path)
        source = env.from_source(ScriptedSource([Emit([1, 2])]), WatermarkStrategy.no_watermarks(), "Numbers")
        source.key_by(lambda value: value % 2).map(CountingBadly(tmp_path / "failed")).print()
        client = env.execute_async("a job")
    with pytest.raises(RuntimeError, match="apples and pears"):
        client.get_job_execution_result().result()
    archive.close()
    path = f"/jobs/{client.get_job_id()}"
    rest.wait_for("/jobs/overview", lambda each: _shown_without_accumulators(rest, path))
    (kept,) = (tmp_path / "archive").glob("*.json")
    assert json.loads(kept.read_text())["jid"] == str(client.get_job_id())
    sentence = f"job {client.get_job_id()} is kept without its accumulators, because they cannot be merged"
    reasons = [each.getMessage() for each in caplog.records if sentence in each.getMessage()]
    assert (
        reasons == [f"{sentence}: RuntimeError: apples and pears"] * 2
    )  # by the interface, and by the archive


class TellsLate:
    """What is to be done at the end of a job waits for this, if it was asked for later."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def job_submitted(self, client: MasterJobClient) -> None:
        client.when_over(lambda: self.gate.wait(60))  # type: ignore[arg-type, return-value]

    def standing_by(self, job_id: JobID) -> None:
        pass

    def engine_starting(self, job_id: JobID) -> None:
        pass

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        pass


def test_an_archive_that_is_closed_has_jobs_whose_end_only_the_program_knows_yet(tmp_path: Path) -> None:
    """A program that has its result ends, and with it the process; nobody but it may have heard of the job's end."""
    archive, late = JobArchive(str(tmp_path / "archive")), TellsLate()
    with launch.observe_jobs(late), launch.observe_jobs(archive):
        env = environment(tmp_path)
        env.from_collection([1, 2]).print()
        client = env.execute_async("a job")
    client.get_job_execution_result().result()
    threading.Timer(0.2, late.gate.set).start()
    archive.close()
    assert [path.stem for path in (tmp_path / "archive").glob("*.json")] == [str(client.get_job_id())]


def _shown_without_accumulators(rest: RestClient, job: str) -> bool:
    status, answer = rest.call("GET", f"{job}/accumulators")  # an error as long as it asks the job itself
    return status == 200 and answer["user-task-accumulators"] == []


def test_a_failure_is_shown_with_its_traceback_and_the_restart(rest: RestClient, tmp_path: Path) -> None:
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    client, job = started(tmp_path, Emit([1, -3]), WaitForever(), env=environment(tmp_path, **options))
    rest.wait_for(
        f"{job}/metrics?get=numRestarts", lambda each: each == [{"id": "numRestarts", "value": "1"}]
    )
    details = rest.wait_for(job, lambda each: each["state"] == "RUNNING")
    (entry,) = rest.get(f"{job}/exceptions")["exceptionHistory"]["entries"]
    assert "ValueError: negative: -3" in entry["stacktrace"]
    assert "in map" in entry["stacktrace"], "the traceback of the user's function"
    assert entry["taskName"].startswith("Plus one (")
    subtask = f"{job}/vertices/{details['vertices'][-1]['id']}/subtasks/0"
    assert rest.get(subtask)["attempt"] == 1
    assert rest.get(f"{subtask}/attempts/0")["status"] in ("FAILED", "CANCELED")
    status, answer = rest.call("GET", f"{subtask}/attempts/7")
    assert (status, answer["errors"][0]) == (404, "attempt 7 of the subtask is not known; these are: 0, 1")
    run_to_end(client)


def test_a_job_that_has_failed_for_good_stays_visible(rest: RestClient, tmp_path: Path) -> None:
    client, job = started(tmp_path, Emit([1, -3]), WaitForever())
    with pytest.raises(FiresteelError, match="negative"):
        client.wait()
    shown = rest.wait_for(f"{job}/execution-result", lambda each: each["status"]["id"] == "COMPLETED")
    result = shown["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert "negative: -3" in result["failure-cause"]["stack-trace"]
    assert rest.get("/overview")["jobs-failed"] == 1
    status, answer = rest.call("PATCH", job)
    assert (status, answer) == (409, {"errors": [f"job {client.get_job_id()} has ended before: FAILED"]})
    trigger = rest.call("POST", f"{job}/savepoints")[1]
    assert (
        "the job is over: FAILED"
        in rest.outcome(f"{job}/savepoints", trigger)["failure-cause"]["stack-trace"]
    )


def test_cancel_ends_a_job_and_says_so_again(rest: RestClient, tmp_path: Path) -> None:
    client, job = started(tmp_path, WaitForever())
    rest.wait_for(f"{job}/status", lambda each: each["status"] == "RUNNING")
    assert rest.call("PATCH", f"{job}?mode=stop")[0] == 308
    assert rest.call("PATCH", f"{job}?mode=cancel") == (202, {})
    rest.wait_for(f"{job}/status", lambda each: each["status"] == "CANCELED")
    result = rest.wait_for(f"{job}/execution-result", lambda each: each["status"]["id"] == "COMPLETED")
    assert result["job-execution-result"]["application-status"] == "CANCELED"
    assert rest.call("PATCH", job) == (202, {})
    assert client.is_over()


def test_savepoints_are_taken_deleted_and_end_jobs(rest: RestClient, tmp_path: Path) -> None:
    client, job = started(tmp_path, Emit([1, 2]), WaitForever())
    rest.wait_for(f"{job}/status", lambda each: each["status"] == "RUNNING")
    wanted = {"target-directory": str(tmp_path / "elsewhere"), "triggerId": "c" * 32}
    status, trigger = rest.call("POST", f"{job}/savepoints", wanted)
    assert (status, trigger) == (202, {"request-id": "c" * 32})
    location = rest.outcome(f"{job}/savepoints", trigger)["location"]
    assert Path(location).parent == tmp_path / "elsewhere"
    assert rest.call("POST", f"{job}/savepoints", wanted)[1] == trigger, "the same one, not another"
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1
    status, disposal = rest.call("POST", "/savepoint-disposal", {"savepoint-path": location})
    assert status == 200
    assert rest.outcome("/savepoint-disposal", disposal) == {}
    assert not Path(location).exists()
    nowhere = rest.call("POST", "/savepoint-disposal", {"savepoint-path": str(tmp_path / "nowhere")})[1]
    assert (
        "no checkpoint or savepoint"
        in rest.outcome("/savepoint-disposal", nowhere)["failure-cause"]["stack-trace"]
    )
    stop = rest.call("POST", f"{job}/stop", {"drain": True})[1]
    assert rest.outcome(f"{job}/savepoints", stop)["location"].startswith(str(tmp_path / "savepoints"))
    assert client.wait() is not None
    assert rest.get(f"{job}/status") == {"status": "FINISHED"}
    assert rest.get(f"{job}/checkpoints")["latest"]["savepoint"]["checkpoint_type"] == "SYNC_SAVEPOINT"


def test_a_checkpoint_can_be_asked_for_and_looked_at(rest: RestClient, tmp_path: Path) -> None:
    env = environment(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    client, job = started(tmp_path, Emit([1, 2]), WaitForever(), env=env)
    rest.wait_for(f"{job}/status", lambda each: each["status"] == "RUNNING")
    status, trigger = rest.call("POST", f"{job}/checkpoints", {"checkpointType": "FULL"})
    assert status == 202
    number = rest.outcome(f"{job}/checkpoints", trigger)["checkpointId"]
    shown = rest.get(f"{job}/checkpoints/details/{number}")
    assert (shown["status"], shown["num_acknowledged_subtasks"]) == ("COMPLETED", shown["num_subtasks"])
    vertex = rest.get(job)["vertices"][-1]["id"]
    subtasks = rest.get(f"{job}/checkpoints/details/{number}/subtasks/{vertex}")["subtasks"]
    assert [each["status"] for each in subtasks] == ["completed", "completed"]
    assert rest.get(f"{job}/checkpoints/config")["interval"] == 3_600_000
    run_to_end(client)


def test_what_cannot_be_done_is_refused_with_a_sentence(rest: RestClient, tmp_path: Path) -> None:
    configuration = Configuration.from_dict({"restart-strategy.type": "none"})
    env = simulated_environment(configuration=configuration)
    client, job = started(tmp_path, WaitForever(), env=env)
    rest.wait_for(f"{job}/status", lambda each: each["status"] == "RUNNING")
    refusals = [
        (("GET", f"/jobs/{NOBODY}", None), (404, "not one of this driver")),
        (("GET", "/jobs/xyz", None), (400, "32 hexadecimal digits")),
        (("GET", f"{job}/vertices/{NOBODY}", None), (404, "has no vertex")),
        (("GET", f"{job}/checkpoints/details/999", None), (404, "never was")),
        (("GET", f"{job}/savepoints/{NOBODY}", None), (404, "trigger id")),
        (("GET", "/nothing", None), (404, "openapi.json")),
        (("DELETE", "/jobs", None), (405, "allowed: ")),
        (("POST", f"{job}/savepoints", {}), (400, "execution.checkpointing.savepoint-dir")),
        (("POST", f"{job}/savepoints", {"formatType": "NATIVE"}), (501, "one format")),
        (("POST", f"{job}/checkpoints", {"checkpointType": "INCREMENTAL"}), (400, "have all of its state")),
        (("PATCH", f"{job}?mode=explode", None), (400, "cancel, stop")),
        (("GET", f"{job}/exceptions?maxExceptions=x", None), (400, "whole number")),
        (("PATCH", f"{job}/rescaling", None), (400, "'parallelism' is missing")),
        (("PATCH", f"{job}/rescaling?parallelism=0", None), (400, "at least 1, got 0")),
        (("PATCH", f"{job}/rescaling?parallelism=many", None), (400, "a whole number")),
        (("GET", f"{job}/rescaling/{NOBODY}", None), (404, "trigger id")),
        (("GET", f"{job}/rescales/details/{NOBODY}", None), (404, "has no rescale")),
        (("PUT", f"{job}/resource-requirements", {NOBODY: bounds(1, 2)}), (400, "has no vertex")),
        (("PUT", f"{job}/resource-requirements", {NOBODY: {"parallelism": 3}}), (400, "expected an object")),
        (("PUT", f"{job}/resource-requirements", {NOBODY: bounds(1, "x")}), (400, "a whole number")),
        (("GET", "/jars", None), (501, "firesteel run")),
        (("GET", "/taskmanagers/nobody", None), (404, "there is no executor")),
        (("GET", "/jobmanager/logs/..%2F..%2Fetc%2Fpasswd", None), (404, "")),
    ]
    for (method, path, body), (code, words) in refusals:
        status, answer = rest.call(method, path, body)
        assert (status, words in answer["errors"][0]) == (code, True), (method, path, status, answer)
    status, answer = rest.call("POST", f"{job}/savepoints", b" " * (2 << 20))
    assert status == 413
    trigger = rest.call("POST", f"{job}/checkpoints")[1]
    assert (
        "takes savepoints only" in rest.outcome(f"{job}/checkpoints", trigger)["failureCause"]["stack-trace"]
    )
    assert rest.get(f"{job}/status") == {"status": "RUNNING"}, "nothing of this harms the job"
    run_to_end(client)


def bounds(lower: Any, upper: Any) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


def test_a_job_is_rescaled_and_its_history_is_shown(rest: RestClient, tmp_path: Path) -> None:
    client, job = started(tmp_path, Emit([1, 2, 3, 4]), WaitForever())
    rest.wait_for(f"{job}/status", lambda each: each["status"] == "RUNNING")
    trigger = rest.call("PATCH", f"{job}/rescaling?parallelism=3")[1]
    assert rest.outcome(f"{job}/rescaling", trigger) == {}
    details = rest.get(job)
    assert [each["parallelism"] for each in details["vertices"]] == [3, 3]
    assert details["state"] == "RUNNING"
    assert details["slots"]["wanted"] == 6
    trigger = rest.call("PATCH", f"{job}/rescaling?parallelism=1000")[1]
    failure = rest.outcome(f"{job}/rescaling", trigger)["failure-cause"]
    assert "RescaleError" in failure["class"]
    assert "max parallelism 128" in failure["stack-trace"]
    last = details["vertices"][-1]["id"]
    assert rest.get(f"{job}/resource-requirements")[last] == bounds(3, 3)
    assert rest.call("PUT", f"{job}/resource-requirements", {last: bounds(1, 1)})[0] == 200
    rest.wait_for(f"{job}/rescales/overview", lambda each: each["rescalesCounts"]["completed"] == 2)
    assert [each["parallelism"] for each in rest.get(job)["vertices"]] == [3, 1]
    status, answer = rest.call("PUT", f"{job}/resource-requirements", {last: bounds(1, 500)})
    assert (status, "max parallelism 128" in answer["errors"][0]) == (409, True)
    status, answer = rest.call("PUT", f"{job}/resource-requirements", {last: bounds(3, 2)})
    assert (status, "lowerBound <= upperBound" in answer["errors"][0]) == (400, True)
    newest, first = rest.get(f"{job}/rescales/history")
    assert (first["triggerCause"], first["terminalState"]) == ("UPDATE_REQUIREMENT", "COMPLETED")
    assert newest["vertices"][last]["preRescaleParallelism"] == 3
    assert newest["vertices"][last]["postRescaleParallelism"] == 1
    assert rest.get(f"{job}/rescales/details/{newest['rescaleUuid']}") == newest
    assert rest.get(f"{job}/rescales/summary")["rescalesDurationStatsInMillis"]["max"] >= 0
    run_to_end(client)
    status, answer = rest.call("PUT", f"{job}/resource-requirements", {last: bounds(1, 2)})
    assert (status, "has ended" in answer["errors"][0]) == (409, True)


def test_pages_of_other_sites_have_no_say(rest: RestClient, tmp_path: Path) -> None:
    client, job = started(tmp_path, WaitForever())
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        status, answer = rest.call("PATCH", job, headers=headers)
        assert status == 403, answer
    assert not client.is_over()
    run_to_end(client)


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/proc/net/tcp").exists(),
    reason="only root can be another user; seen on Linux only",
)
@pytest.mark.parametrize(("user", "code"), [(65534, "403"), (0, "200")])
def test_other_users_of_the_machine_get_nothing(rest: RestClient, user: int, code: str) -> None:
    port = rest.url.rpartition(":")[2]
    ask = f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /jobs HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3; cat <&3"
    done = subprocess.run(["/bin/bash", "-c", ask], user=user, capture_output=True, text=True, cwd="/")
    # What a stranger reads depends on whether the end of the connection overtakes the sentence.
    assert done.stdout.split()[1:2] in ([[code]] if user == 0 else [[code], []]), done.stdout


def test_a_second_driver_takes_the_next_port_and_one_without_a_port_runs_its_jobs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = RestService(RestSettings(ports=(port, 0)))
        assert service.port != port
        service.close()
        with pytest.raises(SetupError, match="taken"):
            RestService(RestSettings(ports=(port,)))
        env = environment(tmp_path, **{"rest.port": str(port)})
        client, _ = started(tmp_path, Emit([1]), env=env)
        client.wait()
    assert client.rest_url == ""
    assert "there is no REST interface" in caplog.text


def test_simulated_jobs_open_no_port_unless_asked_to(tmp_path: Path) -> None:
    client, _ = started(tmp_path, Emit([1]))
    client.wait()
    assert client.rest_url == ""
    client, job = started(tmp_path, Emit([1]), env=environment(tmp_path, **{"rest.port": "0"}))
    client.wait()
    assert RestClient(client.rest_url).get(f"{job}/status") == {"status": "FINISHED"}


def test_of_many_jobs_only_the_newest_are_kept() -> None:
    service = RestService(RestSettings())
    service.jobs.kept = 3
    with launch.observe_jobs(service):
        for _ in range(5):
            env = simulated_environment()
            env.from_elements(1).print()
            env.execute()
    RestClient(service.url).wait_for("/jobs", lambda answer: len(answer["jobs"]) == 3)
    service.close()


def test_more_connections_than_allowed_are_turned_away_and_those_that_have_asked_stay() -> None:
    with Listener(socket.AF_INET, most=2) as listener, ExitStack() as opened:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        clients = [opened.enter_context(socket.create_connection(listener.getsockname())) for _ in range(4)]
        accepted = [opened.enter_context(listener.accept()[0]) for _ in range(2)]
        listener.has_asked(accepted[0].fileno())
        accepted.append(opened.enter_context(listener.accept()[0]))
        assert accepted[1].recv(1) == b"", "the one that has asked nothing makes room"
        for connection in (accepted[0], accepted[2]):
            listener.has_asked(connection.fileno())
        accepted[1].close()
        with pytest.raises(ConnectionAbortedError, match="2 connections"):
            listener.accept()
        assert clients[3].recv(12) == b"HTTP/1.1 503"
        accepted[0].sendall(b"x")
        assert clients[0].recv(1) == b"x"
