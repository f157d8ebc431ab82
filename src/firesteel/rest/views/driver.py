"""The driver itself: Flink's job manager."""

from __future__ import annotations

import logging
import os
import platform
import stat
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from firesteel import __version__
from firesteel.common._redaction import redacted
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.logs.outputs import rolled_files
from firesteel.rest.outline import JobOutline
from firesteel.rest.task_managers import TaskManager
from firesteel.rest.views.jobs import running_tasks

__all__ = [
    "cluster_overview",
    "configuration_entries",
    "dashboard_config",
    "driver_metrics",
    "environment",
    "log_files",
    "log_list",
    "standard_output",
    "thread_dump",
]

#: How often pages ask again, in milliseconds, as in Flink.
REFRESH_MS = 3000

_REVISION = "firesteel"


def dashboard_config(may_change: bool = True) -> dict[str, Any]:
    """What a page needs to know; ``may_change``: who asks may do more than look."""
    return {
        "refresh-interval": REFRESH_MS,
        "timezone-name": time.tzname[time.localtime().tm_isdst > 0],
        "timezone-offset": time.localtime().tm_gmtoff * 1000,
        "flink-version": __version__,
        "flink-revision": _REVISION,
        "features": {
            "web-submit": False,
            "web-cancel": may_change,
            "web-rescale": may_change,
            "web-history": False,
        },
    }


def cluster_overview(
    jobs: Sequence[tuple[JobOutline, JobSnapshot]], managers: Sequence[TaskManager] = ()
) -> dict[str, Any]:
    """Slots and jobs in figures. Where the engine does not tell its slots, they are those that running jobs have asked for.

    Of a job that makes do with fewer, they are those that there are.
    """
    states = [snapshot.status for _, snapshot in jobs]
    ended = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)
    running = [(outline, snapshot) for outline, snapshot in jobs if snapshot.status not in ended]
    known = sum(manager.slots for manager in managers if manager.executor is not None)
    total = known or sum(_slots(outline, snapshot) for outline, snapshot in running)
    used = sum(running_tasks(snapshot) for _, snapshot in running)
    return {
        "taskmanagers": len(managers),
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


def thread_dump(threads: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Threads with their names and stacks."""
    return {"threadInfos": [{"threadName": name, "stringifiedThreadInfo": text} for name, text in threads]}


def log_files() -> list[Path]:
    """The files that this process logs or writes to, as far as it knows them."""
    handlers = logging.getLogger().handlers + logging.getLogger("firesteel").handlers
    named = [Path(each.baseFilename) for each in handlers if isinstance(each, logging.FileHandler)]
    output = [path for path in (standard_output(1), standard_output(2)) if path is not None]
    return list(dict.fromkeys((*named, *(file for path in output for file in rolled_files(path)))))


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
    entries = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue  # it was removed meanwhile
        entries.append({"name": file.name, "size": status.st_size, "mtime": int(status.st_mtime * 1000)})
    return {"logs": entries}


def driver_metrics(
    jobs: Sequence[tuple[JobOutline, JobSnapshot]], managers: Sequence[TaskManager] = ()
) -> dict[str, Any]:
    """Figures of the driver under Flink's names, as far as they have a meaning."""
    overview = cluster_overview(jobs, managers)
    return {
        "numRunningJobs": overview["jobs-running"],
        "numRegisteredTaskManagers": overview["taskmanagers"],
        "taskSlotsTotal": overview["slots-total"],
        "taskSlotsAvailable": overview["slots-available"],
        "Status.JVM.Threads.Count": threading.active_count(),
        "Status.JVM.CPU.Time": time.process_time_ns(),
    }
