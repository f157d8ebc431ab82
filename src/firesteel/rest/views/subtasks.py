"""The subtasks of a vertex, from the states and reports of its job's tasks, and figures about many of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
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
    """One subtask of a vertex in one attempt, ``status`` and ``report`` are those of its task.

    A page with hundreds of them is asked for every second, by everyone who watches: so they copy nothing, and count nothing that
    is not shown.
    """

    index: int
    now: int
    status: TaskStatus
    report: TaskReport | None = None
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def attempt(self) -> int:
        """Which attempt it belongs to, counted from 0 as in Flink."""
        return max(0, self.status.attempt - 1)

    @property
    def state(self) -> ExecutionState:
        """Where its task stands."""
        return self.status.state

    @property
    def since(self) -> tuple[tuple[ExecutionState, int], ...]:
        """When it came to each state that it has had, in their order."""
        return self.status.since

    @property
    def host(self) -> str:
        """The machine of its task; empty before it is known."""
        return self.status.host

    @property
    def executor(self) -> str:
        """The process of the engine that its task belongs to; empty before it is known."""
        return self.status.executor_name

    @property
    def endpoint(self) -> str:
        """The host and process id of its task; `NO_HOST` before the host is known."""
        return f"{self.host}:{self.status.pid}" if self.host else NO_HOST

    @property
    def back_pressure(self) -> float | None:
        """The part of the time in which its task waited for receivers; None where that is not known."""
        return None if self.report is None else self.report.back_pressure

    @property
    def times(self) -> TaskTimes | None:
        """What its task has done with its time. A task may host subtasks of several vertices: it is that of all."""
        return None if self.report is None else self.report.times

    @property
    def accumulators(self) -> Mapping[str, Any]:
        """Those of all subtasks of its task."""
        return {} if self.report is None else self.report.accumulators

    @property
    def start(self) -> int:
        """When the engine began to start it; -1 before."""
        return next((at for state, at in self.since if state is ExecutionState.DEPLOYING), -1)

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
    statuses = {
        status.task.index: status
        for status in snapshot.tasks
        if status.task is not None and status.task.stage == vertex.stage
    }
    leaving = {operator.id for operator in vertex.operators if operator.leaves}
    return [
        _subtask(vertex, leaving, index, statuses.get(vertex.first_task + index), snapshot)
        for index in range(vertex.parallelism)
    ]


def attempts_of(vertex: VertexOutline, index: int, snapshot: JobSnapshot) -> list[Subtask]:
    """One subtask in all attempts that are remembered, the current one last."""
    task = task_of(vertex, index)
    earlier = [status for tasks in snapshot.earlier_tasks for status in tasks if status.task == task]
    past = [Subtask(index, snapshot.now, status) for status in earlier]
    return [*past, subtasks_of(vertex, snapshot)[index]]


def task_of(vertex: VertexOutline, index: int) -> TaskId:
    """The task that a subtask runs in."""
    return TaskId(vertex.stage, vertex.first_task + index)


def _subtask(
    vertex: VertexOutline, leaving: set[str], index: int, status: TaskStatus | None, snapshot: JobSnapshot
) -> Subtask:
    """``leaving``: the operators whose records leave the vertex."""
    if status is None or status.task is None:
        return Subtask(index, snapshot.now, TaskStatus("", ExecutionState.CREATED, snapshot.attempt))
    report = snapshot.reports.get(status.task)
    if report is None:
        return Subtask(index, snapshot.now, status)
    head = vertex.operators[0].id if vertex.inputs else None
    records_in = records_out = bytes_in = bytes_out = 0
    for operator in report.operators:
        if operator.subtask == index:
            if operator.operator_id == head:
                records_in += operator.records_in
            if operator.operator_id in leaving:
                records_out += operator.records_out
    for exchanged in report.subtasks:
        if exchanged.vertex == vertex.number and exchanged.subtask == index:
            bytes_in += exchanged.bytes_in
            bytes_out += exchanged.bytes_out
    return Subtask(index, snapshot.now, status, report, records_in, records_out, bytes_in, bytes_out)


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
    start = min((begun for each in subtasks if (begun := each.start) >= 0), default=-1)
    ends = [each.end for each in subtasks]
    end = -1 if -1 in ends else max(ends, default=-1)
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
    sums = {name: sum(map(get, subtasks)) for name, get in _FIGURES.items()}
    if all(each.times is None for each in subtasks):
        busy: float | str = "NaN"
    else:
        busy = float(sums["accumulated-busy-time"])
    counts = ("read-bytes", "write-bytes", "read-records", "write-records")
    return {
        **sums,
        **{f"{name}-complete": True for name in counts},
        "accumulated-busy-time": busy,
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
    get = attrgetter(name)
    return lambda subtask: 0 if (times := subtask.times) is None else int(get(times))


_FIGURES: dict[str, Callable[[Subtask], int]] = {
    "read-bytes": attrgetter("bytes_in"),
    "write-bytes": attrgetter("bytes_out"),
    "read-records": attrgetter("records_in"),
    "write-records": attrgetter("records_out"),
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
    """The subtasks of all vertices in the current attempt, one vertex after the other."""
    return [each for vertex in outline.vertices for each in subtasks_of(vertex, snapshot)]
