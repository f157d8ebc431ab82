"""Looking into a job on Spark while it runs: flame graph, threads, executors, logs by executor, levels that are changed."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment

from firesteel.datastream.functions import MapFunction
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.logs.levels import levels, set_levels
from firesteel.logs.log_book import LOGS
from firesteel_support.rest_client import RestClient, check_shape

pytestmark = pytest.mark.spark

log = logging.getLogger("looking.inside")


class Busy(MapFunction):
    """Computes, tells of every record at DEBUG, and ends when a file is there."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    def open(self, runtime_context: Any) -> None:
        log.info("opened")
        print("printed")

    def map(self, value: int) -> int:
        log.debug("value %d", value)
        return value if self._gate.exists() else self.compute(value)

    def compute(self, value: int) -> int:
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            value += sum(range(100)) % 2
        return value


@pytest.fixture(autouse=True)
def logging_stays() -> Iterator[None]:
    before = levels()
    yield
    LOGS.close()
    set_levels(before)


def frames(node: dict[str, Any]) -> Iterator[str]:
    yield node["name"]
    for child in node["children"]:
        yield from frames(child)


def has_threads(dump: dict[str, Any], text: str) -> bool:
    """Whether the dump has threads of the JVM, and one with the text."""
    threads = dump["threadInfos"]
    return any(each["threadName"].startswith("JVM: ") for each in threads) and any(
        text in each["stringifiedThreadInfo"] for each in threads
    )


def test_a_job_can_be_looked_into_while_it_runs(environment: SparkEnvironment, tmp_path: Path) -> None:
    logs, gate = tmp_path / "logs", tmp_path / "gate"
    options = {
        "rest.port": "0",
        "env.log.dir": str(logs),
        "env.log.level": "INFO",
        "my.password": "swordfish",
        "rest.flamegraph.num-samples": "20",
        "rest.flamegraph.delay-between-samples": "5 ms",
    }
    env = environment(2, **options)
    numbers = env.from_sequence(1, 1_000_000_000)
    numbers.map(Busy(gate)).name("Busy").filter(lambda value: value < 0).print()
    client = env.execute_async("looked into")
    assert isinstance(client, MasterJobClient)
    rest, job = RestClient(client.rest_url), f"/jobs/{client.get_job_id()}"
    details = rest.wait_for(job, lambda each: each["vertices"][0]["status"] == "RUNNING")
    try:
        (manager,) = rest.get("/taskmanagers")["taskmanagers"]
        assert manager["id"] == platform.node()
        assert manager["slotsNumber"] >= manager["assignedTasks"] == 2
        path = f"/taskmanagers/{manager['id']}"

        answer = rest.wait_for(
            f"{job}/vertices/{details['vertices'][0]['id']}/flamegraph?type=on_cpu",
            lambda each: "data" in each,
        )
        check_shape(answer, "FlameGraph")
        names = list(frames(answer["data"]))
        assert any("Busy.compute:" in name for name in names), names
        assert answer["data"]["children"][0]["name"].startswith("firesteel."), "not PySpark's own"

        # A JVM or a task that is busy takes longer to answer than a page waits for it; then it is there the next time.
        for place, text in ((path, "in compute"), ("/jobmanager", "thread_dump")):
            rest.wait_for(f"{place}/thread-dump", partial(has_threads, text=text))
        metrics = {
            each["id"]: each["value"] for each in rest.get(f"{path}/metrics?get=Status.JVM.Threads.Count")
        }
        assert float(metrics["Status.JVM.Threads.Count"]) > 2

        text = rest.wait_for(f"{path}/log", lambda text: text.count(": opened") == 2)
        assert ": value" not in text
        assert sorted(line.split(" [")[1] for line in text.splitlines() if line.endswith(": opened")) == [
            f"looked into: {details['vertices'][0]['name']} ({n}/2)]: opened" for n in (1, 2)
        ]
        # The executor lives longer than this job: what others have printed may stand before it.
        rest.wait_for(f"{path}/stdout", lambda text: text.endswith("printed\nprinted\n"))
        status, _ = rest.call("PUT", "/log-levels", {"logger": log.name, "level": "DEBUG"})
        assert status == 200
        rest.wait_for(f"{path}/log?tail=5000", lambda text: "DEBUG looking.inside [" in text)
        rest.call("PUT", "/log-levels", {"logger": log.name, "level": None})
    finally:
        gate.touch()
        client.cancel().result()
    assert {path.name.split("-", 4)[4] for path in logs.iterdir()} == {
        "driver.log",
        f"executor-{platform.node()}.log",
        f"executor-{platform.node()}.out",
    }
    assert all("swordfish" not in path.read_text() for path in logs.iterdir())
