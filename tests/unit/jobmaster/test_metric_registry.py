"""All metrics of a job by place: under Flink's names for maps, with variables for reporters, with rates over a minute."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import InvalidArgumentError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoints.statistics import CheckpointStatistics
from firesteel.jobmaster.job_metrics import checkpoint_metrics
from firesteel.jobmaster.job_times import JobTimes
from firesteel.jobmaster.metric_registry import MetricRegistry
from firesteel.jobmaster.statistics import ReportBook
from firesteel.metrics import HistogramSummary, MeterSummary, MetricKind, MetricValue, ReportedMetric
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    OperatorStatistics,
    ProcessStatistics,
    SubtaskStatistics,
    TaskId,
    TaskReport,
    TaskTimes,
)
from firesteel_support.flow import Flow

PROCESS = ProcessStatistics("worker", 17, 0.25, 2.5, 1000, 4000, 6, 3)


def two_stages(**options: str) -> JobPlan:
    flow = Flow()
    flow.collect(flow.map(flow.source([1]), lambda v: v, by=Rebalance()), "out")
    return flow.plan(**options) if options else flow.plan()


PLAN = two_stages()
IDS = [[operator.id for operator in vertex.operators] for vertex in PLAN.vertices]


def second_stage(
    subtask: int,
    records: int,
    at: float = 10.0,
    metrics: tuple[MetricValue, ...] = (),
    system: tuple[MetricValue, ...] = (),
    busy_ms: float | None = None,
) -> tuple[TaskId, TaskReport]:
    mapped, collected = IDS[1]
    operators = (
        OperatorStatistics(mapped, subtask, records, 2 * records),
        OperatorStatistics(collected, subtask, 2 * records, 0),
    )
    subtasks = (SubtaskStatistics(1, subtask, records, 0, 50 * records, 0, records, 0, 1.5, 2.0),)
    times = None if busy_ms is None else TaskTimes(busy_ms, 0.0, at * 1000 - busy_ms)
    report = TaskReport(
        operators,
        {},
        metrics,
        system=system,
        subtasks=subtasks,
        times=times,
        process=PROCESS,
        began=0.0,
        at=at,
    )
    return TaskId(1, subtask), report


def registry(*reports: tuple[TaskId, TaskReport], **job: Any) -> MetricRegistry:
    book = ReportBook(PLAN)
    for task, report in reports:
        book.record(task, report)
    return MetricRegistry("5e", book, lambda: {"uptime": 5, "numRestarts": 2, **job}, lambda: 3)


def of_map(name: str, kind: MetricKind, value: Any, *scope: str, values: tuple[int, ...] = ()) -> MetricValue:
    return MetricValue("Map", IDS[1][0], 0, scope, name, kind, value, values)


def test_the_job_has_what_its_master_tells() -> None:
    assert registry(lastCheckpointDuration=7).job() == {
        "uptime": 5,
        "numRestarts": 2,
        "lastCheckpointDuration": 7,
    }


def test_names_of_a_vertex_begin_with_the_subtask() -> None:
    metrics = registry(second_stage(0, 100), second_stage(1, 40)).vertex(1)
    assert (metrics["0.numRecordsIn"], metrics["1.numRecordsIn"]) == (100, 40)
    assert (metrics["0.numBytesIn"], metrics["1.numBytesInPerSecond"]) == (5000, 200.0)
    assert (metrics["0.Map.numRecordsOut"], metrics["0.Map.numRecordsOutPerSecond"]) == (200, 20.0)
    assert metrics["0.checkpointAlignmentTime"] == 1_500_000, "nanoseconds, as in Flink"
    assert metrics["0.checkpointStartDelayNanos"] == 2_000_000


def test_a_vertex_is_known_by_number_and_by_the_id_of_its_head() -> None:
    found = registry(second_stage(0, 100))
    assert found.vertex(IDS[1][0]) == found.vertex(1)
    with pytest.raises(InvalidArgumentError, match="the job has no vertex 'x'"):
        found.vertex("x")


def test_a_subtask_and_its_operators() -> None:
    found = registry(second_stage(0, 100), second_stage(1, 40))
    assert found.subtask(1, 1)["Map.numRecordsIn"] == 40
    assert found.subtask(1, 1)["numRecordsIn"] == 40
    assert (found.subtask(1, 9), found.subtask(0, 0)) == ({}, {})
    operators = found.operators(1)
    assert operators["Map"]["1.numRecordsOut"] == 80
    assert len(operators) == 2


def test_operators_of_one_name_do_not_hide_each_other() -> None:
    flow = Flow()
    first = flow.map(flow.source([1]), lambda v: v, by=Rebalance())
    flow.collect(flow.map(first, lambda v: v), "out")
    plan = flow.plan()
    ids = [operator.id for operator in plan.vertices[1].operators]
    operators = tuple(OperatorStatistics(each, 0, 10 * n, 10 * n + 10) for n, each in enumerate(ids))
    report = TaskReport(operators, {}, subtasks=(SubtaskStatistics(1, 0, 0, 0, 0, 0, 0, 0),), at=1.0)
    book = ReportBook(plan)
    book.record(TaskId(1, 0), report)
    metrics = MetricRegistry("5e", book, dict, lambda: 1)
    assert metrics.subtask(1, 0)["Map.numRecordsIn"] == 0
    assert metrics.subtask(1, 0)["Map_2.numRecordsIn"] == 10
    assert metrics.vertex(1)["0.Map_2.numRecordsOut"] == 20
    assert metrics.operators(1)["Map 2"]["0.numRecordsIn"] == 10


def test_superseded_checkpoints_have_failed_as_in_flink() -> None:
    statistics = CheckpointStatistics(begun=5, completed=2, failed=1, superseded=2)
    found = checkpoint_metrics(statistics)
    assert (found["numberOfFailedCheckpoints"], found["numberOfInProgressCheckpoints"]) == (3, 0)


def test_values_of_several_numbers_have_several_names() -> None:
    metrics = (
        of_map("size", MetricKind.HISTOGRAM, HistogramSummary.of(3, [1, 2, 3]), "my cache"),
        of_map("marks", MetricKind.METER, MeterSummary(8, 0.5)),
        of_map("unknown", MetricKind.GAUGE, None),
        of_map("name.of:it", MetricKind.GAUGE, "text"),
    )
    found = registry(second_stage(0, 1, metrics=metrics)).subtask(1, 0)
    assert (found["Map.my_cache.size_median"], found["Map.my_cache.size_count"]) == (2, 3)
    assert {"Map.my_cache.size_p999", "Map.my_cache.size_stddev"} <= set(found)
    assert (found["Map.marks"], found["Map.name_of_it"]) == (0.5, "text")
    assert "Map.unknown" not in found


def test_busy_time_is_that_of_the_last_minute() -> None:
    found = registry(second_stage(0, 1, at=10.0, busy_ms=4000.0)).subtask(1, 0)
    assert (found["busyTimeMsPerSecond"], found["idleTimeMsPerSecond"]) == (400.0, 0.0)
    assert (found["backPressuredTimeMsPerSecond"], found["accumulateBackPressuredTimeMs"]) == (600.0, 6000)
    assert found["accumulateBusyTimeMs"] == 4000


def test_a_rate_is_that_since_the_start_and_later_that_of_the_last_minute() -> None:
    reports = [second_stage(0, 10 * second, at=float(second)) for second in range(1, 50)]
    assert registry(*reports).subtask(1, 0)["numRecordsInPerSecond"] == 10.0
    reports += [second_stage(0, 490, at=float(second)) for second in range(50, 300)]
    quiet = registry(*reports)
    assert quiet.subtask(1, 0)["numRecordsInPerSecond"] == 0.0
    assert quiet.subtask(1, 0)["numRecordsIn"] == 490
    reports += [second_stage(0, 490 + 600, at=300.0)]
    assert registry(*reports).subtask(1, 0)["numRecordsInPerSecond"] == pytest.approx(10.0, rel=0.1)


def test_a_new_attempt_begins_rates_anew() -> None:
    book = ReportBook(PLAN)
    book.record(*second_stage(0, 100))
    book.clear()
    assert MetricRegistry("5e", book, dict).vertex(1) == {}


def reported(found: MetricRegistry, name: str) -> list[ReportedMetric]:
    return [metric for metric in found if metric.name == name]


def test_reporters_get_scope_and_variables() -> None:
    metrics = (of_map("hits", MetricKind.COUNTER, 3, "cache", "topic", "orders", values=(2,)),)
    [hits] = reported(registry(second_stage(0, 1, metrics=metrics)), "hits")
    assert hits.identifier == f"worker.taskmanager.worker:17.{PLAN.name}.Map.0.cache.topic.orders.hits"
    assert hits.logical_name == "taskmanager.job.task.operator.cache.topic.hits"
    assert hits.variables == {
        "host": "worker",
        "tm_id": "worker:17",
        "job_id": "5e",
        "job_name": PLAN.name,
        "task_id": IDS[1][0],
        "task_name": PLAN.vertices[1].name,
        "task_attempt_id": f"{IDS[1][0]}_0_2",
        "task_attempt_num": "2",
        "subtask_index": "0",
        "operator_id": IDS[1][0],
        "operator_name": "Map",
        "topic": "orders",
    }


def test_scopes_are_those_of_flink() -> None:
    found = registry(second_stage(0, 1))
    assert {metric.logical_scope for metric in found if not set(metric.logical_scope) & {"Status"}} == {
        ("jobmanager",),
        ("jobmanager", "job"),
        ("taskmanager", "job", "task"),
        ("taskmanager", "job", "task", "operator"),
    }
    [load] = [m for m in found if m.logical_name == "taskmanager.Status.JVM.CPU.Load"]
    assert (load.value, load.variables) == (0.25, {"host": "worker", "tm_id": "worker:17"})


def test_latency_belongs_to_the_job_with_source_and_operator() -> None:
    seen = of_map(
        "latency",
        MetricKind.HISTOGRAM,
        HistogramSummary.of(1, [12]),
        "latency",
        "source_id",
        "0a",
        values=(2,),
    )
    found = registry(second_stage(0, 1, system=(seen,)))
    name = f"latency.source_id.0a.operator_id.{IDS[1][0]}.operator_subtask_index.0.latency_p95"
    assert found.job()[name] == 12
    [latency] = reported(found, "latency")
    assert (
        latency.logical_name == "taskmanager.job.latency.source_id.operator_id.operator_subtask_index.latency"
    )
    assert latency.variables["source_id"] == "0a"
    assert latency.variables["operator_subtask_index"] == "0"


def test_processes_are_named_by_host_and_number() -> None:
    found = registry(second_stage(0, 1), second_stage(1, 1))
    assert found.task_managers() == {
        "worker:17": {
            "Status.JVM.CPU.Load": 0.25,
            "Status.JVM.CPU.Time": 2_500_000_000,
            "Status.JVM.Memory.Heap.Used": 1000,
            "Status.JVM.Memory.Heap.Committed": 1000,
            "Status.JVM.Memory.Heap.Max": 4000,
            "Status.JVM.Threads.Count": 6,
            "Status.JVM.GarbageCollector.All.Count": 3,
        }
    }
    driver = found.job_manager()
    assert driver["Status.JVM.Memory.Heap.Used"] > 0
    assert driver["numRunningJobs"] >= 1
    assert driver["numRegisteredTaskManagers"] >= 1, "the worker, and those of other jobs of this process"


def test_times_of_a_job_are_those_of_its_state() -> None:
    now = [100.0]
    times = JobTimes(lambda: now[0])
    now[0] += 1
    assert times.metrics()["initializingTime"] == 1000
    times.changed(JobStatus.RUNNING)
    now[0] += 5
    assert (times.metrics()["uptime"], times.metrics()["runningTime"], times.metrics()["downtime"]) == (
        5000,
        5000,
        0,
    )
    times.changed(JobStatus.FAILING)
    now[0] += 1
    times.changed(JobStatus.RESTARTING)
    now[0] += 2
    assert (times.metrics()["downtime"], times.metrics()["restartingTime"], times.metrics()["uptime"]) == (
        3000,
        2000,
        0,
    )
    times.changed(JobStatus.RUNNING)
    assert times.metrics()["downtime"] == 0
    times.changed(JobStatus.FINISHED)
    assert (times.metrics()["uptime"], times.metrics()["downtime"]) == (-1, -1)
