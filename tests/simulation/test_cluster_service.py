"""A cluster service over HTTP: programs are uploaded, run, watched, cancelled and survive; their jobs are simulated."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from firesteel.cli.main import main
from firesteel.rest.settings import RestSettings
from firesteel.service.folder import ServiceFolder
from firesteel.service.history_server import HistoryServer
from firesteel.service.processes import end_driver, is_alive
from firesteel_support.cluster_service import ServiceClient, cluster_service, form, zipped
from firesteel_support.rest_client import RestClient, check_shape

#: Counts what it is given; with "for ever" it does not end by itself. What it counts goes to a file, as a line each.
PROGRAM = textwrap.dedent(
    """
    import sys
    from firesteel.common import WatermarkStrategy
    from firesteel.datastream import StreamExecutionEnvironment
    from firesteel.testing import Emit, ScriptedSource, WaitForever

    name = sys.argv[1] if len(sys.argv) > 1 else "counting"
    kind = sys.argv[2] if len(sys.argv) > 2 else "once"
    print("the program begins", flush=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    script = [Emit([1, 2, 3]), *([WaitForever()] if kind == "for-ever" else [])]
    source = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "Numbers")
    source.key_by(lambda number: number % 2).reduce(lambda one, other: one + other).print()
    env.execute(name)
    """
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service") / "cluster"


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[ServiceClient]:
    with cluster_service(folder, {"firesteel.cluster.slots": "8", "parallelism.default": "1"}) as client:
        yield client
    end_drivers(folder)


def end_drivers(folder: Path) -> None:
    for job in ServiceFolder(folder).all_jobs():
        report = job.report()
        if report is not None:
            end_driver(report.process, by_force=True)


@pytest.fixture(scope="module")
def jar(service: ServiceClient) -> str:
    return service.upload("counting.py", PROGRAM)


def test_a_program_is_uploaded_run_and_stays_visible_when_it_has_ended(
    service: ServiceClient, jar: str
) -> None:
    assert jar in [each["id"] for each in service.get("/jars")["files"]]
    check_shape(service.get("/jars"), "Jars")
    body = {"programArgsList": ["first", "once"], "parallelism": 2}
    status, started = service.call("POST", f"/jars/{jar}/run", body)
    assert status == 200, started
    check_shape(started, "JarRun")
    job = started["jobid"]
    assert started["applicationId"] == job, "a program is an application, and has the id of its first job"
    details = service.await_state(job, "FINISHED")
    assert details["name"] == "first"
    assert [vertex["parallelism"] for vertex in details["vertices"]] == [2, 2]
    # Its driver ends soon, and everything is answered as before.
    service.wait_for("/taskmanagers", lambda answer: answer["taskmanagers"] == [])
    assert service.get(f"/jobs/{job}")["vertices"] == details["vertices"]
    result = service.get(f"/jobs/{job}/execution-result")
    assert result["job-execution-result"]["application-status"] == "SUCCEEDED"
    assert "the program begins" in service.get(f"/jobs/{job}/jobmanager/log")
    check_shape(service.get("/jobs/overview"), "JobsOverview")
    check_shape(service.get("/overview"), "ClusterOverview")
    vertex = details["vertices"][-1]["id"]
    (read,) = service.get(f"/jobs/{job}/vertices/{vertex}/subtasks/metrics?get=numRecordsIn&agg=sum")
    assert read == {"id": "numRecordsIn", "sum": 3.0}


def test_jobs_run_side_by_side_and_are_ended_by_their_ids(
    service: ServiceClient, jar: str, tmp_path: Path
) -> None:
    jobs = [service.run(jar, f"side {number}", "for-ever") for number in (1, 2)]
    for job in jobs:
        service.await_state(job, "RUNNING")
    overview = service.get("/overview")
    assert (overview["slots-total"], overview["jobs-running"]) == (8, 2)
    assert overview["slots-available"] == 8 - 2 * 2, "two stages with a task each"
    assert {line["name"] for line in service.get("/jobs/overview")["jobs"]} >= {"side 1", "side 2"}
    check_shape(service.get("/taskmanagers"), "TaskManagers")
    host = service.get("/taskmanagers")["taskmanagers"][0]["id"]
    check_shape(service.get(f"/taskmanagers/{host}"), "TaskManager")
    # A stop is still answered when the job, and with it the driver, is gone.
    status, trigger = service.call("POST", f"/jobs/{jobs[0]}/stop", {"targetDirectory": str(tmp_path)})
    assert status == 202, trigger
    done = service.outcome(f"/jobs/{jobs[0]}/savepoints", trigger)
    assert str(tmp_path) in done["location"]
    service.await_state(jobs[0], "FINISHED")
    assert service.get(f"/jobs/{jobs[1]}/status") == {"status": "RUNNING"}
    assert service.call("PATCH", f"/jobs/{jobs[1]}")[0] == 202
    service.await_state(jobs[1], "CANCELED")
    service.wait_for("/overview", lambda answer: answer["slots-available"] == 8)
    # One job goes on from the savepoint.
    again = service.run(jar, "side 1", "for-ever", savepointPath=done["location"])
    service.await_state(again, "RUNNING")
    restored = service.get(f"/jobs/{again}/checkpoints")["latest"]["restored"]
    assert restored["external_path"].endswith(done["location"].rpartition("/")[2])
    service.call("PATCH", f"/jobs/{again}")
    service.await_state(again, "CANCELED")


def test_a_job_that_does_not_fit_waits_and_is_seen_waiting(service: ServiceClient, jar: str) -> None:
    large = service.run(jar, "large", "for-ever", parallelism=3)
    service.await_state(large, "RUNNING")
    status, _ = service.call("POST", f"/jars/{jar}/run?parallelism=5", {})
    assert status == 400, "it would never fit"
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(service.run(jar, "waiting", "for-ever", parallelism=2))
    )
    asking.start()
    service.wait_for(
        "/jobs/overview",
        lambda answer: any(
            (line["name"], line["state"]) == ("waiting", "CREATED") for line in answer["jobs"]
        ),
    )
    (waiting,) = [line["jid"] for line in service.get("/jobs/overview")["jobs"] if line["name"] == "waiting"]
    check_shape(service.get(f"/jobs/{waiting}"), "JobDetails")
    assert service.call("POST", f"/jobs/{waiting}/savepoints", {"target-directory": "x"})[0] == 409
    assert service.call("PATCH", f"/jobs/{large}")[0] == 202
    asking.join(60)
    assert answers == [waiting]
    service.await_state(waiting, "RUNNING")
    service.call("PATCH", f"/jobs/{waiting}")
    service.await_state(waiting, "CANCELED")


def test_slots_follow_a_job_that_is_rescaled(service: ServiceClient, jar: str) -> None:
    # Of a script there is one reader, and one that has nothing to read is over: it could not be rescaled.
    one_reader = PROGRAM.replace('"Numbers")', '"Numbers").set_parallelism(1)')
    job = service.run(service.upload("rescaled.py", one_reader), "rescaled", "for-ever", parallelism=1)
    service.await_state(job, "RUNNING")

    def rescale(parallelism: int) -> Any:
        status, trigger = service.call("PATCH", f"/jobs/{job}/rescaling?parallelism={parallelism}")
        assert status == 200, trigger
        return service.outcome(f"/jobs/{job}/rescaling", trigger)

    def free() -> int:
        return int(service.get("/overview")["slots-available"])

    assert free() == 8 - 2
    assert rescale(3) == {}
    assert [vertex["parallelism"] for vertex in service.get(f"/jobs/{job}")["vertices"]] == [1, 3]
    assert free() == 8 - 4
    refused = rescale(8)
    assert "the job needs 9 and may have 8" in json.dumps(refused), refused
    service.wait_for("/overview", lambda answer: answer["slots-available"] == 8 - 4)
    # Another one has the rest: what it has is not there for this one.
    other = service.run(jar, "beside it", "for-ever", parallelism=1)
    service.await_state(other, "RUNNING")
    assert "the job needs 7 and may have 6" in json.dumps(rescale(6))
    assert rescale(1) == {}
    service.wait_for("/overview", lambda answer: answer["slots-available"] == 8 - 2 - 2)
    assert service.get(f"/jobs/{job}/status") == {"status": "RUNNING"}
    for each in (job, other):
        service.call("PATCH", f"/jobs/{each}")
        service.await_state(each, "CANCELED")


#: Starts and grows as soon as there are slots.
ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
}


def test_an_adaptive_job_runs_with_the_slots_that_are_free_and_grows_when_others_end(
    service: ServiceClient, jar: str
) -> None:
    two_steps = PROGRAM.replace('"Numbers")', '"Numbers").set_parallelism(1)').replace(
        ".print()", ".key_by(str).reduce(lambda one, other: one + other).print()"
    )
    program = service.upload("adaptive.py", two_steps)
    beside = service.run(jar, "beside it", "for-ever", parallelism=2)
    service.await_state(beside, "RUNNING")
    # It asks for 1 + 2 * 10 slots, more than there are at all, and makes do with 3, 5 or 7.
    job = service.run(program, "adaptive", "for-ever", parallelism=10, flinkConfiguration=ADAPTIVE)
    details = service.await_state(job, "RUNNING")
    assert [vertex["parallelism"] for vertex in details["vertices"]] == [1, 1, 1]
    # The fourth one is of no use to it, and others may have it.
    service.wait_for("/overview", lambda answer: answer["slots-available"] == 8 - 4 - 3)
    shown = service.wait_for(f"/jobs/{job}", lambda answer: answer["slots"]["used"] == 3)["slots"]
    assert shown["wanted"] == 21
    assert service.call("PATCH", f"/jobs/{beside}")[0] == 202
    service.wait_for(
        f"/jobs/{job}",
        lambda answer: [vertex["parallelism"] for vertex in answer["vertices"]] == [1, 3, 3],
    )
    service.await_state(job, "RUNNING")
    service.wait_for("/overview", lambda answer: answer["slots-available"] == 8 - 7)
    service.call("PATCH", f"/jobs/{job}")
    service.await_state(job, "CANCELED")


def test_executors_logs_and_threads_are_those_of_the_driver_that_has_them(
    service: ServiceClient, jar: str, folder: Path
) -> None:
    jobs = [service.run(jar, f"looked at {number}", "for-ever") for number in (1, 2)]
    for job in jobs:
        service.await_state(job, "RUNNING")
    answer = service.wait_for("/taskmanagers", lambda answer: len(answer["taskmanagers"]) == 2)
    check_shape(answer, "TaskManagers")
    names = [each["id"] for each in answer["taskmanagers"]]
    assert [name.rpartition("@")[2] for name in names] == [job[:8] for job in jobs], "each has its own"
    for name, job in zip(names, jobs, strict=True):
        path = f"/taskmanagers/{name}"
        details = service.get(path)
        check_shape(details, "TaskManager")
        assert {slot["jobId"] for slot in details["allocatedSlots"]} == {job}
        check_shape(service.get(f"{path}/logs"), "LogList")
        check_shape(service.get(f"{path}/thread-dump"), "ThreadDump")
        assert service.call("GET", f"{path}/log")[0] == 200
        assert service.call("GET", f"{path}/logs/nothing")[0] == 404
        (tasks,) = service.get(f"{path}/metrics?get=Status.Flink.Tasks")
        assert tasks["value"] == "2"
    (tasks,) = service.get("/taskmanagers/metrics?get=Status.Flink.Tasks&agg=sum")
    assert tasks["sum"] == 4.0
    # The job manager is the service with its drivers.
    files = {file["name"] for file in service.get("/jobmanager/logs")["logs"]}
    assert files >= {f"driver-{job}.log" for job in jobs}
    assert "the program begins" in service.get(f"/jobmanager/logs/driver-{jobs[0]}.log")
    assert service.call("GET", "/jobmanager/logs/driver-..log")[0] == 404
    threads = [each["threadName"] for each in service.get("/jobmanager/thread-dump")["threadInfos"]]
    for who in ("service", *(f"counting ({job})" for job in jobs)):
        assert any(name.startswith(f"{who}: ") for name in threads), (who, threads)
    for job in jobs:
        service.call("PATCH", f"/jobs/{job}")
        service.await_state(job, "CANCELED")
    status, answer = service.call("GET", f"/taskmanagers/{names[0]}")
    assert status == 404, answer
    check_shape(answer, "Errors")


TALK = """
import logging
log = logging.getLogger("firesteel.talking")
env.execute_async(name)
for number in range(3000):
    print(f"printed {number}", flush=True)
    log.info("logged %d: hunter-two", number)
