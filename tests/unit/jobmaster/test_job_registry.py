"""Jobs are found by other processes while they run, answer only to who knows the secret, and leave nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import CheckpointError, JobExecutionError
from firesteel.common.job_client import JobClient
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.remote.endpoint import JobEndpoint
from firesteel.jobmaster.remote.history import KEPT_JOBS, LOST, ended_jobs, history_file, remember
from firesteel.jobmaster.remote.registered_jobs import RegisteredJobs
from firesteel.jobmaster.remote.registry import entries, register, registry_directory, unregister
from firesteel.jobmaster.remote.running_job import (
    DriverGoneError,
    NotAnsweringError,
    RunningJob,
    running_jobs,
)
from firesteel_support import threads


class ScriptedJob(JobClient):
    """A job that does what is asked at once, unless a test completes its futures."""

    def __init__(self) -> None:
        self.job_id = JobID()
        self.status = JobStatus.RUNNING
        self.asked: list[tuple[Any, ...]] = []
        self.answer = CompletableFuture.completed("/savepoints/one")

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_job_name(self) -> str:
        return "scripted"

    def why_ended(self, status: JobStatus) -> str:
        return "for no reason\nat all"

    def get_job_status(self) -> CompletableFuture:
        return CompletableFuture.completed(self.status)

    def cancel(self) -> CompletableFuture:
        self.status = JobStatus.CANCELED
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        self.asked.append(("stop", advance_to_end_of_event_time, savepoint_directory))
        return self.answer

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        self.asked.append(("savepoint", savepoint_directory))
        return self.answer

    def get_accumulators(self) -> CompletableFuture:
        raise AssertionError("nobody asks for accumulators")

    def get_job_execution_result(self) -> CompletableFuture:
        raise AssertionError("nobody asks for the result")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRESTEEL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def start() -> Iterator[Callable[[ScriptedJob], RunningJob]]:
    endpoints = []

    def started(job: ScriptedJob) -> RunningJob:
        endpoints.append(JobEndpoint(job, "scripted"))
        return RunningJob(endpoints[-1].entry)

    yield started
    for endpoint in endpoints:
        endpoint.close()


Start = Callable[[ScriptedJob], RunningJob]


def test_a_running_job_is_listed_with_its_state(start: Start) -> None:
    job = ScriptedJob()
    start(job)
    ((found, status),) = running_jobs()
    assert (found.entry.job_id, found.entry.name, status) == (str(job.job_id), "scripted", "RUNNING")


def test_only_the_owner_can_read_the_file(start: Start, home: Path) -> None:
    job = start(ScriptedJob())
    path = home / "jobs" / f"{job.entry.job_id}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_savepoint_and_stop_reach_the_job_and_give_the_path(start: Start) -> None:
    job = ScriptedJob()
    running = start(job)
    assert running.savepoint("/data") == "/savepoints/one"
    assert running.stop(drain=True, directory=None) == "/savepoints/one"
    assert job.asked == [("savepoint", "/data"), ("stop", True, None)]


def test_cancel_tells_how_the_job_ended(start: Start) -> None:
    assert start(ScriptedJob()).cancel() == "CANCELED"


def test_an_error_reaches_who_asked(start: Start) -> None:
    job = ScriptedJob()
    job.answer = CompletableFuture.failed(CheckpointError("the disk is full"))
    running = start(job)
    with pytest.raises(JobExecutionError, match="the disk is full"):
        running.savepoint(None)
    assert running.status() == "RUNNING"


def test_a_wrong_secret_gets_no_answer(start: Start) -> None:
    job = ScriptedJob()
    wrong = RunningJob(replace(start(job).entry, secret="00" * 32))
    with pytest.raises(DriverGoneError):
        wrong.savepoint(None)
    assert job.asked == []


def test_a_connection_that_says_nothing_does_not_block_others(start: Start) -> None:
    running = start(ScriptedJob())
    with socket.create_connection(("127.0.0.1", running.entry.port)):
        assert running.status() == "RUNNING"


def test_a_closed_job_is_not_listed_any_more() -> None:
    endpoint = JobEndpoint(ScriptedJob(), "scripted")
    endpoint.close()
    assert running_jobs() == []
    assert list(registry_directory().iterdir()) == []
    with pytest.raises(DriverGoneError, match="has ended"):
        RunningJob(endpoint.entry).status()


def test_who_waits_for_an_answer_gets_it_when_the_job_ends_meanwhile() -> None:
    job = ScriptedJob()
    job.answer = CompletableFuture()
    asked = threading.Event()
    job.asked = _Noticed(asked)
    endpoint = JobEndpoint(job, "scripted")
    answers: list[str] = []
    waiting = threading.Thread(target=lambda: answers.append(RunningJob(endpoint.entry).stop(False, None)))
    waiting.start()
    asked.wait(300)
    endpoint.withdraw()
    assert running_jobs() == []
    job.answer.complete("/savepoints/last")
    endpoint.close()
    waiting.join(300)
    assert answers == ["/savepoints/last"]


def test_a_driver_that_ends_without_an_answer_is_an_error() -> None:
    job = ScriptedJob()
    job.answer = CompletableFuture()
    asked = threading.Event()
    job.asked = _Noticed(asked)
    endpoint = JobEndpoint(job, "scripted")
    closing = threading.Thread(target=lambda: asked.wait(300) and endpoint.close(linger_seconds=0))
    closing.start()
    with pytest.raises(NotAnsweringError, match="ended before it had answered"):
        RunningJob(endpoint.entry).savepoint(None)
    closing.join(300)
    job.answer.complete("")


class _Noticed(list[tuple[Any, ...]]):
    def __init__(self, event: threading.Event) -> None:
        super().__init__()
        self._event = event

    def append(self, item: tuple[Any, ...]) -> None:
        super().append(item)
        self._event.set()


def test_files_of_dead_drivers_are_removed(start: Start) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    alive = start(ScriptedJob()).entry
    register(replace(alive, job_id="0" * 32, pid=dead.pid))
    assert entries() == [alive]
    assert [path.stem for path in registry_directory().glob("*.json")] == [alive.job_id]
    entries()
    (lost,) = ended_jobs()
    assert (lost.job_id, lost.status, lost.started) == ("0" * 32, LOST, alive.started)
    assert lost.reason == f"its process, {dead.pid}, has ended without a word"


def test_a_process_that_has_the_pid_of_a_dead_driver_is_no_job() -> None:
    endpoint = JobEndpoint(ScriptedJob(), "scripted")
    endpoint.close()
    register(endpoint.entry)  # the pid, which is ours, is alive
    assert running_jobs() == []
    assert list(registry_directory().glob("*.json")) == []


def test_jobs_of_another_machine_are_left_alone(start: Start) -> None:
    entry = start(ScriptedJob()).entry
    register(replace(entry, job_id="0" * 32, machine="elsewhere", pid=2**22 + 1))
    assert entries() == [entry]
    assert (registry_directory() / f"{'0' * 32}.json").exists()


def test_an_old_driver_does_not_remove_the_entry_of_its_successor(start: Start) -> None:
    successor = start(ScriptedJob()).entry
    unregister(replace(successor, secret="ff"))
    assert entries() == [successor]


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"job_id": 1})])
def test_a_damaged_file_is_ignored(content: str) -> None:
    registry_directory().mkdir()
    (registry_directory() / "x.json").write_text(content)
    assert entries() == []


class Over:
    """What an observer is told of a job."""

    def __init__(self, job: ScriptedJob) -> None:
        self.job_id = job.job_id


def test_a_thousand_jobs_of_a_program_leave_no_socket_and_no_thread() -> None:
    def open_things() -> tuple[int, int]:
        return len(os.listdir("/dev/fd")), threading.active_count()

    registered = RegisteredJobs()
    before = open_things()
    for _ in range(1000):
        job = ScriptedJob()
        registered.job_submitted(job)  # type: ignore[arg-type]
        registered.status_changed(Over(job), JobStatus.FINISHED)  # type: ignore[arg-type]
    for thread in threading.enumerate():
        if thread.name.startswith("firesteel-job"):
            threads.join(thread, 300)
    assert open_things() == before
    registered.close()
    assert list(registry_directory().iterdir()) == []
    remembered = ended_jobs()
    assert len(remembered) == KEPT_JOBS
    assert {(job.name, job.status, job.reason) for job in remembered} == {
        ("scripted", "FINISHED", "for no reason")
    }
    assert remembered[-1].job_id == str(job.job_id)
    assert len(history_file().read_bytes().splitlines()) < 2 * KEPT_JOBS
    assert history_file().stat().st_mode & 0o777 == 0o600


def test_old_jobs_and_damaged_lines_are_not_remembered(start: Start) -> None:
    entry = start(ScriptedJob()).entry
    remember(entry, "FINISHED")
    (line,) = history_file().read_bytes().splitlines()
    old = json.loads(line) | {"ended": 5, "name": "old"}
    history_file().write_bytes(
        json.dumps(old).encode() + b'\n{"job_id": 1}\n[]\nhalf a li' + b"\n" + line + b"\n"
    )
    (job,) = ended_jobs()
    assert (job.name, job.status, job.reason, job.job_id) == ("scripted", "FINISHED", "", entry.job_id)
    for _ in range(2 * KEPT_JOBS):
        remember(entry, "FAILED", "why " * 1000)
    assert b"half" not in history_file().read_bytes()
    assert len(ended_jobs()[-1].reason) == 300


def test_somebody_who_holds_the_history_does_not_hold_up_the_end_of_a_job(start: Start) -> None:
    entry = start(ScriptedJob()).entry
    remember(entry, "FINISHED")
    with history_file().open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remember(entry, "FAILED", "nevertheless")
    assert [job.status for job in ended_jobs()] == ["FINISHED", "FAILED"]


def test_an_end_that_somebody_asked_for_says_so() -> None:
    job = ScriptedJob()
    registered = RegisteredJobs()
    registered.job_submitted(job)  # type: ignore[arg-type]
    (entry,) = entries()
    RunningJob(entry).stop(False, None)
    registered.status_changed(Over(job), JobStatus.FINISHED)  # type: ignore[arg-type]
    registered.close()
    assert [(each.status, each.reason) for each in ended_jobs()] == [("FINISHED", "stopped with a savepoint")]


def test_a_request_that_is_under_way_when_its_job_ends_is_answered() -> None:
    job = ScriptedJob()
    job.answer = CompletableFuture()
    asked = threading.Event()
    job.asked = _Noticed(asked)
    registered = RegisteredJobs()
    registered.job_submitted(job)  # type: ignore[arg-type]
    (entry,) = entries()
    answers: list[str] = []
    waiting = threading.Thread(target=lambda: answers.append(RunningJob(entry).stop(False, None)))
    waiting.start()
    asked.wait(300)
    registered.status_changed(Over(job), JobStatus.FINISHED)  # type: ignore[arg-type]
    assert entries() == []
    job.answer.complete("/savepoints/last")
    waiting.join(300)
    assert answers == ["/savepoints/last"]
    registered.close()
