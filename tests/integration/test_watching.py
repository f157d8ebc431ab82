"""What is seen of a job on Spark: its metrics over all its processes, watermarks, back pressure, and its end."""

from __future__ import annotations

import random
import re
import socket
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SparkEnvironment
from prometheus_client.parser import text_string_to_metric_families
from support import until

from firesteel.cli.job_details import metric_lines
from firesteel.cli.main import main
from firesteel.common import WatermarkStrategy
from firesteel.datastream import DiscardingSink, MapFunction, RuntimeContext
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.remote.history import ended_jobs
from firesteel.jobmaster.remote.registry import entries
from firesteel.metrics import MetricKind
from firesteel.rest import client as own_client
from firesteel_support.rest_client import RestClient

pytestmark = pytest.mark.spark

RECORDS = 2000
PAYLOAD_BYTES = 20_000


class Large(MapFunction):
    """Makes records that do not fit into the buffers behind it, compressed or not."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.made = runtime_context.get_metrics_group().add_group("records").counter("made")
        self.noise = random.Random(0).randbytes(1000 * PAYLOAD_BYTES)

    def map(self, value: int) -> tuple[int, bytes]:
        self.made.inc()
        start = value % 1000 * PAYLOAD_BYTES
        return value, self.noise[start : start + PAYLOAD_BYTES]


class Slow(MapFunction):
    def map(self, value: Any) -> Any:
        time.sleep(0.003)
        return value[0]


class Gated(MapFunction):
    """Keeps its first record until a file is there."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    def map(self, value: tuple[int, bytes]) -> int:
        while not self._gate.exists():
            time.sleep(0.01)
        return value[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def scraped(port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """What Prometheus would read."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=600) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {each.name: [(sample.labels, sample.value) for sample in each.samples] for each in families}


def check_what_loops_measure(held_up: Mapping[str, Any], senders: list[int]) -> None:
    """The loop of a task is busy, rests, or waits for its receivers, and nothing else."""
    for subtask in senders:
        shares = [held_up[f"{subtask}.{what}TimeMsPerSecond"] for what in ("busy", "idle", "backPressured")]
        assert all(share >= 0 for share in shares)
        assert sum(shares) == pytest.approx(1000, rel=0.2)
        assert held_up[f"{subtask}.accumulateBackPressuredTimeMs"] > 0
        assert held_up[f"{subtask}.numBytesOut"] > PAYLOAD_BYTES


def check_what_is_scraped(page: Mapping[str, list[tuple[dict[str, str], float]]]) -> None:
    """Metrics of functions, of the processes of tasks and of the job, under Flink's names."""
    made = page["flink_taskmanager_job_task_operator_records_made"]
    assert {(labels["operator_name"], labels["job_name"]) for labels, _ in made} == {("large", "watched")}
    assert {labels["subtask_index"] for labels, _ in made} == {"0", "1"}
    used = page["flink_taskmanager_Status_JVM_Memory_Heap_Used"]
    assert len({labels["tm_id"] for labels, _ in used}) == 4, "each task has a process of its own"
    assert all(value > 1_000_000 for _, value in used)
    [(_, uptime)] = page["flink_jobmanager_job_uptime"]
    assert uptime > 0


def test_a_job_is_seen_while_it_runs_and_afterwards(
    environment: SparkEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FIRESTEEL_REGISTER", "1")
    port = free_port()
    options = {
        "firesteel.metrics.interval": "50 ms",
        "firesteel.shuffle.buffer": "64 kb",
        "metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
        "metrics.reporter.prom.port": str(port),
        "rest.port": "0",
    }
    env = environment(2, **options)
    gate = tmp_path / "gate"
    large = env.from_sequence(1, RECORDS).map(Large()).name("large")
    large.rebalance().map(Gated(gate)).name("gated").add_sink(DiscardingSink())
    client = env.execute_async("watched")
    assert isinstance(client, MasterJobClient)
    job_id = str(client.get_job_id())

    def held_up_senders() -> list[int]:
        """Those that do nothing but wait, when all tasks have reported; one of the two may have got few records, and be done."""
        assert not client.is_over(), "a task whose receivers do not read waits for them"
        reports = client.snapshot().reports
        senders = {task.index: report for task, report in reports.items() if task.stage == 0}
        waiting = [index for index, report in senders.items() if (report.back_pressure or 0.0) > 0.99]
        return waiting if len(reports) == 4 else []

    senders = until(held_up_senders, "all tasks run, and one that sends does nothing but wait")
    held_up = client._master.metrics.vertex(0)
    page = scraped(port)
    (rest_url,) = [entry.rest for entry in entries() if entry.job_id == job_id]
    with own_client.RestClient(rest_url) as own:
        listed = metric_lines(own, job_id)
    top = CliRunner().invoke(main, ["top", "-m", rest_url, job_id])
    rest = RestClient(rest_url)
    vertex = rest.get(f"/jobs/{job_id}")["vertices"][0]["id"]
    pressed = rest.get(f"/jobs/{job_id}/vertices/{vertex}/backpressure")
    hosts = rest.get("/taskmanagers")["taskmanagers"]
    gate.touch()
    client.wait()

    check_what_loops_measure(held_up, senders)
    check_what_is_scraped(page)
    assert {pressed["subtasks"][subtask]["backpressureLevel"] for subtask in senders} == {"high"}
    assert 2 + len(senders) <= sum(each["assignedTasks"] for each in hosts) <= 4, (
        "processes of Spark, by host"
    )
    assert rest.get(f"/jobs/{job_id}/status") == {"status": "FINISHED"}
    assert [line.split()[:2] for line in listed] == [["large:", "records.made"]]
    (source,) = re.findall(r"^Source: \S.*?  .*$", top.stdout, re.MULTILINE)
    assert len(re.findall(r"\d+ %", source)) == 2, "how busy it is, and how much it waits"
    assert re.search(r"^  large  ", top.stdout, re.MULTILINE)
    made = [value for value in client.metrics().values if value.full_name == "records.made"]
    assert [(value.subtask, value.kind) for value in made] == [(n, MetricKind.COUNTER) for n in range(2)]
    assert client.metrics().total("records.made") == RECORDS
    assert client.statistics()["Sink: DiscardingSink"].records_in == RECORDS
    assert [entry for entry in entries() if entry.job_id == job_id] == []
    (ended,) = [job for job in ended_jobs() if job.job_id == job_id]
    assert (ended.name, ended.status, ended.reason) == ("watched", "FINISHED", "")


def test_event_time_is_seen_while_a_job_runs(environment: SparkEnvironment) -> None:
    env = environment(1, **{"firesteel.metrics.interval": "50 ms"})
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    numbers = env.from_sequence(1, 200).assign_timestamps_and_watermarks(stamped)
    numbers.map(lambda value: (value,)).map(Slow()).add_sink(DiscardingSink())
    client: Any = env.execute_async("with event time")
    seen = set()
    while not client.is_over():
        seen.add(client.statistics().watermark)
        time.sleep(0.02)  # paces the looks; nothing depends on it
    client.wait()
    assert any(0 < watermark < 200 for watermark in seen if watermark is not None), seen
