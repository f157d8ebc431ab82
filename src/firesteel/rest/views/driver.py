"""The driver itself - Flink's job manager - and the hosts that tasks run on, its task managers."""

from __future__ import annotations

import logging
import os
import platform
import stat
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from firesteel import __version__
from firesteel.common._redaction import redacted
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.task_states import ExecutionState, TaskStatus
from firesteel.rest.outline import JobOutline
from firesteel.rest.views.jobs import running_tasks

__all__ = [
    "cluster_overview",
    "configuration_entries",
    "dashboard_config",
    "driver_metrics",
    "environment",
    "hosts",
    "log_files",
    "log_list",
    "standard_output",
    "task_manager",
    "task_managers",
    "thread_dump",
]

#: How often pages ask again, in milliseconds, as in Flink.
REFRESH_MS = 3000

_REVISION = "firesteel"
_IDLE = (ExecutionState.CREATED, ExecutionState.SCHEDULED)


def dashboard_config() -> dict[str, Any]:
    """What a page needs to know."""
    return {
        "refresh-interval": REFRESH_MS,
        "timezone-name": time.tzname[time.localtime().tm_isdst > 0],
        "timezone-offset": time.localtime().tm_gmtoff * 1000,
        "flink-version": __version__,
        "flink-revision": _REVISION,
        "features": {
            "web-submit": False,
            "web-cancel": True,
            "web-rescale": True,
            "web-history": False,
        },
    }


def cluster_overview(jobs: Sequence[tuple[JobOutline, JobSnapshot]]) -> dict[str, Any]:
    """Slots and jobs in figures. The slots are those that the running jobs have asked for: Spark's others are not known.

    Of a job that makes do with fewer, they are those that there are.
    """
    states = [snapshot.status for _, snapshot in jobs]
    ended = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)
    running = [(outline, snapshot) for outline, snapshot in jobs if snapshot.status not in ended]
    total = sum(_slots(outline, snapshot) for outline, snapshot in running)
    used = sum(running_tasks(snapshot) for _, snapshot in running)
    return {
        "taskmanagers": len(hosts(snapshot for _, snapshot in jobs)),
        "taskmanagers-blocked": 0,
        "slots-total": total,
        "slots-available": max(0, total - used),
        "slots-free-and-blocked": 0,
        "jobs-running": len(running),
        "jobs-finished": states.count(JobStatus.FINISHED),
        "jobs-cancelled": states.count(JobStatus.CANCELED),
        "jobs-failed": states.count(JobStatus.FAILED),
        "flink-version": __version__,
        "flink-commit": _REVISION,
    }


def _slots(outline: JobOutline, snapshot: JobSnapshot) -> int:
    return outline.slots if snapshot.known_slots is None else snapshot.known_slots


def configuration_entries(options: Mapping[str, str]) -> list[dict[str, str]]:
    """Options as given, without what is secret."""
    return [{"key": key, "value": str(value)} for key, value in sorted(redacted(options).items())]


def environment() -> dict[str, Any]:
    """Interpreter and module path, in the places that Flink has for Java's."""
    implementation = platform.python_implementation()
    return {
        "jvm": {
            "version": f"{implementation} {platform.python_version()}",
            "arch": platform.machine(),
            "options": [f"-X {name}={value}" for name, value in sorted(sys._xoptions.items())],
        },
        "classpath": [entry for entry in sys.path if entry],
    }


def thread_dump() -> dict[str, Any]:
    """What every thread of the driver does now."""
    names = {thread.ident: thread for thread in threading.enumerate()}
    return {
        "threadInfos": [
            _thread(names.get(ident), ident, frame) for ident, frame in sorted(sys._current_frames().items())
        ]
    }


def _thread(thread: threading.Thread | None, ident: int, frame: Any) -> dict[str, str]:
    name = f"thread {ident}" if thread is None else thread.name
    kind = " daemon" if thread is not None and thread.daemon else ""
    stack = "".join(traceback.format_stack(frame))
    return {"threadName": name, "stringifiedThreadInfo": f'"{name}"{kind} id={ident}\n{stack}\n'}


def log_files() -> list[Path]:
    """The files that this process logs or writes to, as far as it knows them."""
    handlers = logging.getLogger().handlers + logging.getLogger("firesteel").handlers
    named = [Path(each.baseFilename) for each in handlers if isinstance(each, logging.FileHandler)]
    output = [path for path in (standard_output(1), standard_output(2)) if path is not None]
    return list(dict.fromkeys((*named, *output)))


def standard_output(descriptor: int) -> Path | None:
    """The file that standard output (1) or error (2) goes to; None when that is none, or nobody can tell which."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        return None
    return path if path.is_file() else None


def log_list(files: Iterable[Path]) -> dict[str, Any]:
    """Name, size and time of each file."""
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue  # it was removed meanwhile
        found.append({"name": file.name, "size": status.st_size, "mtime": int(status.st_mtime * 1000)})
    return {"logs": found}


def driver_metrics(jobs: Sequence[tuple[JobOutline, JobSnapshot]]) -> dict[str, Any]:
    """Figures of the driver under Flink's names, as far as they have a meaning."""
    overview = cluster_overview(jobs)
    return {
        "numRunningJobs": overview["jobs-running"],
        "numRegisteredTaskManagers": overview["taskmanagers"],
        "taskSlotsTotal": overview["slots-total"],
        "taskSlotsAvailable": overview["slots-available"],
        "Status.JVM.Threads.Count": threading.active_count(),
        "Status.JVM.CPU.Time": time.process_time_ns(),
    }


def hosts(snapshots: Iterable[JobSnapshot]) -> dict[str, list[tuple[str, TaskStatus]]]:
    """The tasks that have a process now, with their jobs, by host."""
    found: dict[str, list[tuple[str, TaskStatus]]] = {}
    for snapshot in snapshots:
        for task in snapshot.tasks:
            if task.host and not task.state.is_terminal and task.state not in _IDLE:
                found.setdefault(task.host, []).append((snapshot.job_id, task))
    return found


def task_managers(snapshots: Iterable[JobSnapshot]) -> dict[str, Any]:
    """The hosts on which tasks run now."""
    return {"taskmanagers": [_host(name, tasks) for name, tasks in hosts(snapshots).items()]}


def _host(name: str, tasks: Sequence[tuple[str, TaskStatus]]) -> dict[str, Any]:
    is_here = name in ("localhost", platform.node())
    processes = dict.fromkeys(str(task.pid) for _, task in tasks)
    return {
        "id": name,
        "path": f"{name}: processes {', '.join(processes)}",
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": 0,
        "slotsNumber": len(tasks),
        "freeSlots": 0,
        "assignedTasks": len(tasks),
        "totalResource": _RESOURCE,
        "freeResource": _RESOURCE,
        "hardware": {
            "cpuCores": (os.cpu_count() or 0) if is_here else 0,
            "physicalMemory": _physical_memory() if is_here else 0,
            "freeMemory": 0,
            "managedMemory": 0,
        },
        "memoryConfiguration": dict.fromkeys(_MEMORY, None),
        "blocked": False,
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


def task_manager(name: str, tasks: Sequence[tuple[str, TaskStatus]]) -> dict[str, Any]:
    """One host, with its slots."""
    return {
        **_host(name, tasks),
        "allocatedSlots": [
            {"jobId": job_id, "resource": _RESOURCE, "assignedTasks": 1} for job_id, _ in tasks
        ],
    }
