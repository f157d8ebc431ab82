"""The hosts of a job: who runs there, who was heard when, who was lost and who is back, and what the job waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firesteel.common.time import to_millis
from firesteel.jobmaster.host_history import HostRecord
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.task_states import ExecutionState, TaskStatus
from firesteel.plan.executor import SlotWait
from firesteel.plan.heartbeat import HeartbeatSettings

__all__ = ["job_hosts"]

_WITHOUT_PROCESS = (ExecutionState.CREATED, ExecutionState.SCHEDULED)


def job_hosts(snapshot: JobSnapshot) -> dict[str, Any]:
    """All hosts that the job has had, and how they are watched."""
    running: dict[str, list[TaskStatus]] = {}
    for task in snapshot.tasks:
        if task.host and not task.state.is_terminal and task.state not in _WITHOUT_PROCESS:
            running.setdefault(task.host, []).append(task)
    known = {record.host: record for record in snapshot.hosts}
    return {
        "now": snapshot.now,
        "heartbeat": _heartbeat(snapshot.heartbeat),
        "waitingForSlots": _wait(snapshot.slot_wait),
        "hosts": [
            _host(name, known.get(name), running.get(name, ()), snapshot)
            for name in sorted({*known, *running})
        ],
    }


def _heartbeat(settings: HeartbeatSettings | None) -> dict[str, Any] | None:
    if settings is None:
        return None
    return {"interval": to_millis(settings.interval), "timeout": to_millis(settings.timeout)}


def _wait(wait: SlotWait | None) -> dict[str, Any] | None:
    if wait is None:
        return None
    return {"needed": wait.needed, "available": wait.available, "since": to_millis(wait.since)}


def _host(
    name: str, record: HostRecord | None, tasks: Sequence[TaskStatus], snapshot: JobSnapshot
) -> dict[str, Any]:
    ids = {task.task for task in tasks}
    silences = [seconds for task, seconds in snapshot.silences.items() if task in ids]
    is_lost = record is not None and record.is_lost
    return {
        "host": name,
        "status": "LOST" if is_lost else "RUNNING" if tasks else "IDLE",
        "tasks": len(tasks),
        "processes": sorted({task.pid for task in tasks}),
        "timeSinceLastHeartbeat": to_millis(max(silences)) if silences else None,
        "losses": 0 if record is None else record.losses,
        "lost": None if record is None else record.lost,
        "reason": None if record is None else record.reason or None,
        "returned": None if record is None else record.returned,
    }
