"""Executors with their slots, memory and tasks, as Flink shows its task managers."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from typing import Any

from firesteel.common._executor_name import executor_name
from firesteel.plan.executor import EngineExecutor
from firesteel.plan.messages import ProcessStatistics
from firesteel.rest.task_managers import TaskManager

__all__ = ["list_of_managers", "manager_details", "manager_metrics", "why_missing"]


def list_of_managers(managers: Iterable[TaskManager], lost: Sequence[EngineExecutor] = ()) -> dict[str, Any]:
    """Those that are there, and those that were lost, which Flink forgets."""
    return {"taskmanagers": [_manager(each) for each in managers], "lost": [_lost(each) for each in lost]}


def manager_details(manager: TaskManager) -> dict[str, Any]:
    """One executor, with its slots."""
    return {
        **_manager(manager),
        "allocatedSlots": [
            {"jobId": job_id, "resource": _RESOURCE, "assignedTasks": 1} for job_id, _ in manager.tasks
        ],
    }


def manager_metrics(manager: TaskManager, processes: Iterable[ProcessStatistics]) -> dict[str, Any]:
    """Figures of an executor: those of its tasks' processes together, under the names that Flink has for a JVM's."""
    processes = list(processes)
    executor = manager.executor
    known: dict[str, Any] = {}
    if executor is not None:
        known |= {
            "Status.Spark.StorageMemory.Max": executor.memory,
            "Status.Spark.StorageMemory.Used": executor.memory_used,
            "Status.Spark.Heap.Peak": executor.heap_used,
        }
    limits = [each.memory_limit for each in processes if each.memory_limit is not None]
    if limits and len(limits) == len(processes):
        known["Status.JVM.Memory.Heap.Max"] = sum(limits)
    return {
        "Status.Flink.Tasks": len(manager.tasks),
        "Status.Flink.Jobs": len({job_id for job_id, _ in manager.tasks}),
        "Status.JVM.CPU.Load": sum(each.cpu_load for each in processes),
        "Status.JVM.CPU.Time": int(sum(each.cpu_seconds for each in processes) * 1e9),
        "Status.JVM.Memory.Heap.Used": sum(each.resident_bytes for each in processes),
        "Status.JVM.Memory.Heap.Committed": sum(each.resident_bytes for each in processes),
        "Status.JVM.Threads.Count": sum(each.threads for each in processes),
        "Status.JVM.GarbageCollector.All.Count": sum(each.collections for each in processes),
        **known,
    }


def _manager(manager: TaskManager) -> dict[str, Any]:
    is_here = manager.host in ("localhost", platform.node())
    processes = dict.fromkeys(str(task.pid) for _, task in manager.tasks)
    executor = manager.executor
    return {
        "id": manager.id,
        "path": f"{manager.host}: processes {', '.join(processes) or 'none'}",
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": manager.heard_ms,
        "slotsNumber": manager.slots,
        "freeSlots": manager.slots - len(manager.tasks),
        "assignedTasks": len(manager.tasks),
        "totalResource": _RESOURCE,
        "freeResource": _RESOURCE,
        "hardware": {
            "cpuCores": (os.cpu_count() or 0) if is_here else manager.slots,
            "physicalMemory": _physical_memory() if is_here else 0,
            "freeMemory": 0 if executor is None else executor.memory,
            "managedMemory": 0,
        },
        "memoryConfiguration": dict.fromkeys(_MEMORY, None),
        "blocked": False,
    }


def why_missing(name: str, lost: Sequence[EngineExecutor]) -> str:
    """A sentence about an executor that is not there; of those that were lost the newest are first."""
    for executor in lost:
        if executor_name(executor.host, executor.id) == name:
            why = f": {executor.reason}" if executor.reason else ""
            return f"executor {name!r} on {executor.host} was lost{why}; GET /taskmanagers says when, and lists those that are there"
    return f"there is no executor {name[:100]!r} now; GET /taskmanagers lists those that are"


def _lost(executor: EngineExecutor) -> dict[str, Any]:
    return {
        "id": executor_name(executor.host, executor.id),
        "host": executor.host,
        "since": executor.since_ms,
        "lost": executor.lost_ms or 0,
        "reason": executor.reason,
    }


#: Spark has resources of executors, not of slots.
_RESOURCE: dict[str, Any] = {
    "cpuCores": 0.0,
    "taskHeapMemory": 0,
    "taskOffHeapMemory": 0,
    "managedMemory": 0,
    "networkMemory": 0,
    "extendedResources": {},
}
_MEMORY = (
    "frameworkHeap",
    "taskHeap",
    "frameworkOffHeap",
    "taskOffHeap",
    "networkMemory",
    "managedMemory",
    "jvmMetaspace",
    "jvmOverhead",
    "totalFlinkMemory",
    "totalProcessMemory",
)


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
