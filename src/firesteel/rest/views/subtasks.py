"""The subtasks of a vertex, from the states and reports of its job's tasks, and figures about many of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.task_states import ExecutionState, TaskStatus
from firesteel.plan.messages import TaskId, TaskReport, TaskTimes
from firesteel.rest.outline import JobOutline, VertexOutline

__all__ = [
    "NO_HOST",
    "Subtask",
    "aggregated",
    "all_subtasks",
    "attempts_of",
    "begin_and_end",
    "distribution",
    "io_metrics",
    "state_counts",
    "state_of_all",
    "subtasks_of",
    "task_of",
]

#: What stands for a host that is not known yet, as in Flink.
NO_HOST = "(unassigned)"

#: The state of a vertex whose subtasks have different ones is the first of these that one of them has.
_FIRST_OF = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


@dataclass(frozen=True, slots=True)
class Subtask:
    """One subtask of a vertex in one attempt. ``attempt`` counts from 0, as in Flink."""

    index: int
    attempt: int
    state: ExecutionState
    now: int
    since: tuple[tuple[ExecutionState, int], ...] = ()
    host: str = ""
    pid: int = 0
    executor: str = ""
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    back_pressure: float | None = None
    times: TaskTimes | None = None
    accumulators: Mapping[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        """Host and process."""
        return f"{self.host}:{self.pid}" if self.host else NO_HOST

    @property
    def start(self) -> int:
        """When the engine began to start it; -1 before."""
        return dict(self.since).get(ExecutionState.DEPLOYING, -1)

    @property
    def end(self) -> int:
        """When it ended; -1 before."""
        return self.since[-1][1] if self.since and self.state.is_terminal else -1

    @property
    def duration(self) -> int:
        """From the start to the end, or to now; -1 before the start."""
        if self.start < 0:
            return -1
        return max(0, (self.now if self.end < 0 else self.end) - self.start)

    def state_durations(self) -> dict[str, int]:
        """How long it was in each state on the way to its end; -1 where it was not."""
        passed = {state: after - at for (state, at), (_, after) in pairwise(self.since)}
        if self.since and not self.state.is_terminal:
            passed[self.state] = max(0, self.now - self.since[-1][1])
        states = (
            ExecutionState.CREATED,
            ExecutionState.SCHEDULED,
            ExecutionState.DEPLOYING,
            ExecutionState.INITIALIZING,
            ExecutionState.RUNNING,
        )
        return {state.name: passed.get(state, -1) for state in states}


def subtasks_of(vertex: VertexOutline, snapshot: JobSnapshot) -> list[Subtask]:
    """The subtasks of the current attempt."""
    statuses = {status.task: status for status in snapshot.tasks if status.task is not None}
    return [_subtask(vertex, index, statuses, snapshot) for index in range(vertex.parallelism)]


def attempts_of(vertex: VertexOutline, index: int, snapshot: JobSnapshot) -> list[Subtask]:
    """One subtask in all attempts that are remembered, the current one last."""
    task = task_of(vertex, index)
    earlier = [status for tasks in snapshot.earlier_tasks for status in tasks if status.task == task]
    past = [_of_status(index, status, snapshot.now) for status in earlier]
    return [*past, subtasks_of(vertex, snapshot)[index]]


def _subtask(
    vertex: VertexOutline, index: int, statuses: Mapping[TaskId, TaskStatus], snapshot: JobSnapshot
) -> Subtask:
    task = task_of(vertex, index)
    report = snapshot.reports.get(task)
    status = statuses.get(task)
    if status is None:
        return Subtask(index, max(0, snapshot.attempt - 1), ExecutionState.CREATED, snapshot.now)
    found = _of_status(index, status, snapshot.now)
    return found if report is None else _with_report(found, vertex, report)


def task_of(vertex: VertexOutline, index: int) -> TaskId:
    """The task that a subtask runs in."""
    return TaskId(vertex.stage, vertex.first_task + index)


def _of_status(index: int, status: TaskStatus, now: int) -> Subtask:
    return Subtask(
        index,
        max(0, status.attempt - 1),
        status.state,
        now,
        status.since,
        status.host,
        status.pid,
        status.executor_name,
    )


def _with_report(subtask: Subtask, vertex: VertexOutline, report: TaskReport) -> Subtask:
    """With what its task has reported. A task may host subtasks of several vertices: times and accumulators are those of all."""
    counts = {each.operator_id: each for each in report.operators if each.subtask == subtask.index}
    head = counts.get(vertex.operators[0].id)
    leaving = [counts[each.id] for each in vertex.operators if each.leaves and each.id in counts]
    exchanged = [
        each for each in report.subtasks if (each.vertex, each.subtask) == (vertex.number, subtask.index)
    ]
    return replace(
        subtask,
        records_in=head.records_in if head is not None and vertex.inputs else 0,
        records_out=sum(each.records_out for each in leaving),
        bytes_in=sum(each.bytes_in for each in exchanged),
        bytes_out=sum(each.bytes_out for each in exchanged),
        back_pressure=report.back_pressure,
        times=report.times,
        accumulators=report.accumulators,
    )


def state_of_all(states: Sequence[ExecutionState]) -> ExecutionState:
    """The state of a vertex, from those of its subtasks."""
    for state in _FIRST_OF:
        if state in states:
            return state
    if ExecutionState.FINISHED in states:
        all_have = all(state is ExecutionState.FINISHED for state in states)
        return ExecutionState.FINISHED if all_have else ExecutionState.RUNNING
    return ExecutionState.CREATED


def begin_and_end(subtasks: Sequence[Subtask], now: int) -> dict[str, int]:
    """``start-time``, ``end-time`` and ``duration`` of many; -1 for what has not happened."""
    starts = [each.start for each in subtasks if each.start >= 0]
    start = min(starts, default=-1)
    end = max((each.end for each in subtasks), default=-1)
    if any(each.end < 0 for each in subtasks):
        end = -1
    duration = -1 if start < 0 else max(0, (now if end < 0 else end) - start)
    return {"start-time": start, "end-time": end, "duration": duration}


def state_counts(subtasks: Iterable[Subtask]) -> dict[str, int]:
    """How many are in each of Flink's states."""
    counts = dict.fromkeys((*(each.name for each in ExecutionState), "RECONCILING"), 0)
    for subtask in subtasks:
        counts[subtask.state.name] += 1
    return counts


