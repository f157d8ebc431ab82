"""Views of frozen jobs: they have the shapes that the interface promises, and say what is so."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import rest_sample as sample

from firesteel.common._thread_stacks import dump_threads
from firesteel.common.errors import HeartbeatError, UserCodeError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.failure_history import FailureHistory, FailureLocation
from firesteel.jobmaster.host_history import HostHistory
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.rescale_history import RescaleCause, RescaleHistory
from firesteel.jobmaster.task_states import ExecutionState
from firesteel.plan.executor import SlotWait
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.rest.metric_source import KeptMetrics
from firesteel.rest.schemas import array, reference
from firesteel.rest.served_jobs import EndedJob
from firesteel.rest.views import (
    checkpoints,
    driver,
    exceptions,
    hosts,
    jobs,
    metrics,
    rescales,
    subtasks,
    vertices,
)
from firesteel_support.rest_client import check_shape

SNAPSHOTS = [sample.created(), sample.running(), sample.restarting(), sample.finished()]


@pytest.fixture(params=SNAPSHOTS, ids=lambda each: each.status.name)
def snapshot(request: pytest.FixtureRequest) -> JobSnapshot:
    found: JobSnapshot = request.param
    return found


def test_jobs_have_their_shapes_in_every_state(snapshot: JobSnapshot) -> None:
    outline = sample.outline()
    check_shape(jobs.ids([snapshot]), "JobIds")
    check_shape(jobs.overview([(outline, snapshot)]), "JobsOverview")
    check_shape(jobs.job_details(outline, snapshot), "JobDetails")
    check_shape(jobs.job_plan(outline, snapshot.job_id), "JobPlan")
    check_shape(jobs.job_config(outline, snapshot.job_id), "JobConfig")
    check_shape(rescales.resource_requirements(outline, snapshot), "ResourceRequirements")
    check_shape(rescales.rescale_config(outline), "RescaleConfig")
    check_shape(rescales.rescale_overview(snapshot), "RescalesOverview")
    check_shape(rescales.rescale_summary(snapshot), "RescalesSummary")
    check_shape(jobs.execution_result(snapshot, {"seen": 3}, None), "ExecutionResult")
    check_shape(driver.cluster_overview([(outline, snapshot)]), "ClusterOverview")
    check_shape(hosts.job_hosts(snapshot), "JobHosts")


def test_a_job_in_its_last_state_has_a_time_of_its_end_also_before_all_is_done() -> None:
    times = (*sample.running().status_times, (JobStatus.CANCELED, 77_000))
    ending = replace(sample.running(), status=JobStatus.CANCELED, status_times=times, ended=None)
    (line,) = jobs.overview([(sample.outline(), ending)])["jobs"]
    assert (line["state"], line["end-time"]) == ("CANCELED", 77_000)
    assert jobs.job_details(sample.outline(), ending)["end-time"] == 77_000
    (running,) = jobs.overview([(sample.outline(), sample.running())])["jobs"]
    assert running["end-time"] == -1


def test_vertices_have_their_shapes_in_every_state(snapshot: JobSnapshot) -> None:
    outline = sample.outline()
    source = sample.metric_registry(snapshot)
    for vertex in outline.vertices:
        check_shape(vertices.vertex_details(vertex, snapshot), "Vertex")
        check_shape(vertices.subtask_times(vertex, snapshot), "SubtaskTimes")
        check_shape(vertices.task_managers(vertex, snapshot), "VertexTaskManagers")
        check_shape(vertices.back_pressure(vertex, snapshot, source), "BackPressure")
        check_shape(vertices.watermarks(vertex, source), "Metrics")
        check_shape(vertices.vertex_accumulators(vertex, snapshot), "VertexAccumulators")
        check_shape(vertices.subtasks_accumulators(vertex, snapshot), "SubtasksAccumulators")
        attempts = subtasks.attempts_of(vertex, 0, snapshot)
        check_shape(vertices.subtask_accumulators(attempts[0], attempts), "AttemptAccumulators")


def test_checkpoints_have_their_shapes_in_every_state(snapshot: JobSnapshot) -> None:
    outline, statistics = sample.outline(), snapshot.statistics.checkpoints
    check_shape(checkpoints.checkpoints(outline, statistics), "Checkpoints")
    check_shape(checkpoints.checkpoint_config(outline, snapshot), "CheckpointConfig")
    for one in statistics.history:
        check_shape(checkpoints.checkpoint_details(outline, one), "Checkpoint")
        for vertex in outline.vertices:
            check_shape(checkpoints.subtask_details(vertex, one), "CheckpointSubtasks")


def test_rescales_have_their_shapes_while_they_last_and_after() -> None:
    history = RescaleHistory()
    history.begin(1, RescaleCause.REQUEST, sample.plan(), sample.plan(), 1.0)
    for ends in (None, ValueError("no room"), None):
        snapshot = replace(sample.running(), rescales=history.newest_first, rescale_counts=history.counts)
        check_shape(rescales.rescale_history(snapshot), array(reference("Rescale")))
        check_shape(rescales.rescale_overview(snapshot), "RescalesOverview")
        check_shape(rescales.rescale_summary(snapshot), "RescalesSummary")
        history.end(1, ends, 3.5)
        history.begin(1, RescaleCause.MORE_SLOTS, sample.plan(), sample.plan(), 4.0)
    counts = rescales.rescale_overview(snapshot)["rescalesCounts"]
    assert counts == {"ignored": 0, "inProgress": 1, "completed": 1, "failed": 1}
    failed = rescales.rescale_overview(snapshot)["latest"]["failed"]
    assert failed["schedulerStates"][0]["stringifiedException"] == "no room"


def test_slots_of_a_job_that_waits_for_them_are_those_that_there_are() -> None:
    waiting = replace(sample.created(), wanted_slots=9, known_slots=1)
    overview = driver.cluster_overview([(sample.outline(), waiting)])
    assert (overview["slots-total"], overview["jobs-running"]) == (1, 1)
    assert jobs.job_details(sample.outline(), waiting)["slots"] == {"wanted": 9, "known": 1, "used": 0}


def test_the_driver_has_its_shapes() -> None:
    check_shape(driver.dashboard_config(), "DashboardConfiguration")
    check_shape(driver.environment(), "Environment")
    check_shape(driver.thread_dump(dump_threads()), "ThreadDump")
    check_shape(driver.log_list(driver.log_files()), "LogList")


def test_secrets_are_in_no_view() -> None:
    outline = sample.outline()
    entries = driver.configuration_entries(outline.options)
    assert {"key": "s3.secret-key", "value": "******"} in entries
    assert jobs.job_config(outline, sample.JOB_ID)["execution-config"]["user-config"] == {
        "token": "******",
        "day": "1",
    }


def test_a_vertex_has_the_state_that_flink_would_give_it() -> None:
    state = subtasks.state_of_all
    running, finished = ExecutionState.RUNNING, ExecutionState.FINISHED
    assert state([running, finished]) is running
    assert state([finished, finished]) is finished
    assert state([finished, ExecutionState.SCHEDULED]) is running
    assert state([running, ExecutionState.FAILED]) is ExecutionState.FAILED
    assert state([ExecutionState.SCHEDULED, ExecutionState.DEPLOYING]) is ExecutionState.CREATED


def test_times_of_a_subtask_are_those_of_its_states() -> None:
    vertex = sample.outline().vertices[1]
    one = vertices.vertex_details(vertex, sample.finished())["subtasks"][0]
    assert (one["start-time"], one["end-time"], one["duration"]) == (2000, 5000, 3000)
    assert one["status-duration"] == {
        "CREATED": -1,
        "SCHEDULED": 1000,
        "DEPLOYING": 1000,
        "INITIALIZING": 1000,
        "RUNNING": 1000,
    }
    times = vertices.subtask_times(vertex, sample.running())["subtasks"][0]
    assert (times["timestamps"]["RUNNING"], times["timestamps"]["FINISHED"]) == (4000, 0)
    assert times["duration"] == sample.NOW - 2000
    assert times["endpoint"].startswith("worker-1:")


def test_attempts_count_from_zero_and_the_failed_ones_stay_visible() -> None:
    vertex = sample.outline().vertices[1]
    attempts = subtasks.attempts_of(vertex, 0, sample.running())
    assert [(each.attempt, each.state.name) for each in attempts] == [(0, "FAILED"), (1, "RUNNING")]
    between = subtasks.attempts_of(vertex, 0, sample.restarting())
    assert [(each.attempt, each.state.name) for each in between] == [(0, "FAILED"), (1, "CREATED")]


def test_records_in_and_out_are_those_that_pass_the_ends_of_the_chain() -> None:
    details = jobs.job_details(sample.outline(), sample.running())
    source, follower = details["vertices"]
    assert (source["metrics"]["read-records"], source["metrics"]["write-records"]) == (0, 7)
    assert follower["metrics"]["read-records"] == 10 * follower["parallelism"]
    assert follower["metrics"]["write-records"] == 0, "nothing of a sink leaves it"


def test_bytes_and_times_are_those_that_tasks_have_reported() -> None:
    details = vertices.vertex_details(sample.outline().vertices[1], sample.running())
    shown = [each["metrics"] for each in details["subtasks"]]
    assert [(each["read-bytes"], each["write-bytes"]) for each in shown] == [(100, 70)] * 2
    assert [each["accumulated-busy-time"] for each in shown] == [600.0] * 2
    aggregated = details["aggregated"]["metrics"]
    assert (aggregated["read-bytes"]["sum"], aggregated["accumulated-idle-time"]["sum"]) == (200, 600)
    untimed = jobs.job_details(sample.outline(), sample.created())["vertices"][1]["metrics"]
    assert (untimed["accumulated-busy-time"], untimed["accumulated-idle-time"]) == ("NaN", 0)


def test_back_pressure_is_high_above_half_of_the_time() -> None:
    vertex = sample.outline().vertices[1]
    shown = vertices.back_pressure(vertex, sample.running(), sample.metric_registry(sample.running()))
    assert [each["backpressureLevel"] for each in shown["subtasks"]] == ["low", "high"]
    assert shown["backpressureLevel"] == "high"


def test_metrics_are_listed_or_chosen_by_name() -> None:
    source = sample.metric_registry(sample.running())
    names = [each["id"] for each in metrics.metrics(source.vertex(1), None)]
    assert {"0.numRecordsIn", "1.numRecordsIn", "0.Map.cache.hits"} <= set(names)
    chosen = metrics.metrics(source.vertex(1), ["1.Map.cache.hits", "1.nothing", "1.Map.cache.hits"])
    assert chosen == [{"id": "1.Map.cache.hits", "value": "5"}]
    assert vertices.watermarks(sample.outline().vertices[1], source) == [
        {"id": "0.currentInputWatermark", "value": "450"},
        {"id": "1.currentInputWatermark", "value": "450"},
    ]
    assert source.job()["numRestarts"] == 1


def test_metrics_of_several_sources_become_figures() -> None:
    sources = [{"n": 1, "text": "x"}, {"n": 3}, {"n": "5"}, {"n": float("nan")}]
    assert metrics.aggregated_metrics(sources, None) == [{"id": "n"}, {"id": "text"}]
    (figures,) = metrics.aggregated_metrics(sources, ["n", "text", "none"], ("min", "max", "avg", "sum"))
    assert figures == {"id": "n", "min": 1.0, "max": 5.0, "avg": 3.0, "sum": 9.0}
    (alike,) = metrics.aggregated_metrics([{"n": 2}, {"n": 2}], ["n"])
    assert alike["skew"] == 0.0
    check_shape([figures, alike], "AggregatedMetrics")


def test_failures_have_traceback_operator_and_labels() -> None:
    shown = exceptions.exceptions(sample.running().failures)
    check_shape(shown, "Exceptions")
    (entry,) = shown["exceptionHistory"]["entries"]
    assert "ValueError: boom" in entry["stacktrace"]
    assert "File job.py" in entry["stacktrace"]
    assert entry["taskName"] == "Map (2) - execution #0"
    assert (entry["endpoint"], entry["taskManagerId"]) == ("worker-1:41", "worker-1")
    assert entry["failureLabels"] == {"type": "user error"}


def test_a_failure_of_user_code_names_the_executor_that_it_was_in() -> None:
    history = FailureHistory(1)
    error = UserCodeError("ValueError: boom", operator="Map", subtask=1)
    history.add(1, 1.0, error, FailureLocation("Source -> Map", None, "worker-1", 41, "0"))
    (entry,) = exceptions.exceptions(history.newest_first)["exceptionHistory"]["entries"]
    assert (entry["endpoint"], entry["taskManagerId"]) == ("worker-1:41", "executor-0")


def test_failures_can_be_limited_and_filtered() -> None:
    failures = sample.running().failures * 3
    shown = exceptions.exceptions(failures, 2)["exceptionHistory"]
    assert (len(shown["entries"]), shown["truncated"]) == (2, True)
    none = exceptions.exceptions(failures, labels={"type": "storage"})["exceptionHistory"]
    assert none == {"entries": [], "truncated": False}


def test_a_checkpoint_that_was_not_needed_any_more_counts_as_failed_as_in_flink() -> None:
    shown = checkpoints.checkpoints(sample.outline(), sample.checkpoint_statistics())
    assert shown["counts"] == {"restored": 1, "total": 5, "in_progress": 1, "completed": 2, "failed": 2}
    assert [each["status"] for each in shown["history"]] == [
        "IN_PROGRESS",
        "COMPLETED",
        "FAILED",
        "FAILED",
        "COMPLETED",
    ]
    latest = shown["latest"]
    assert (latest["completed"]["id"], latest["savepoint"]["id"], latest["failed"]["id"]) == (4, 7, 5)
    assert latest["restored"]["external_path"] == "/savepoints/one"


def test_subtasks_of_a_checkpoint_show_who_has_not_acknowledged_it() -> None:
    vertex = sample.outline().vertices[1]
    pending = sample.checkpoint_statistics().history[-1]
    shown = checkpoints.subtask_details(vertex, pending)
    assert [each["status"] for each in shown["subtasks"]] == ["pending_or_failed"] * vertex.parallelism
    complete = checkpoints.subtask_details(vertex, sample.checkpoint_statistics().history[0])
    assert complete["subtasks"][0]["alignment"]["duration"] == 2
    assert complete["summary"]["state_size"]["max"] == 300
    assert complete["checkpointed_size"] == 100 * vertex.parallelism


def test_a_failed_job_says_why() -> None:
    snapshot = replace(sample.running(), status=JobStatus.FAILED, ended=9000)
    error = UserCodeError("ValueError: boom", operator="Map")
    shown = jobs.execution_result(snapshot, {}, error)
    check_shape(shown, "ExecutionResult")
    cause = shown["job-execution-result"]["failure-cause"]
    assert cause["class"] == "firesteel.common.errors.UserCodeError"
    assert "boom" in cause["stack-trace"]
    assert jobs.execution_result(sample.running(), {}, None) == {"status": {"id": "IN_PROGRESS"}}


def test_what_is_kept_of_an_ended_job_answers_like_the_job() -> None:
    outline = sample.outline()
    live = sample.metric_registry(sample.finished())
    ended = EndedJob(outline, sample.finished(), {"seen": 3}, KeptMetrics(outline, live))
    assert ended.control is None
    assert ended.metrics().job() == live.job()
    assert ended.metrics().vertex(1) == live.vertex(1)
    assert ended.metrics().subtask(1, 0) == live.subtask(1, 0)
    assert ended.metrics().operators(1)["Map"] == live.operators(1)["Map"]
    assert live.operators(1)["Map"]["1.cache.hits"] == 5
    shown: Any = jobs.accumulators(ended.accumulators())
    check_shape(shown, "JobAccumulators")
    assert shown["user-task-accumulators"] == [{"name": "seen", "type": "int", "value": "3"}]


def test_views_import_no_web_framework() -> None:
    modules: list[ModuleType] = [checkpoints, driver, exceptions, jobs, metrics, subtasks, vertices]
    assert not [each for each in modules if "starlette" in vars(each)]


# Hosts.


def test_hosts_tell_who_was_lost_and_who_is_back() -> None:
    history = HostHistory()
    for host in ("worker-1", "worker-2", "worker-3"):
        history.seen(host, 1.0)
    for host in ("worker-1", "worker-2"):
        history.lost(host, 5.0, "no sign of life")
    history.seen("worker-1", 9.0)
    running = sample.running()
    silences = {task.task: 0.1 * number for number, task in enumerate(running.tasks) if task.task}
    snapshot = replace(running, hosts=history.records, silences=silences, heartbeat=HeartbeatSettings(2, 20))
    shown = hosts.job_hosts(snapshot)
    check_shape(shown, "JobHosts")
    assert shown["heartbeat"] == {"interval": 2000, "timeout": 20000}
    first, second, third = shown["hosts"]
    assert (first["status"], first["losses"], first["lost"], first["returned"]) == ("RUNNING", 1, 5000, 9000)
    assert first["tasks"] == len(running.tasks)
    assert first["timeSinceLastHeartbeat"] == 100 * (len(running.tasks) - 1), (
        "of the one that is silent for longest"
    )
    assert (second["status"], second["reason"], second["returned"]) == ("LOST", "no sign of life", None)
    assert (third["status"], third["tasks"], third["losses"]) == ("IDLE", 0, 0)


def test_slots_that_are_missing_are_shown() -> None:
    snapshot = replace(sample.created(), slot_wait=SlotWait(8, 4, 60.0))
    shown = hosts.job_hosts(snapshot)
    check_shape(shown, "JobHosts")
    assert shown["waitingForSlots"] == {"needed": 8, "available": 4, "since": 60000}


def test_failures_of_one_attempt_are_shown_together() -> None:
    history = FailureHistory(4)
    history.add(1, 5.0, HeartbeatError("lost task a"), FailureLocation("a", 0, "worker-1", 7))
    history.add_concurrent(1, 5.0, HeartbeatError("lost task b"), FailureLocation("b", 1, "worker-1", 8))
    history.add_concurrent(2, 6.0, HeartbeatError("of no failure"), None)
    shown = exceptions.exceptions(history.newest_first)
    check_shape(shown, "Exceptions")
    (entry,) = shown["exceptionHistory"]["entries"]
    (other,) = entry["concurrentExceptions"]
    assert (entry["endpoint"], other["endpoint"], other["taskName"]) == (
        "worker-1:7",
        "worker-1:8",
        "b (2) - execution #0",
    )
