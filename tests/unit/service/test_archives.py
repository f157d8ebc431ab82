"""A job that has ended: the archive answers at every path as its driver did."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "rest"))  # for rest_sample

import rest_sample as sample

from firesteel.checkpoint.storage import open_storage
from firesteel.common.job_status import JobStatus
from firesteel.rest.archive import archive_of, write_archive
from firesteel.rest.endpoints import Call, Context
from firesteel.rest.errors import RestError
from firesteel.rest.metric_source import KeptMetrics
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.served_jobs import EndedJob, ServedJob
from firesteel.service.archives import ArchivedJobs
from firesteel.service.stand_ins import StandIn
from firesteel_support.rest_client import check_shape

JOB = "/jobs/{jobid}"


class OneJob:
    def __init__(self, job: ServedJob) -> None:
        self._job = job

    def all(self) -> list[ServedJob]:
        return [self._job]

    def find(self, job_id: str) -> ServedJob | None:
        return self._job if job_id == self._job.snapshot().job_id else None


def ended() -> EndedJob:
    snapshot = sample.finished()
    metrics = KeptMetrics(sample.outline(), sample.metric_registry(snapshot))
    return EndedJob(sample.outline(), snapshot, {}, metrics, ValueError("x"))


@pytest.fixture
def archive(tmp_path: Path) -> ArchivedJobs:
    write_archive(open_storage(str(tmp_path)), archive_of(sample.JOB_ID, ended()))
    jobs = ArchivedJobs(str(tmp_path))
    jobs.refresh()
    return jobs


def test_every_path_answers_as_it_did(archive: ArchivedJobs) -> None:
    job, kept = ended(), archive.find(sample.JOB_ID)
    assert kept is not None
    compared = 0
    vertices = sample.outline().vertices
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" or not endpoint.path.startswith(JOB) or "triggerid" in endpoint.path:
            continue
        path: dict[str, Any] = {
            "jobid": sample.JOB_ID,
            "vertexid": vertices[-1].id,
            "subtaskindex": 1,
            "attempt": job.snapshot().attempt,
            "checkpointid": job.snapshot().statistics.checkpoints.history[-1].id,
        }
        asked = {name: value for name, value in path.items() if f"{{{name}}}" in endpoint.path}
        is_metrics = any(each.name == "get" for each in endpoint.query)
        try:
            expected = endpoint.answer(Call(Context(OneJob(job)), asked))
        except (RestError, KeyError):
            continue
        answer = kept.answer(endpoint.path.format(**asked), {})
        assert answer == json.loads(json.dumps(expected)), endpoint.path
        compared += 1
        if is_metrics and expected:
            wanted = {"get": [each["id"] for each in expected]}
            values = endpoint.answer(Call(Context(OneJob(job)), asked, wanted))
            assert kept.answer(endpoint.path.format(**asked), wanted) == values, endpoint.path
    assert compared > 25


def test_the_overview_has_a_line_for_it(archive: ArchivedJobs) -> None:
    (line,) = archive.lines()
    assert (line["jid"], line["state"]) == (sample.JOB_ID, "FINISHED")
    check_shape(line, "JobLine")


def test_a_file_that_cannot_be_read_is_passed_over(archive: ArchivedJobs, tmp_path: Path) -> None:
    (tmp_path / f"{'cd' * 16}.json").write_text("{")
    (tmp_path / f"{'ef' * 16}.json").write_text(json.dumps({"version": 99}))
    archive.refresh()
    assert [line["jid"] for line in archive.lines()] == [sample.JOB_ID]


def test_the_oldest_go_when_there_are_too_many(archive: ArchivedJobs) -> None:
    for number in (1, 2, 3):
        job = StandIn(f"{number:032x}", "job", JobStatus.CANCELED, 10**12 + number, 10**12 + number)
        archive.add(archive_of(job.id, job.served()))
    assert archive.keep_newest(2) == [sample.JOB_ID, f"{1:032x}"]
    assert [line["jid"] for line in archive.lines()] == [f"{2:032x}", f"{3:032x}"]
    assert archive.find(sample.JOB_ID) is None


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED])
def test_a_job_whose_driver_died_looks_like_others(status: JobStatus) -> None:
    job = StandIn("ab" * 16, "job", status, 1000, 2000, "its driver has died")
    found = archive_of(job.id, job.served())
    root = f"/jobs/{job.id}"
    check_shape(found["answers"][root], "JobDetails")
    check_shape(found["answers"][f"{root}/exceptions"], "Exceptions")
    check_shape(found["answers"][f"{root}/execution-result"], "ExecutionResult")
    assert found["answers"][f"{root}/status"] == {"status": status.name}
    told = json.dumps(found["answers"][f"{root}/exceptions"])
    assert ("its driver has died" in told) == (status is JobStatus.FAILED)
