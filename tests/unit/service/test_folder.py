"""The folder of a service: everything comes back as it was written, for its owner only, with one writer each."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from firesteel.service.folder import JobFolder, ServiceFolder, read_json
from firesteel.service.processes import is_alive, mark_of
from firesteel.service.records import DriverReport, End, JobReport, Orders, ProcessMark, SubmittedProgram

ID = "ab" * 16


@pytest.fixture
def folder(tmp_path: Path) -> ServiceFolder:
    made = ServiceFolder(tmp_path / "cluster")
    made.prepare()
    return made


def submitted(folder: ServiceFolder, job_id: str = ID) -> JobFolder:
    with folder.new_job(job_id) as job:
        job.submit(
            SubmittedProgram(job_id, 1, "job", "job.py", None, ("a", "b"), {"parallelism.default": "2"})
        )
    return job


def test_what_is_written_comes_back(folder: ServiceFolder) -> None:
    job = submitted(folder)
    orders = Orders(2, 1, ProcessMark(7, "here", "then"), True, {ID: 3}, {"x": "too large"}, {ID: 2})
    report = DriverReport(ProcessMark(7, "here"), "http://localhost:1", (JobReport(ID, "job", 3, 5),), 1)
    end = End("FAILED", 9, "why")
    job.order(orders)
    job.write_report(report)
    assert (job.submission().arguments, job.orders(), job.report()) == (("a", "b"), orders, report)
    job.close(end)
    assert job.end() == end
    assert [each.id for each in folder.all_jobs()] == [ID]


def test_what_a_newer_version_has_added_is_passed_over(folder: ServiceFolder) -> None:
    assert Orders.from_json({"starts": 1, "priority": 3}) == Orders(1)


def test_everything_is_for_its_owner_only(folder: ServiceFolder) -> None:
    submitted(folder)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder.path, *folder.path.rglob("*")]}
    assert {path: mode for path, mode in modes.items() if mode & 0o077} == {}


def test_a_submission_that_could_not_be_written_down_was_none(folder: ServiceFolder) -> None:
    with pytest.raises(OSError, match="disk"), folder.new_job(ID):
        raise OSError("disk full")
    assert list(folder.all_jobs()) == []
    assert not folder.job(ID).path.exists()


def test_an_id_is_used_once(folder: ServiceFolder) -> None:
    submitted(folder)
    with pytest.raises(FileExistsError):
        submitted(folder)


def test_one_service_works_in_a_folder_and_one_driver_on_a_submission(folder: ServiceFolder) -> None:
    held = folder.lock()
    assert held is not None
    assert folder.lock() is None
    assert folder.is_held()
    os.close(held)
    assert not folder.is_held()
    job = submitted(folder)
    assert job.lock("one machine") is not None
    assert job.lock("one machine") is None
    assert job.lock("another machine") is not None, "it cannot know whether the first one lives"


def test_half_a_file_is_an_error_and_no_file_is_nothing(tmp_path: Path) -> None:
    assert read_json(tmp_path / "none") is None
    (tmp_path / "half").write_text('{"a": ')
    with pytest.raises(ValueError, match="Expecting value"):
        read_json(tmp_path / "half")


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        mark = mark_of(process.pid)
        assert is_alive(mark)
        assert not is_alive(ProcessMark(mark.pid, mark.machine, "another boot:1"))
        assert not is_alive(ProcessMark(mark.pid, "another machine", mark.since))
        process.kill()
        process.wait()
        assert not is_alive(mark)
