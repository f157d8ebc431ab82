"""Metrics that functions register arrive where somebody sees them: at the job client, and in the job's result."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Configuration, WatermarkStrategy
from firesteel.common.job_status import JobStatus
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import MapFunction, RuntimeContext, SourceFunction
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.metrics import (
    DistributionSummary,
    GaugeSummary,
    JobMetrics,
    MeterSummary,
    MetricKind,
    MetricValue,
)
from firesteel.testing import Emit, ScriptedSource, WaitForCheckpoint, simulated_environment

NUMBERS = list(range(20))


class Measured(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        self.even = group.add_group("by kind", "even").counter("seen")
        self.sizes = group.distribution("size")
        self.marks = group.meter("marks")
        subtask = runtime_context.get_index_of_this_subtask()
        group.gauge("subtask", lambda: subtask)
        group.gauge("name", lambda: "measured")

    def map(self, value: int) -> int:
        self.seen.inc()
        self.even.inc(1 - value % 2)
        self.sizes.update(value)
        self.marks.mark_event(2)
        return value


def measured(seed: int, parallelism: int) -> StreamExecutionEnvironment:
    env = simulated_environment(seed=seed, parallelism=parallelism)
    env.from_collection(NUMBERS).rebalance().map(Measured()).name("measured").print()
    return env


@pytest.mark.parametrize("seed", range(5))
def test_every_metric_is_there_by_subtask_and_in_total(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    client = measured(seed, 3).execute_async()
    client.get_job_execution_result().result()
    metrics = client.metrics().of_operator("measured")
    seen = [value for value in metrics.values if value.full_name == "seen"]
    assert [(value.subtask, value.kind) for value in seen] == [(n, MetricKind.COUNTER) for n in range(3)]
    assert sum(value.value for value in seen) == 20
    assert metrics.total("seen") == 20
    assert metrics.total("by kind.even.seen") == 10
    assert metrics.total("size") == DistributionSummary(20, sum(NUMBERS), 0, 19)
    marks = metrics.total("marks")
    assert isinstance(marks, MeterSummary)
    assert marks.count == 40
    assert metrics.total("subtask") == GaugeSummary(0, 1.0, 2)
    assert metrics.total("name") == ("measured",)


def test_the_result_of_a_job_has_its_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = measured(0, 2).execute().metrics()
    assert metrics.total("seen", "measured") == 20
    with pytest.raises(
        KeyError, match=r"no metric 'sene' has been reported; there are: by kind\.even\.seen, "
    ):
        metrics.total("sene")
    with pytest.raises(KeyError, match="no metric 'seen' of operator 'Source"):
        metrics.total("seen", "Source: Collection Source")


def test_operators_of_the_same_name_are_not_mixed_up(capsys: pytest.CaptureFixture[str]) -> None:
    env = simulated_environment(parallelism=2)
    numbers = env.from_collection(NUMBERS).map(Measured()).name("measured")
    numbers.filter(lambda n: n < 5).map(Measured()).name("measured").print()
    metrics = env.execute().metrics()
    assert metrics.total("seen") == 25
    totals = [total for total in metrics.totals() if total.full_name == "seen"]
    assert [total.value for total in totals] == [20, 5]
    assert len({total.operator_id for total in totals}) == 2


def test_metrics_of_two_kinds_have_no_total() -> None:
    counter = MetricValue("a", "0a", 0, (), "n", MetricKind.COUNTER, 3)
    gauge = MetricValue("b", "0b", 0, (), "n", MetricKind.GAUGE, 4)
    metrics = JobMetrics((counter, gauge))
    assert metrics.total("n", "a") == 3
    with pytest.raises(
        ValueError, match="'n' is a counter of 'a' and a gauge of 'b', which cannot be added up"
    ):
        metrics.total("n")


def test_statistics_have_the_watermark_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    env = simulated_environment(parallelism=2)
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    env.from_collection(NUMBERS).assign_timestamps_and_watermarks(stamped).rebalance().print()
    client = env.execute_async()
    assert isinstance(client, MasterJobClient)
    client.wait()
    statistics = client.statistics()
    assert statistics.watermark == 2**63 - 1
    assert statistics.restarts == 0
    assert statistics.elapsed == client.statistics().elapsed > 0, "it stands still when the job has ended"


class CountedAndFailing(MapFunction):
    """Fails once, at the last record."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: str) -> str:
        self.seen.inc()
        if value == "c" and not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("once")
        return value


def test_a_restart_begins_metrics_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = simulated_environment(parallelism=1)
    env.enable_checkpointing(1000)
    script = ScriptedSource([Emit(["a", "b"]), WaitForCheckpoint(), Emit(["c"])])
    source = env.from_source(script, WatermarkStrategy.no_watermarks(), "Letters")
    source.map(CountedAndFailing(tmp_path / "failed")).print()
    client = env.execute_async()
    assert isinstance(client, MasterJobClient)
    client.wait()
    assert (tmp_path / "failed").exists()
    assert client.metrics().total("seen") == 1, "the second attempt has seen only the last letter"
    assert client.statistics().restarts == 1


RELEASED = threading.Event()


class Held(SourceFunction):
    """Gives one record and then waits for the test, which runs in the same process."""

    bounded = True

    def run(self, ctx: Any) -> None:
        ctx.collect(1)
        RELEASED.wait(600)

    def cancel(self) -> None:
        RELEASED.set()


def test_a_running_job_has_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    RELEASED.clear()
    often = Configuration.from_dict({"firesteel.metrics.interval": "1 ms"})
    env = simulated_environment(parallelism=1, configuration=often)
    env.add_source(Held()).map(Measured()).print()
    client = env.execute_async()
    try:
        found: list[MetricValue] = []
        status = JobStatus.CREATED
        while not found or status is JobStatus.CREATED:
            status = client.get_job_status().result()
            assert status in (JobStatus.CREATED, JobStatus.RUNNING)
            values = client.metrics().values
            found = [value for value in values if value.name == "seen" and value.value == 1]
    finally:
        RELEASED.set()
    client.get_job_execution_result().result()
    assert client.metrics().total("seen") == 1
