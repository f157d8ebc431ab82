"""The REST interface of a driver, driven by schemathesis from the description that it offers of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis

from firesteel import launch
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel_support.rest_client import RestClient
from firesteel_support.rest_schema import drive


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rest")


@pytest.fixture(scope="module")
def job(directory: Path) -> Iterator[MasterJobClient]:
    """A job with checkpoints, shown by a service."""
    service = RestService(RestSettings())
    options = {"execution.checkpointing.interval": "50 ms", "execution.checkpointing.dir": str(directory)}
    with launch.observe_jobs(service):
        env = simulated_environment(parallelism=2, configuration=Configuration.from_dict(options))
        script = [Emit([1, 2, 3]), WaitForever()]
        source = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "Numbers")
        source.key_by(lambda value: value).map(lambda value: value + 1).print()
        client = env.execute_async("driven")
        assert isinstance(client, MasterJobClient)
        yield client
        client.cancel().result()
    service.close(linger_seconds=0)


def ends_the_job(case: schemathesis.Case) -> bool:
    return case.method == "PATCH" or case.path.endswith("/stop")


def test_answers_conform_to_the_description_whatever_is_asked(job: MasterJobClient, directory: Path) -> None:
    rest = RestClient(job.rest_url)
    details = rest.wait_for(f"/jobs/{job.get_job_id()}", lambda each: each["state"] == "RUNNING")
    real = {
        "jobid": str(job.get_job_id()),
        "vertexid": details["vertices"][0]["id"],
        "taskmanagerid": rest.get("/taskmanagers")["taskmanagers"][0]["id"],
        "subtaskindex": 0,
        "attempt": 0,
        "checkpointid": 1,
    }
    assert drive(job.rest_url, real, ends_the_job, directory) > 70
    assert rest.get(f"/jobs/{job.get_job_id()}/status") == {"status": "RUNNING"}, (
        "nothing of this harms the job"
    )
