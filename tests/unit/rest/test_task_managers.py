"""Executors as Flink's task managers: from the engine's list, from what tasks say, and both together."""

from __future__ import annotations

from dataclasses import replace

import rest_sample as sample

from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.plan.executor import EngineExecutor
from firesteel.plan.messages import ProcessStatistics
from firesteel.rest.task_managers import lost_executors, task_managers
from firesteel.rest.views import driver
from firesteel.rest.views import task_managers as views
from firesteel_support.rest_client import check_shape

FIRST = EngineExecutor("0", "worker-1", 4, 1000, memory=500, memory_used=50, heap_used=70)
SECOND = EngineExecutor("1", "worker-2", 4, 2000)
LOST = EngineExecutor("2", "worker-3", 4, 1500, lost_ms=3000, reason="worker lost")


def on_cluster(snapshot: JobSnapshot) -> JobSnapshot:
    tasks = tuple(replace(task, executor="0") for task in snapshot.tasks)
    return replace(snapshot, tasks=tasks)


def test_without_a_list_of_the_engine_hosts_with_tasks_are_shown() -> None:
    (found,) = task_managers([sample.running()])
    assert (found.id, found.host, found.slots, len(found.tasks)) == ("worker-1", "worker-1", 3, 3)
    check_shape(views.list_of_managers([found]), "TaskManagers")
    check_shape(views.manager_details(found), "TaskManager")


def test_executors_are_there_with_and_without_tasks() -> None:
    first, second = task_managers([on_cluster(sample.running())], [FIRST, SECOND, LOST])
    assert (first.id, first.slots, len(first.tasks)) == ("executor-0", 4, 3)
    assert (second.id, second.host, second.slots, len(second.tasks)) == ("executor-1", "worker-2", 4, 0)
    shown = views.list_of_managers([first, second], lost_executors([FIRST, SECOND, LOST]))
    check_shape(shown, "TaskManagers")
    assert [(each["slotsNumber"], each["freeSlots"]) for each in shown["taskmanagers"]] == [(4, 1), (4, 4)]
    assert shown["lost"] == [
        {"id": "executor-2", "host": "worker-3", "since": 1500, "lost": 3000, "reason": "worker lost"}
    ]


def test_of_an_executor_that_was_lost_is_said_why() -> None:
    assert views.why_missing("executor-2", [LOST]) == (
        "executor 'executor-2' on worker-3 was lost: worker lost; GET /taskmanagers says when, and lists those that are there"
    )
    assert views.why_missing("executor-7", [LOST]) == (
        "there is no executor 'executor-7' now; GET /taskmanagers lists those that are"
    )


def test_the_overview_has_the_slots_of_the_engine() -> None:
    snapshot = on_cluster(sample.running())
    managers = task_managers([snapshot], [FIRST, SECOND, LOST])
    overview = driver.cluster_overview([(sample.outline(), snapshot)], managers)
    assert (overview["taskmanagers"], overview["slots-total"], overview["slots-available"]) == (2, 8, 5)


def test_the_last_heartbeat_is_that_of_the_task_that_was_heard_last() -> None:
    (first, second) = task_managers([on_cluster(sample.running())], [FIRST, SECOND], {"executor-0": 4.0})
    assert first.heard_ms == sample.NOW - 4000
    assert second.heard_ms == sample.NOW


def test_an_embedded_engine_is_this_machine() -> None:
    (found,) = task_managers([], [replace(FIRST, id="driver")], host="laptop")
    assert (found.id, found.slots) == ("laptop", 4)


def test_metrics_are_those_of_all_processes_together() -> None:
    (found,) = task_managers([on_cluster(sample.running())], [FIRST])
    processes = [ProcessStatistics("worker-1", pid, 0.25, 2.0, 1000, 4000, 5, 3) for pid in (40, 41)]
    metrics = views.manager_metrics(found, processes)
    assert metrics["Status.JVM.CPU.Load"] == 0.5
    assert metrics["Status.JVM.Memory.Heap.Used"] == 2000
    assert metrics["Status.JVM.Memory.Heap.Committed"] == 2000
    assert metrics["Status.JVM.Memory.Heap.Max"] == 8000
    assert metrics["Status.JVM.GarbageCollector.All.Count"] == 6
    assert metrics["Status.JVM.Threads.Count"] == 10
    assert metrics["Status.Spark.StorageMemory.Used"] == 50
    assert metrics["Status.Flink.Tasks"] == 3
    without_limit = replace(processes[0], memory_limit=None)
    assert "Status.JVM.Memory.Heap.Max" not in views.manager_metrics(found, [without_limit, processes[1]])
