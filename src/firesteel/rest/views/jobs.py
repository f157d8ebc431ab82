"""Jobs as a whole: overviews, details, plan, configuration, result."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from firesteel.common.accumulators import Accumulator
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.task_states import ExecutionState
from firesteel.rest.outline import InputOutline, JobOutline, VertexOutline, scheduler_of
from firesteel.rest.views.subtasks import (
    Subtask,
    all_subtasks,
    begin_and_end,
    io_metrics,
    state_counts,
    state_of_all,
    subtasks_of,
)

__all__ = [
    "accumulators",
    "execution_result",
    "failure_cause",
    "ids",
    "job_config",
    "job_details",
    "job_plan",
    "overview",
    "running_tasks",
    "user_accumulators",
]

_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FAILED: "FAILED",
}


def ids(snapshots: Iterable[JobSnapshot]) -> dict[str, Any]:
    """All jobs with their states."""
    return {"jobs": [{"id": each.job_id, "status": each.status.name} for each in snapshots]}


def overview(jobs: Iterable[tuple[JobOutline, JobSnapshot]]) -> dict[str, Any]:
    """A line for each job."""
    return {"jobs": [_line(outline, snapshot) for outline, snapshot in jobs]}


def _line(outline: JobOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    counts = state_counts(all_subtasks(outline, snapshot))
    changed = [at for _, at in snapshot.status_times]
    changed += [at for task in snapshot.tasks for _, at in task.since]
    return {
        "jid": snapshot.job_id,
        "name": snapshot.name,
        "start-time": snapshot.started,
        "end-time": _end(snapshot),
        "duration": snapshot.duration,
        "state": snapshot.status.name,
        "last-modification": max(changed, default=snapshot.started),
        "tasks": {
            "total": sum(counts.values()),
            **{state.lower(): count for state, count in counts.items()},
        },
        "pending-operators": 0,
        "jobType": outline.mode.name,
        "schedulerType": scheduler_of(outline),
    }


def _end(snapshot: JobSnapshot) -> int:
    """When the job ended; -1 before. A job is in its last state a moment before the rest is done that its end needs."""
    if snapshot.ended is not None:
        return snapshot.ended
    ends = [at for status, at in snapshot.status_times if status.is_terminal_state()]
    return ends[-1] if ends else -1


def job_details(outline: JobOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """Everything about one job but what has a path of its own."""
    times = {status.name: at for status, at in snapshot.status_times}
    vertices = [_vertex(vertex, subtasks_of(vertex, snapshot), snapshot) for vertex in outline.vertices]
    statuses = Counter(each["status"] for each in vertices)
    return {
        "jid": snapshot.job_id,
        "application-id": snapshot.job_id,
        "name": snapshot.name,
        "isStoppable": False,
        "state": snapshot.status.name,
        "job-type": outline.mode.name,
        "start-time": snapshot.started,
        "end-time": _end(snapshot),
        "duration": snapshot.duration,
        "maxParallelism": max((each.max_parallelism for each in outline.vertices), default=-1),
        "now": snapshot.now,
        "timestamps": {
            "INITIALIZING": snapshot.started,
            **{status.name: times.get(status.name, 0) for status in JobStatus},
        },
        "vertices": vertices,
        "status-counts": {state: statuses.get(state, 0) for state in state_counts(())},
        "plan": _plan(outline, snapshot.job_id),
        "stream-graph": {},
        "pending-operators": 0,
        "schedulerType": scheduler_of(outline),
        "slots": {
            "wanted": snapshot.wanted_slots or outline.slots,
            "known": snapshot.known_slots,
            "used": running_tasks(snapshot),
        },
    }


def _vertex(vertex: VertexOutline, subtasks: list[Subtask], snapshot: JobSnapshot) -> dict[str, Any]:
    return {
        "id": vertex.id,
        "slotSharingGroupId": "0" * 32,
        "name": vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": state_of_all([each.state for each in subtasks]).name,
        **begin_and_end(subtasks, snapshot.now),
        "tasks": state_counts(subtasks),
        "metrics": io_metrics(subtasks),
    }


def job_plan(outline: JobOutline, job_id: str) -> dict[str, Any]:
    """The dataflow, the vertices at its end first."""
    return {"plan": _plan(outline, job_id)}


def _plan(outline: JobOutline, job_id: str) -> dict[str, Any]:
    return {
        "jid": job_id,
        "name": outline.name,
        "type": outline.mode.name,
        # Those at the end of the dataflow come first, as in Flink.
        "nodes": [_node(vertex) for vertex in reversed(outline.vertices)],
    }


def _node(vertex: VertexOutline) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": "<br/>".join(operator.name for operator in vertex.operators),
        "optimizer_properties": {},
    }
    if vertex.inputs:
        node["inputs"] = [_input(each) for each in vertex.inputs]
    return node


def _input(edge: InputOutline) -> dict[str, Any]:
    return {
        "num": edge.number,
        "id": edge.source,
        "ship_strategy": edge.ship_strategy,
        "exchange": edge.exchange,
    }


def job_config(outline: JobOutline, job_id: str) -> dict[str, Any]:
    """How the job is executed."""
    restart = outline.options.get("restart-strategy.type") or outline.options.get("restart-strategy")
    widest = max((each.parallelism for each in outline.vertices), default=1)
    parallelism = outline.options.get("parallelism.default", "")
    return {
        "jid": job_id,
        "name": outline.name,
        "execution-config": {
            "restart-strategy": restart or "Cluster level default restart strategy",
            "job-parallelism": int(parallelism) if parallelism.isdigit() else widest,
            "object-reuse-mode": False,
            "user-config": dict(outline.parameters),
        },
    }


def execution_result(
    snapshot: JobSnapshot, results: Mapping[str, Any], error: BaseException | None
) -> dict[str, Any]:
    """How a job has ended; IN_PROGRESS before."""
    if not snapshot.status.is_terminal_state() or snapshot.ended is None:
        return {"status": {"id": "IN_PROGRESS"}}
    result: dict[str, Any] = {
        "id": snapshot.job_id,
        "application-id": snapshot.job_id,
        "name": snapshot.name,
        "start-time": snapshot.started,
        "end-time": snapshot.ended,
        "application-status": _APPLICATION_STATUS.get(snapshot.status, "UNKNOWN"),
        "accumulator-results": {name: str(value) for name, value in results.items()},
        "net-runtime": snapshot.duration,
    }
    if error is not None and snapshot.status is not JobStatus.FINISHED:
        result["failure-cause"] = failure_cause(error)
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def failure_cause(error: BaseException) -> dict[str, str]:
    """An error: its class and its whole text. Flink has a Java object beside them, which nobody could read."""
    chain = traceback.TracebackException.from_exception(error)
    text = "".join(chain.format()) if error.__traceback__ else f"{type(error).__name__}: {error}"
    return {"class": f"{type(error).__module__}.{type(error).__qualname__}", "stack-trace": text}


def accumulators(results: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the whole job. Flink's serialized ones are Java objects, and there are none."""
    return {
        "job-accumulators": [],
        "user-task-accumulators": user_accumulators(results),
        "serialized-user-task-accumulators": {},
    }


def user_accumulators(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Name, type and value of each."""
    return [
        {"name": name, "type": type(value).__name__, "value": str(_local_value(value))}
        for name, value in sorted(values.items())
    ]


def _local_value(value: Any) -> Any:
    return value.get_local_value() if isinstance(value, Accumulator) else value


def running_tasks(snapshot: JobSnapshot) -> int:
    """How many tasks have a slot now."""
    idle = (ExecutionState.CREATED, ExecutionState.SCHEDULED)
    return sum(not task.state.is_terminal and task.state not in idle for task in snapshot.tasks)