"""


def test_the_log_of_a_driver_is_rolled_over_and_secrets_are_not_in_its_lines(
    service: ServiceClient, folder: Path
) -> None:
    talking = PROGRAM.replace("env.execute(name)", TALK)
    options = {
        "firesteel.logging.max-size": "20 kb",
        "env.log.max": "2",
        "firesteel.logging.format": "json",
        "table.password": "hunter-two",
    }
    job = service.run(
        service.upload("talking.py", talking), "talking", "for-ever", flinkConfiguration=options
    )
    names = [f"driver-{job}.log", f"driver-{job}.log.1"]
    service.wait_for(
        "/jobmanager/logs", lambda answer: {file["name"] for file in answer["logs"]} >= set(names)
    )
    followed, shown, deadline = "", 0, time.monotonic() + 60
    while "printed 2999" not in followed or "logged 2999" not in followed:
        part = service.get(f"/jobs/{job}/jobmanager/log?from={shown}")
        followed, shown = followed + part, shown + len(part.encode())
        assert time.monotonic() < deadline, followed[-1000:]
    service.wait_for(  # the last one was rolled over, too
        "/jobmanager/logs",
        lambda answer: all(file["size"] < 20 << 10 for file in answer["logs"] if file["name"] == names[0]),
    )
    text = "".join(service.get(f"/jobmanager/logs/{name}") for name in reversed(names))
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    told = [line["message"] for line in lines if line["logger"] == "firesteel.talking"]
    assert told
    assert all(line.startswith("logged ") and line.endswith(": ******") for line in told)
    assert len(list(ServiceFolder(folder).job(job).path.glob("driver.log.[0-9]*"))) <= 2
    service.call("PATCH", f"/jobs/{job}")
    service.await_state(job, "CANCELED")


def test_a_job_that_waits_can_be_cancelled(service: ServiceClient, jar: str) -> None:
    large = service.run(jar, "large", "for-ever", parallelism=4)
    service.await_state(large, "RUNNING")
    answers: list[Any] = []
    body = {"programArgsList": ["patient", "for-ever"], "parallelism": 1}
    asking = threading.Thread(target=lambda: answers.append(service.call("POST", f"/jars/{jar}/run", body)))
    asking.start()
    overview = service.wait_for(
        "/jobs/overview", lambda answer: any(line["name"] == "patient" for line in answer["jobs"])
    )
    (patient,) = [line["jid"] for line in overview["jobs"] if line["name"] == "patient"]
    assert service.call("PATCH", f"/jobs/{patient}")[0] == 202
    service.await_state(patient, "CANCELED")
    asking.join(60)
    assert not asking.is_alive()
    service.call("PATCH", f"/jobs/{large}")
    service.await_state(large, "CANCELED")


def test_a_program_that_fails_before_its_job_is_answered_with_what_it_says(service: ServiceClient) -> None:
    jar = service.upload("broken.py", "print('so far')\nraise ValueError('no such table')\n")
    status, answer = service.call("POST", f"/jars/{jar}/run", {})
    assert status == 400
    assert any("no such table" in sentence for sentence in answer["errors"]), answer
    failed = [line for line in service.get("/jobs/overview")["jobs"] if line["name"] == "broken"]
    assert [line["state"] for line in failed] == ["FAILED"]
    assert "no such table" in json.dumps(service.get(f"/jobs/{failed[0]['jid']}/exceptions"))


@pytest.mark.parametrize("field", ["claimMode", "restoreMode"])
def test_a_job_that_would_own_its_savepoint_is_refused_with_a_sentence(
    service: ServiceClient, jar: str, field: str
) -> None:
    status, answer = service.call("POST", f"/jars/{jar}/run", {field: "CLAIM"})
    assert status == 400
    refused = [sentence for sentence in answer["errors"] if "execution.state-recovery.claim-mode" in sentence]
    assert "it stays yours with NO_CLAIM, and you delete it" in refused[0], answer
    service.await_state(service.run(jar, "yours", "once", **{field: "NO_CLAIM"}), "FINISHED")


def test_the_plan_of_a_program_is_shown_without_running_it(service: ServiceClient, jar: str) -> None:
    before = len(service.get("/jobs")["jobs"])
    status, answer = service.call(
        "POST", f"/jars/{jar}/plan", {"parallelism": 3, "programArgsList": ["p", "once"]}
    )
    assert status == 200, answer
    check_shape(answer, "JobPlan")
    assert answer["plan"]["name"] == "p"
    assert {node["parallelism"] for node in answer["plan"]["nodes"]} == {3}
    assert len(service.get("/jobs")["jobs"]) == before


def test_a_program_travels_with_its_files(service: ServiceClient) -> None:
    program = "import helper, sys\nsys.argv[1:] = [helper.NAME, 'once']\n" + PROGRAM
    request = {
        "script": "job.py",
        "pythonFiles": ["libs.zip"],
        "arguments": ["x"],
        "options": {"parallelism.default": "1"},
    }
    files = {"job.py": program.encode(), "libs.zip": zipped({"helper.py": "NAME = 'from a file'"})}
    body, kind = form(request, files)
    status, answer = service.call("POST", "/jobs", body, {"Content-Type": kind})
    assert status == 202, answer
    assert service.await_state(answer["jobUrl"].rpartition("/")[2], "FINISHED")["name"] == "from a file"


def test_an_archive_runs_the_module_that_is_named(service: ServiceClient) -> None:
    jar = service.upload("app.zip", zipped({"app/__init__.py": "", "app/job.py": PROGRAM}))
    job = service.run(jar, "of an archive", "once", entryClass="app.job")
    assert service.await_state(job, "FINISHED")["name"] == "of an archive"


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", "/jars/upload", b"", 400),
        ("POST", "/jars/nothing/run", {}, 404),
        ("POST", "/jars/..%2f..%2fetc/run", {}, 404),
        ("DELETE", "/jars/nothing", None, 404),
        ("POST", "/jars/{jar}/run", {"parallelism": "many"}, 400),
        ("POST", "/jars/{jar}/run", {"parallelism": 0}, 400),
        ("POST", "/jars/{jar}/run", {"flinkConfiguration": {"a": 1}}, 400),
        ("POST", "/jars/{jar}/run", {"nonsense": 1}, 400),
        ("POST", "/jobs", b"", 400),
        ("GET", "/jobs/" + "0" * 32, None, 404),
        ("PATCH", "/jobs/" + "0" * 32, None, 404),
        ("GET", "/jobs/nonsense", None, 400),
        ("GET", "/taskmanagers/nobody", None, 404),
        ("POST", "/jobs/" + "0" * 32 + "/savepoints", {}, 404),
    ],
)
def test_bad_requests_get_a_sentence(
    service: ServiceClient, jar: str, method: str, path: str, body: Any, code: int
) -> None:
    status, answer = service.call(method, path.replace("{jar}", jar), body)
    assert status == code, answer
    check_shape(answer, "Errors")


def test_an_upload_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with cluster_service(tmp_path / "cluster", {"rest.server.max-content-length": "1000"}) as service:
        body, kind = form({}, {"job.py": b"x" * 2000})
        status, answer = service.call("POST", "/jars/upload", body, {"Content-Type": kind})
        assert status == 413, answer
        assert service.get("/jars")["files"] == []


def test_a_killed_driver_is_started_again_and_goes_on_from_its_newest_checkpoint(
    service: ServiceClient, jar: str, folder: Path, tmp_path: Path
) -> None:
    job = service.run(jar, "survivor", "for-ever", flinkConfiguration=checkpointing(tmp_path))
    service.wait_for(f"/jobs/{job}/checkpoints", lambda answer: answer["counts"]["completed"] > 0)
    report = ServiceFolder(folder).job(job).report()
    assert report is not None
    os.kill(report.process.pid, signal.SIGKILL)
    answer = _wait_for_restored(service, job)
    assert answer["latest"]["restored"]["id"] >= 1
    service.call("PATCH", f"/jobs/{job}")
    service.await_state(job, "CANCELED")


def test_a_killed_driver_without_checkpoints_is_the_end_of_its_job(
    service: ServiceClient, jar: str, folder: Path
) -> None:
    job = service.run(jar, "mortal", "for-ever")
    service.await_state(job, "RUNNING")
    report = ServiceFolder(folder).job(job).report()
    assert report is not None
    os.kill(report.process.pid, signal.SIGKILL)
    service.await_state(job, "FAILED")
    assert "no checkpoints in a directory" in json.dumps(service.get(f"/jobs/{job}/exceptions"))


def checkpointing(directory: Path) -> dict[str, str]:
    return {"execution.checkpointing.interval": "50 ms", "execution.checkpointing.dir": str(directory)}


def _wait_for_restored(service: RestClient, job: str) -> Any:
    def is_restored(answer: tuple[int, Any]) -> bool:
        status, content = answer
        return status == 200 and content["latest"]["restored"] is not None

    deadline = time.monotonic() + 120
    while True:
        answer = service.call("GET", f"/jobs/{job}/checkpoints")
        if is_restored(answer):
            return answer[1]
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)


def test_jobs_survive_a_restart_of_the_service(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with cluster_service(folder) as service:
        jar = service.upload("counting.py", PROGRAM)
        living = service.run(jar, "living", "for-ever")
        dying = service.run(
            jar, "dying", "for-ever", flinkConfiguration=checkpointing(tmp_path / "checkpoints")
        )
        service.await_state(living, "RUNNING")
        service.wait_for(f"/jobs/{dying}/checkpoints", lambda answer: answer["counts"]["completed"] > 0)
    reports = {job.id: job.report() for job in ServiceFolder(folder).all_jobs()}
    killed, kept = reports[dying], reports[living]
    assert killed is not None
    assert kept is not None
    assert is_alive(kept.process), "drivers do not need the service"
    os.kill(killed.process.pid, signal.SIGKILL)
    with cluster_service(folder) as service:
        service.await_state(living, "RUNNING")
        assert ServiceFolder(folder).job(living).report() == kept, "it was found, not started again"
        assert _wait_for_restored(service, dying)
        for job in (living, dying):
            service.call("PATCH", f"/jobs/{job}")
            service.await_state(job, "CANCELED")
        assert [each["id"] for each in service.get("/jars")["files"]] == [jar]


def test_a_folder_has_one_service(tmp_path: Path) -> None:
    with (
        cluster_service(tmp_path / "cluster") as service,
        pytest.raises(Exception, match=f"already, at {service.url}"),
        cluster_service(tmp_path / "cluster"),
    ):
        pass


def test_a_standby_service_takes_over(tmp_path: Path) -> None:
    options = {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(tmp_path / "shared"),
        "high-availability.filesystem.lease-timeout": "1 s",
    }
    took_over = threading.Event()
    done = threading.Event()
    seen: list[str] = []

    def stand_by(job: str) -> None:
        with cluster_service(tmp_path, options) as second:
            seen.append(second.await_state(job, "RUNNING")["name"])
            second.call("PATCH", f"/jobs/{job}")
            second.await_state(job, "CANCELED")
            took_over.set()
        done.set()

    with cluster_service(tmp_path, options) as first:
        jar = first.upload("counting.py", PROGRAM)
        job = first.run(jar, "led", "for-ever")
        first.await_state(job, "RUNNING")
        standby = threading.Thread(target=stand_by, args=(job,))
        standby.start()
        assert not took_over.is_set()
    assert done.wait(120)
    standby.join()
    assert seen == ["led"]


def test_the_history_server_shows_what_the_archive_has(
    service: ServiceClient, jar: str, folder: Path
) -> None:
    job = service.run(jar, "of the past", "once")
    details = service.await_state(job, "FINISHED")
    history = HistoryServer(RestSettings(), str(folder / "archive"), 0.02)
    try:
        past = RestClient(history.url)
        past.wait_for("/jobs/overview", lambda answer: any(line["jid"] == job for line in answer["jobs"]))
        assert past.get(f"/jobs/{job}")["vertices"] == details["vertices"]
        assert past.get("/config")["features"]["web-history"]
        check_shape(past.get("/overview"), "ClusterOverview")
        for method, path in (
            ("PATCH", f"/jobs/{job}"),
            ("GET", "/taskmanagers"),
            ("POST", f"/jobs/{job}/savepoints"),
        ):
            status, answer = past.call(method, path)
            assert status == 501
            check_shape(answer, "Errors")
        assert past.call("GET", f"/jobs/{'0' * 32}")[0] == 404
    finally:
        history.close()


def test_the_command_line_submits_and_follows(service: ServiceClient, tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text("import beside\n" + PROGRAM)
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "beside.py").write_text("")
    words = ["run", "-m", service.url, "-pyfs", str(tmp_path / "libs"), str(program), "by command", "once"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "the program begins" in done.output
    assert "has finished" in done.output
    program.write_text("raise ValueError('no such table')")
    failed = CliRunner().invoke(main, ["run", "-m", service.url, "-d", str(program)])
    assert failed.exit_code == 1
    assert "no such table" in failed.output
    nobody = CliRunner().invoke(main, ["run", "-m", "localhost:1", str(program)])
    assert "nothing listens at http://localhost:1" in nobody.output
    assert "'firesteel cluster start' starts a service" in nobody.output


def test_the_command_line_submits_to_a_service_that_asks_for_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, tokens, token_file = tmp_path / "job.py", tmp_path / "tokens", tmp_path / "token"
    program.write_text(PROGRAM)
    made = {
        role: CliRunner().invoke(main, ["token", str(tokens), "--role", role]).stdout.split()[0]
        for role in ("operator", "read-only")
    }
    token_file.write_text(made["operator"])
    token_file.chmod(0o600)
    options = {"firesteel.rest.tokens-file": str(tokens), "parallelism.default": "1"}
    with cluster_service(tmp_path / "cluster", options) as service:
        words = ["run", "-m", service.url]
        stranger = CliRunner().invoke(main, [*words, str(program)])
        assert (stranger.exit_code, "token" in stranger.output) == (1, True)
        monkeypatch.setenv("FIRESTEEL_REST_TOKEN", made["read-only"])
        reader = CliRunner().invoke(main, [*words, str(program)])
        assert (reader.exit_code, "is for the role operator" in reader.output) == (1, True)
        monkeypatch.delenv("FIRESTEEL_REST_TOKEN")
        option = f"firesteel.rest.token-file={token_file}"
        done = CliRunner().invoke(main, [*words, "-D", option, str(program), "let in", "once"])
        assert done.exit_code == 0, done.output
        assert "has finished" in done.output