def io_metrics(subtasks: Iterable[Subtask]) -> dict[str, Any]:
    """Records, bytes and times, added up. Where no task has told its times yet, busy is not a number, as in Flink."""
    subtasks = list(subtasks)
    is_timed = any(each.times is not None for each in subtasks)
    sums = {name: sum(map(get, subtasks)) for name, get in _FIGURES.items()}
    counts = ("read-bytes", "write-bytes", "read-records", "write-records")
    return {
        **sums,
        **{f"{name}-complete": True for name in counts},
        "accumulated-busy-time": float(sums["accumulated-busy-time"]) if is_timed else "NaN",
    }


def aggregated(subtasks: Sequence[Subtask]) -> dict[str, Any]:
    """How figures are distributed over subtasks."""
    durations = [each.state_durations() for each in subtasks]
    states = durations[0] if durations else {}
    return {
        "metrics": {name: distribution(list(map(get, subtasks))) for name, get in _FIGURES.items()},
        "status-duration": {state: distribution([each[state] for each in durations]) for state in states},
    }


def _spent(name: str) -> Callable[[Subtask], int]:
    return lambda subtask: 0 if subtask.times is None else int(getattr(subtask.times, name))


_FIGURES: dict[str, Callable[[Subtask], int]] = {
    "read-bytes": lambda each: each.bytes_in,
    "write-bytes": lambda each: each.bytes_out,
    "read-records": lambda each: each.records_in,
    "write-records": lambda each: each.records_out,
    "accumulated-backpressured-time": _spent("back_pressured_ms"),
    "accumulated-idle-time": _spent("idle_ms"),
    "accumulated-busy-time": _spent("busy_ms"),
}


def distribution(values: Sequence[int]) -> dict[str, int]:
    """Least, greatest, mean, sum and quantiles; all 0 for no values.

    >>> distribution([1, 2, 9])
    {'min': 1, 'max': 9, 'avg': 4, 'sum': 12, 'median': 2, 'p25': 1, 'p75': 9, 'p95': 9}
    """
    ordered = sorted(values) or [0]

    def quantile(share: float) -> int:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "sum": sum(ordered),
        "median": int(statistics.median(ordered)),
        "p25": quantile(0.25),
        "p75": quantile(0.75),
        "p95": quantile(0.95),
    }


def all_subtasks(outline: JobOutline, snapshot: JobSnapshot) -> list[Subtask]:
    """Those of all vertices."""
    return [each for vertex in outline.vertices for each in subtasks_of(vertex, snapshot)]
