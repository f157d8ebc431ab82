"""Jobs are found by other processes while they run, and leave nothing behind but how they ended."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.remote.history import KEPT_JOBS, LOST, ended_jobs, history_file, remember
from firesteel.jobmaster.remote.registered_jobs import RegisteredJobs
from firesteel.jobmaster.remote.registry import (
    Registration,
    RegistryEntry,
    entries,
    register,
    registry_directory,
)


class ScriptedJob:
    """What the registry asks of a job, and what observers are told of it."""

    def __init__(self) -> None:
        self.job_id = JobID()
        self.name = "scripted"
        self.rest_url = "http://localhost:8081"

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_job_name(self) -> str:
        return self.name

    def why_ended(self, status: JobStatus) -> str:
        return "for no reason\nat all"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRESTEEL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def registered() -> Iterator[RegisteredJobs]:
    jobs = RegisteredJobs()
    yield jobs
    jobs.close()


@pytest.fixture
def entry(registered: RegisteredJobs) -> RegistryEntry:
    submit(registered, ScriptedJob())
    (entry,) = entries()
    return entry


def submit(registered: RegisteredJobs, job: ScriptedJob) -> None:
    registered.job_submitted(cast(MasterJobClient, job))


def end(registered: RegisteredJobs, job: ScriptedJob, status: JobStatus = JobStatus.FINISHED) -> None:
    registered.status_changed(job, status)  # type: ignore[arg-type]


def left_behind(entry: RegistryEntry) -> None:
    """The file of a driver that has died."""
    registration: Registration = register(entry)
    registration._file.close()


def test_a_running_job_is_found_with_its_address(registered: RegisteredJobs) -> None:
    job = ScriptedJob()
    submit(registered, job)
    (found,) = entries()
    assert (found.job_id, found.name, found.pid, found.rest) == (
        str(job.job_id),
        "scripted",
        os.getpid(),
        "http://localhost:8081",
    )
    end(registered, job, JobStatus.RUNNING)
    assert entries() == [found]


def test_only_the_owner_can_read_the_file(entry: RegistryEntry, home: Path) -> None:
    path = home / "jobs" / f"{entry.job_id}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_job_that_is_over_is_not_found_any_more(registered: RegisteredJobs) -> None:
    job = ScriptedJob()
    submit(registered, job)
    end(registered, job)
    assert entries() == []
    assert list(registry_directory().iterdir()) == []
    (ended,) = ended_jobs()
    assert (ended.job_id, ended.status, ended.reason) == (str(job.job_id), "FINISHED", "for no reason")


def test_jobs_that_a_process_leaves_are_lost() -> None:
    registered = RegisteredJobs()
    submit(registered, ScriptedJob())
    registered.close()
    assert entries() == []
    assert [(each.status, each.reason) for each in ended_jobs()] == [
        (LOST, "its process has ended before it")
    ]


def test_files_of_dead_drivers_are_removed(entry: RegistryEntry) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    # Somebody holds its lock, as a child may do that the driver has forked: that does not count.
    held = register(replace(entry, job_id="0" * 32, pid=dead.pid))
    assert entries() == [entry]
    held.withdraw()
    assert [path.stem for path in registry_directory().glob("*.json")] == [entry.job_id]
    entries()
    (lost,) = ended_jobs()
    assert (lost.job_id, lost.status, lost.started) == ("0" * 32, LOST, entry.started)
    assert lost.reason == f"its process, {dead.pid}, has ended without a word"


def test_a_process_that_has_the_number_of_a_dead_driver_is_no_job(entry: RegistryEntry) -> None:
    left_behind(replace(entry, job_id="0" * 32))  # the number is ours, and alive
    assert entries() == [entry]
    assert [each.job_id for each in ended_jobs()] == ["0" * 32]


def test_a_lock_is_held_until_the_process_ends() -> None:
    program = (
        "import socket, os, sys\n"
        "from firesteel.jobmaster.remote.registry import RegistryEntry, register\n"
        "kept = register(RegistryEntry('ab' * 16, 'other', os.getpid(), socket.gethostname(), 1))\n"
        "print('registered', flush=True)\n"
        "sys.stdin.read()\n"
        "os._exit(0)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "registered\n"
    assert [each.name for each in entries()] == ["other"]
    other.communicate("")
    assert entries() == []
    assert [each.status for each in ended_jobs()] == [LOST]


def test_a_file_system_without_locks_leaves_the_number_of_the_process(
    entry: RegistryEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    left_behind(replace(entry, job_id="0" * 32, started=0))
    assert [each.job_id for each in entries()] == ["0" * 32, entry.job_id]


def test_jobs_of_another_machine_are_left_alone(entry: RegistryEntry) -> None:
    left_behind(replace(entry, job_id="0" * 32, machine="elsewhere", pid=2**22 + 1))
    assert entries() == [entry]
    assert (registry_directory() / f"{'0' * 32}.json").exists()


def test_an_old_driver_does_not_remove_the_entry_of_its_successor(entry: RegistryEntry) -> None:
    successor = register(replace(entry, started=entry.started + 1))
    Registration(entry, open(os.devnull)).withdraw()  # noqa: SIM115 - withdrawing closes it
    assert entries() == [successor.entry]
    successor.withdraw()


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"job_id": 1})])
def test_a_damaged_file_is_ignored(content: str) -> None:
    registry_directory().mkdir()
    (registry_directory() / "x.json").write_text(content)
    assert entries() == []


def test_a_thousand_jobs_of_a_program_leave_no_file_and_no_thread(registered: RegisteredJobs) -> None:
    def open_things() -> tuple[int, int]:
        return len(os.listdir("/dev/fd")), threading.active_count()

    before = open_things()
    for _ in range(1000):
        job = ScriptedJob()
        submit(registered, job)
        end(registered, job)
    assert open_things() == before
    assert list(registry_directory().iterdir()) == []
    remembered = ended_jobs()
    assert len(remembered) == KEPT_JOBS
    assert {(job.name, job.status, job.reason) for job in remembered} == {
        ("scripted", "FINISHED", "for no reason")
    }
    assert remembered[-1].job_id == str(job.job_id)
    assert len(history_file().read_bytes().splitlines()) < 2 * KEPT_JOBS
    assert history_file().stat().st_mode & 0o777 == 0o600


def test_old_jobs_and_damaged_lines_are_not_remembered(entry: RegistryEntry) -> None:
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


def test_somebody_who_holds_the_history_does_not_hold_up_the_end_of_a_job(entry: RegistryEntry) -> None:
    remember(entry, "FINISHED")
    with history_file().open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remember(entry, "FAILED", "nevertheless")
    assert [job.status for job in ended_jobs()] == ["FINISHED", "FAILED"]
