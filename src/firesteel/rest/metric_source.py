"""Where views find metrics: a small protocol, and what the reports of a job's tasks give for it.

Names are Flink's. Those of a vertex begin with the number of the subtask, as in ``0.numRecordsIn``; those of an operator have
its name in front, as in ``0.Map.numRecordsIn``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from firesteel.common._metric_values import DistributionSummary, MeterSummary, MetricValue
from firesteel.common._override import override
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.plan.messages import TaskId, TaskReport
from firesteel.rest.outline import JobOutline, VertexOutline

__all__ = ["KeptMetrics", "MetricSource", "ReportedMetrics", "operator_scope"]

#: What cannot stand in the name of an operator, in a metric's.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9:_-]")


class MetricSource(Protocol):
    """All metrics of one job, by Flink's names; a vertex is named by its number in the plan."""

    def job(self) -> Mapping[str, Any]:
        """Those of the whole job."""
        ...

    def vertex(self, vertex_id: int) -> Mapping[str, Any]:
        """Those of all subtasks of a vertex, each with the number of its subtask in front."""
        ...

    def subtask(self, vertex_id: int, index: int) -> Mapping[str, Any]:
        """Those of one subtask."""
        ...

    def operators(self, vertex_id: int) -> Mapping[str, Mapping[str, Any]]:
        """Those of a vertex's operators, by the name of the operator; each with the number of its subtask in front."""
        ...

    def job_manager(self) -> Mapping[str, Any]:
        """Those of the driver."""
        ...


def operator_scope(name: str) -> str:
    """The name of an operator as a part of a metric's.

    >>> operator_scope("Source: words -> Map")
    'Source:_words_-__Map'
    """
    return _NOT_IN_NAMES.sub("_", name)


class ReportedMetrics(MetricSource):
    """What is in the reports of tasks and in a job's statistics."""

    def __init__(self, outline: JobOutline, snapshot: JobSnapshot) -> None:
        self._outline = outline
        self._snapshot = snapshot

    @override
    def job(self) -> Mapping[str, Any]:
        statistics = self._snapshot.statistics
        checkpoints = statistics.checkpoints
        newest = checkpoints.newest
        found: dict[str, Any] = {
            "uptime": self._snapshot.duration,
            "numRestarts": statistics.restarts,
            "fullRestarts": statistics.restarts,
            "totalNumberOfCheckpoints": checkpoints.begun,
            "numberOfInProgressCheckpoints": checkpoints.in_progress,
            "numberOfCompletedCheckpoints": checkpoints.completed,
            "numberOfFailedCheckpoints": checkpoints.failed + checkpoints.superseded,
        }
        if newest is not None:
            found |= {
                "lastCompletedCheckpointId": newest.id,
                "lastCheckpointDuration": newest.duration_ms,
                "lastCheckpointSize": newest.bytes_written,
                "lastCheckpointFullSize": newest.state_bytes,
                "lastCheckpointExternalPath": newest.path,
            }
        if checkpoints.restoration is not None:
            found["lastCheckpointRestoreTimestamp"] = checkpoints.restoration.time
        return found

    @override
    def vertex(self, vertex_id: int) -> Mapping[str, Any]:
        parallelism = self._outline.vertices[vertex_id].parallelism
        return {
            f"{index}.{name}": value
            for index in range(parallelism)
            for name, value in self.subtask(vertex_id, index).items()
        }

    @override
    def subtask(self, vertex_id: int, index: int) -> Mapping[str, Any]:
        vertex = self._outline.vertices[vertex_id]
        report = self._snapshot.reports.get(TaskId(vertex.stage, vertex.first_task + index))
        return {} if report is None else dict(_reported(vertex, index, report))

    @override
    def operators(self, vertex_id: int) -> Mapping[str, Mapping[str, Any]]:
        names = [operator.name for operator in self._outline.vertices[vertex_id].operators]
        return {name: _of_operator(name, self.vertex(vertex_id)) for name in names}

    @override
    def job_manager(self) -> Mapping[str, Any]:
        return {}


class KeptMetrics(MetricSource):
    """The last values of a job that is over, whatever they came from."""

    def __init__(self, outline: JobOutline, source: MetricSource) -> None:
        self._job = dict(source.job())
        self._vertices = {each.number: dict(source.vertex(each.number)) for each in outline.vertices}
        self._operators = {each.number: dict(source.operators(each.number)) for each in outline.vertices}

    @override
    def job(self) -> Mapping[str, Any]:
        return self._job

    @override
    def vertex(self, vertex_id: int) -> Mapping[str, Any]:
        return self._vertices[vertex_id]

    @override
    def subtask(self, vertex_id: int, index: int) -> Mapping[str, Any]:
        return _behind(f"{index}.", self._vertices[vertex_id])

    @override
    def operators(self, vertex_id: int) -> Mapping[str, Mapping[str, Any]]:
        return self._operators[vertex_id]

    @override
    def job_manager(self) -> Mapping[str, Any]:
        return {}


def _behind(prefix: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}


def _of_operator(operator: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Those of one operator, without its name."""
    split = {name: name.split(".", 2) for name in metrics}
    scope = operator_scope(operator)
    return {
        f"{parts[0]}.{parts[2]}": metrics[name]
        for name, parts in split.items()
        if len(parts) == 3 and parts[1] == scope
    }


def _reported(vertex: VertexOutline, index: int, report: TaskReport) -> Iterator[tuple[str, Any]]:
    counts = {each.operator_id: each for each in report.operators if each.subtask == index}
    head = counts.get(vertex.operators[0].id)
    if head is not None:
        yield "numRecordsIn", head.records_in if vertex.inputs else 0
    for value in report.metrics:
        is_head = value.operator_id == vertex.operators[0].id and value.subtask == index
        if is_head and value.full_name == "currentInputWatermark":
            yield "currentInputWatermark", value.value
    leaving = [counts[each.id] for each in vertex.operators if each.leaves and each.id in counts]
    yield "numRecordsOut", sum(each.records_out for each in leaving)
    if report.back_pressure is not None:
        yield "backPressuredTimeMsPerSecond", round(report.back_pressure * 1000)
    names = {each.id: operator_scope(each.name) for each in vertex.operators}
    for operator_id, name in names.items():
        if (count := counts.get(operator_id)) is not None:
            yield f"{name}.numRecordsIn", count.records_in
            yield f"{name}.numRecordsOut", count.records_out
            if count.watermark is not None:
                yield f"{name}.currentOutputWatermark", count.watermark
    for value in report.metrics:
        if value.subtask == index and value.operator_id in names:
            yield from _user_metric(f"{names[value.operator_id]}.{value.full_name}", value)


def _user_metric(name: str, metric: MetricValue) -> Iterator[tuple[str, Any]]:
    match metric.value:
        case MeterSummary(count, rate):
            yield f"{name}_count", count
            yield f"{name}_rate", rate
        case DistributionSummary() as summary:
            yield f"{name}_count", summary.count
            yield f"{name}_min", summary.minimum
            yield f"{name}_max", summary.maximum
            yield f"{name}_mean", summary.mean
        case None:
            pass
        case value:
            yield name, value
