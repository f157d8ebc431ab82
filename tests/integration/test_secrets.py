"""A secret in every place where users can put one, and a look at everything that others can see."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import PROGRAMS, Driver, processes, until

from firesteel.rest.paths import ENDPOINTS
from firesteel_support.rest_client import RestClient

Start = Callable[..., Driver]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK_PAGES = ("/jobs/", "/stages/", "/storage/", "/environment/", "/executors/", "/SQL/")
#: Options with the secret as their value, as words of the command.
GIVEN = (
    "s3.secret-key",
    "my.db.password",
    "properties.sasl.jaas.config",
    "spark.hadoop.fs.s3a.access.key",
    "spark.my.token",
    "spark.executorEnv.MY_SECRET",
    "marked.by.the-user",
)


def test_a_secret_is_nowhere_to_be_seen(driver: Start, tmp_path: Path) -> None:
    secret = f"hunter2-{uuid.uuid4().hex}"
    told, log = tmp_path / "told", tmp_path / "run.log"
    options = {
        **dict.fromkeys(GIVEN, secret),
        "firesteel.redaction.keys": "marked.by",
        "some.address": f"https://me:{secret}@example.org/",
        "pipeline.global-job-parameters": f"other.password:{secret},other.name:shown",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "rest.port": "0",
        "restart-strategy.type": "none",
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
    }
    given = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    program = [str(PROGRAMS / "with_secrets.py"), secret[::-1], str(told)]
    run = driver(
        "-m", "firesteel.cli.main", "run", "--log-file", str(log), *given, *program, MY_OWN_SECRET=secret
    )
    until(lambda: told.exists() or run.popen.poll() is not None, "both jobs were started")
    assert told.exists(), log.read_text()
    where = json.loads(told.read_text())
    rest = RestClient(where["rest"])
    rest.wait_for(f"/jobs/{where['job']}/checkpoints", lambda each: each["counts"]["completed"] > 0)
    trigger = rest.call("POST", f"/jobs/{where['job']}/savepoints")[1]
    rest.outcome(f"/jobs/{where['job']}/savepoints", trigger)

    seen = dict(_answers(rest))
    seen |= dict(_pages(where))
    seen |= {f"process {each.pid}": each.command for each in processes().values()}
    saved = [
        path
        for name in ("checkpoints", "savepoints")
        for path in (tmp_path / name).rglob("*")
        if path.is_file()
    ]
    seen |= {str(path): path.read_bytes().decode("latin-1") for path in saved}
    run.kill_family()
    seen |= {"log": log.read_text(), "stdout": run.stdout(), "stderr": run.stderr()}
    notes = [path for path in (run.directory / "home").rglob("*") if path.is_file()]
    seen |= {str(path): path.read_bytes().decode("latin-1") for path in notes}

    assert [place for place, text in seen.items() if secret in text] == []
    config = seen["/jobmanager/config"]
    assert all(key in config for key in GIVEN), "their names may be seen"
    assert "failed" in seen["log"]
    settings = seen[f"/api/v1/applications/{where['app']}/environment"]
    assert "spark.my.token" in settings, "Spark shows settings, and hides this one"
    assert len(saved) > 2


def _answers(rest: RestClient) -> Iterator[tuple[str, str]]:
    """All that the REST interface tells of every job, vertex, subtask and checkpoint."""
    for job in rest.get("/jobs/overview")["jobs"]:
        vertices = rest.get(f"/jobs/{job['jid']}")["vertices"]
        history = rest.get(f"/jobs/{job['jid']}/checkpoints")["history"]
        values = {
            "jobid": job["jid"],
            "vertexid": vertices[0]["id"],
            "subtaskindex": 0,
            "attempt": 0,
            "checkpointid": history[0]["id"] if history else 1,
            "taskmanagerid": rest.get("/taskmanagers")["taskmanagers"][0]["id"],
            "logname": "run.log",
        }
        for endpoint in ENDPOINTS:
            if endpoint.method == "GET" and all(each.name in values for each in endpoint.parameters):
                path = endpoint.path.format_map(values)
                yield path, json.dumps(rest.call("GET", path)[1])


def _pages(where: dict[str, str]) -> Iterator[tuple[str, str]]:
    application = f"/api/v1/applications/{where['app']}"
    for path in (
        *SPARK_PAGES,
        f"{application}/environment",
        f"{application}/jobs",
        f"{application}/sql",
        "/jobs/job/?id=0",
    ):
        try:
            with urllib.request.urlopen(where["spark"] + path, timeout=120) as response:
                yield path, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                yield path, error.read().decode()
