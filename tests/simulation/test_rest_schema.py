"""The running service, driven by schemathesis from the description that it offers of itself.

Answers conform to their shapes and codes whatever is asked, and nothing but what is not there answers with a 5xx.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from firesteel import launch
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel_support.rest_client import RestClient

_CHECKED = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")


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
    schema = schemathesis.openapi.from_url(f"{job.rest_url}/v1/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 70
    checks = [CHECKS.get_one(name) for name in _CHECKED]
    for operation in operations:
        ask_well, ask_badly = operation.as_strategy(), _wrong(operation)

        @_FEW
        @given(case=ask_well, is_real=st.booleans())
        def ask(case: schemathesis.Case, is_real: bool) -> None:
            # What would end the job, or write wherever the dice say, is asked of jobs that are not there.
            ends = case.method == "PATCH" or case.path.endswith("/stop")
            if is_real and not ends:
                given_values = case.path_parameters
                case.path_parameters = {name: real.get(name, value) for name, value in given_values.items()}
            _tame(case, directory)
            response = case.call()
            case.validate_response(response, checks=checks)
            assert response.status_code < 500 or response.status_code == 501, response.text

        ask()
        if ask_badly is None:
            continue

        @_FEW
        @given(case=ask_badly)
        def ask_nonsense(case: schemathesis.Case) -> None:
            _tame(case, directory)
            response = case.call()
            assert response.status_code < 500 or response.status_code == 501, response.text

        ask_nonsense()
    assert rest.get(f"/jobs/{job.get_job_id()}/status") == {"status": "RUNNING"}, (
        "nothing of this harms the job"
    )


_FEW = settings(
    max_examples=3,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def _wrong(operation: schemathesis.APIOperation) -> Any:
    """Requests that do not fit; None where nothing can be wrong."""
    can_be = operation.body or "{jobid}" in operation.path or "{triggerid}" in operation.path
    return operation.as_strategy(generation_mode=GenerationMode.NEGATIVE) if can_be else None


def _tame(case: schemathesis.Case, directory: Path) -> None:
    if isinstance(case.body, dict):
        for name in ("target-directory", "targetDirectory", "savepoint-path"):
            if isinstance(case.body.get(name), str):
                case.body[name] = str(directory / "somewhere")
        case.body.pop("cancel-job", None)
        if isinstance(case.body.get("logger"), str):
            case.body["logger"] = "firesteel_test.schema"  # not a logger of this process
