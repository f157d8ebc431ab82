"""One vertex: its subtasks, attempts, times, places, back pressure, watermarks and accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.rest.metric_source import MetricSource
from firesteel.rest.outline import VertexOutline
from firesteel.rest.views.jobs import user_accumulators
from firesteel.rest.views.subtasks import (
    NO_HOST,
    Subtask,
    aggregated,
    begin_and_end,
    io_metrics,
    state_counts,
    state_of_all,
    subtasks_of,
)

__all__ = [
    "back_pressure",
    "subtask_accumulators",
    "subtask_details",
    "subtask_times",
    "subtasks_accumulators",
    "task_managers",
    "vertex_accumulators",
    "vertex_details",
    "watermarks",
]

#: Above these shares of its time a subtask is called so, as in Flink.
_LOW, _HIGH = 0.1, 0.5


def vertex_details(vertex: VertexOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """The vertex with all its subtasks."""
    subtasks = subtasks_of(vertex, snapshot)
    return {
        "id": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": snapshot.now,
        "subtasks": [subtask_details(each) for each in subtasks],
        "aggregated": aggregated(subtasks),
    }


def subtask_details(subtask: Subtask) -> dict[str, Any]:
    """One attempt of one subtask."""
    return {
        "subtask": subtask.index,
        "status": subtask.state.name,
        "attempt": subtask.attempt,
        "endpoint": subtask.endpoint,
        "start-time": subtask.start,
        "start_time": subtask.start,
        "end-time": subtask.end,
        "duration": subtask.duration,
        "metrics": io_metrics([subtask]),
        "taskmanager-id": subtask.executor or NO_HOST,
        "status-duration": subtask.state_durations(),
    }


def subtask_times(vertex: VertexOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """When each subtask came to each state; 0 where it did not."""
    return {
        "id": vertex.id,
        "name": vertex.name,
        "now": snapshot.now,
        "subtasks": [_times(each) for each in subtasks_of(vertex, snapshot)],
    }


def _times(subtask: Subtask) -> dict[str, Any]:
    since = {state.name: at for state, at in subtask.since}
    return {
        "subtask": subtask.index,
        "endpoint": subtask.endpoint,
        "duration": subtask.duration,
        "timestamps": {state: since.get(state, 0) for state in state_counts(())},
    }


def task_managers(vertex: VertexOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """The subtasks by the executor that they run in."""
    subtasks = subtasks_of(vertex, snapshot)
    places = {each.executor or NO_HOST: each.host or NO_HOST for each in subtasks}
    return {
        "id": vertex.id,
        "name": vertex.name,
        "now": snapshot.now,
        "taskmanagers": [
            _task_manager(
                name, host, [each for each in subtasks if (each.executor or NO_HOST) == name], snapshot.now
            )
            for name, host in places.items()
        ],
    }


def _task_manager(name: str, host: str, subtasks: list[Subtask], now: int) -> dict[str, Any]:
    return {
        "endpoint": host,
        "taskmanager-id": name,
        "status": state_of_all([each.state for each in subtasks]).name,
        **begin_and_end(subtasks, now),
        "metrics": io_metrics(subtasks),
        "status-counts": state_counts(subtasks),
        "aggregated": aggregated(subtasks),
    }


def back_pressure(vertex: VertexOutline, snapshot: JobSnapshot, metrics: MetricSource) -> dict[str, Any]:
    """How much of its time each subtask waits for those behind it, as last reported; nothing of a job that does not run."""
    if snapshot.status is not JobStatus.RUNNING:
        return {"status": "deprecated"}
    subtasks = subtasks_of(vertex, snapshot)
    levels = [_level(each.back_pressure) for each in subtasks]
    highest = next((level for level in ("high", "low") if level in levels), "ok")
    return {
        "status": "ok",
        "backpressureLevel": highest,
        "backpressure-level": highest,
        "end-timestamp": snapshot.now,
        "subtasks": [_pressure(each, metrics.subtask(vertex.number, each.index)) for each in subtasks],
    }


def _pressure(subtask: Subtask, metrics: Any) -> dict[str, Any]:
    level = _level(subtask.back_pressure)
    return {
        "subtask": subtask.index,
        "attempt-number": subtask.attempt,
        "backpressureLevel": level,
        "backpressure-level": level,
        "ratio": subtask.back_pressure or 0.0,
        "idleRatio": _share(metrics.get("idleTimeMsPerSecond")),
        "busyRatio": _share(metrics.get("busyTimeMsPerSecond")),
    }


def _share(millis_per_second: Any) -> float | str:
    is_number = isinstance(millis_per_second, int | float) and millis_per_second == millis_per_second
    return millis_per_second / 1000 if is_number else "NaN"


def _level(share: float | None) -> str:
    if share is None or share <= _LOW:
        return "ok"
    return "low" if share <= _HIGH else "high"


def watermarks(vertex: VertexOutline, metrics: MetricSource) -> list[dict[str, str]]:
    """How far event time has come at the input of each subtask, of those that have a watermark."""
    names = [f"{index}.currentInputWatermark" for index in range(vertex.parallelism)]
    known = metrics.vertex(vertex.number)
    return [{"id": name, "value": str(known[name])} for name in names if name in known]


def vertex_accumulators(vertex: VertexOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """What each task of the vertex has accumulated, one after the other."""
    subtasks = subtasks_of(vertex, snapshot)
    return {
        "id": vertex.id,
        "user-accumulators": [entry for each in subtasks for entry in user_accumulators(each.accumulators)],
    }


def subtasks_accumulators(vertex: VertexOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """What each subtask's task has accumulated, subtask by subtask."""
    return {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "subtasks": [
            {
                "subtask": each.index,
                "attempt": each.attempt,
                "endpoint": each.endpoint,
                "user-accumulators": user_accumulators(each.accumulators),
            }
            for each in subtasks_of(vertex, snapshot)
        ],
    }


def subtask_accumulators(subtask: Subtask, attempts: Sequence[Subtask]) -> dict[str, Any]:
    """What the task of a subtask has accumulated in one of the attempts."""
    return {
        "subtask": subtask.index,
        "attempt": subtask.attempt,
        "id": f"{subtask.index}_{subtask.attempt}_{len(attempts)}",
        "user-accumulators": user_accumulators(subtask.accumulators),
    }
