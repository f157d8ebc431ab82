"""All metrics of a job, for whoever asks: REST, pages, reporters.

Nothing is kept here: every question is answered from the newest reports of the tasks and from what the job master knows. Maps
have the names that Flink's REST interface has: ``numRecordsIn`` of a subtask, ``0.numRecordsIn`` of a vertex,
``0.Map.cache.hits`` for an operator in it; a histogram is several metrics, as in ``size_p95``, and a meter its rate.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from firesteel.common._metric_values import DistributionSummary, HistogramSummary, MeterSummary
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidArgumentError
from firesteel.jobmaster.job_metrics import DriverProcess, gauges, process_readings
from firesteel.jobmaster.statistics import ReportBook
from firesteel.jobmaster.task_metrics import SubtaskMetrics, distinct_names, subtasks_of
from firesteel.metrics._reported import ReportedMetric
from firesteel.metrics._scopes import ScopeFormats, ScopeKind
from firesteel.metrics.metricbase import Reading
from firesteel.plan.job_plan import OperatorPlan, VertexPlan
from firesteel.plan.metric_variables import (
    job_variables,
    operator_variables,
    process_variables,
    subtask_variables,
    this_process,
)

__all__ = ["MetricRegistry"]

_NOT_IN_NAMES = str.maketrans(dict.fromkeys(" .:,", "_"))


class MetricRegistry:
    """The metrics of one job and of the processes that it runs in; may be used from any thread.

    ``reports`` know the plan, which changes when the job is rescaled. ``job_figures`` gives the metrics of the job as a whole, ``attempt`` the number of the current attempt. A vertex is named
    by its number in the plan, or by the id of its first operator, as Flink does.
    """

    _known: weakref.WeakSet[MetricRegistry] = weakref.WeakSet()
    _known_lock = threading.Lock()

    def __init__(
        self,
        job_id: str,
        reports: ReportBook,
        job_figures: Callable[[], Mapping[str, Any]],
        attempt: Callable[[], int] = lambda: 1,
    ) -> None:
        self._job_id = job_id
        self._reports = reports
        self._job_figures = job_figures
        self._attempt = attempt
        self._formats = ScopeFormats.of(Configuration.from_dict(dict(reports.plan.options)))
        self._driver = DriverProcess()
        with self._known_lock:
            self._known.add(self)

    # Maps, by place -----------------------------------------------------------------------------------

    def job(self) -> Mapping[str, Any]:
        """The job as a whole: checkpoints, restarts, times, and what latency markers tell."""
        latencies = [reading for _, _, reading in self._latencies(self._subtasks())]
        return _flat([*gauges(self._job_figures()), *latencies])

    def vertex(self, vertex_id: int | str) -> Mapping[str, Any]:
        """All subtasks of a vertex with their operators; every name begins with the number of the subtask."""
        metrics: dict[str, Any] = {}
        for subtask in self._subtasks(vertex_id):
            metrics.update(
                {f"{subtask.subtask}.{name}": value for name, value in _of_subtask(subtask).items()}
            )
        return metrics

    def subtask(self, vertex_id: int | str, index: int) -> Mapping[str, Any]:
        """One subtask with its operators; empty when it has not reported yet."""
        for subtask in self._subtasks(vertex_id):
            if subtask.subtask == index:
                return _of_subtask(subtask)
        return {}

    def operators(self, vertex_id: int | str) -> Mapping[str, Mapping[str, Any]]:
        """The operators of a vertex by name; names of their metrics begin with the number of the subtask."""
        by_operator: dict[str, dict[str, Any]] = {}
        for subtask in self._subtasks(vertex_id):
            for name, readings in _by_name(subtask):
                metrics = by_operator.setdefault(name, {})
                metrics.update(
                    {f"{subtask.subtask}.{metric}": value for metric, value in _flat(readings).items()}
                )
        return by_operator

    def job_manager(self) -> Mapping[str, Any]:
        """The process of the driver."""
        return _flat(self._driver_readings())

    def task_managers(self) -> Mapping[str, Mapping[str, Any]]:
        """The processes of tasks, by their names."""
        return {tm: _flat(readings) for tm, (_, readings) in self._processes().items()}

    # For reporters ------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ReportedMetric]:
        """Every metric that has a value, with what is known of its place."""
        here = this_process()
        host = {"<host>": here["<host>"]}
        job = job_variables(self._job_id, self._reports.plan.name)
        yield from self._reported(ScopeKind.JOB_MANAGER, host, self._driver_readings())
        yield from self._reported(ScopeKind.JOB_MANAGER_JOB, {**host, **job}, gauges(self._job_figures()))
        for variables, readings in self._processes().values():
            yield from self._reported(ScopeKind.TASK_MANAGER, variables, readings)
        attempt = self._attempt()
        subtasks = list(self._subtasks())
        for subtask in subtasks:
            yield from self._reported_subtask(subtask, attempt)
        for subtask, operator, reading in self._latencies(subtasks):
            variables = {**_process_of(subtask), **job, **operator_variables(operator)}
            yield from self._reported(ScopeKind.TASK_MANAGER_JOB, variables, [reading])

    def _reported_subtask(self, subtask: SubtaskMetrics, attempt: int) -> Iterator[ReportedMetric]:
        place = subtask_variables(
            self._job_id, self._reports.plan.name, subtask.vertex, subtask.subtask, attempt
        )
        variables = {**_process_of(subtask), **place}
        yield from self._reported(ScopeKind.TASK, variables, subtask.own)
        for operator, readings in subtask.operators:
            named = {**variables, **operator_variables(operator)}
            yield from self._reported(ScopeKind.OPERATOR, named, readings)

    def _reported(
        self, kind: ScopeKind, variables: Mapping[str, str], readings: Iterable[Reading]
    ) -> Iterator[ReportedMetric]:
        scope = self._formats.components(kind, variables)
        known = {name.strip("<>"): value for name, value in variables.items()}
        for groups, name, metric_kind, value, value_indexes in readings:
            if value is None:
                continue
            pairs = {groups[index - 1]: groups[index] for index in value_indexes}
            kinds = tuple(group for index, group in enumerate(groups) if index not in value_indexes)
            yield ReportedMetric(
                name,
                metric_kind,
                value,
                (*scope, *groups),
                (*kind.value, *kinds),
                {**known, **pairs} if pairs else known,
                self._formats.delimiter,
            )

    # What there is ------------------------------------------------------------------------------------

    def _subtasks(self, vertex_id: int | str | None = None) -> Iterator[SubtaskMetrics]:
        """By vertex and number."""
        plan, tasks = self._reports.measured_tasks()
        wanted = None if vertex_id is None else self._vertex(vertex_id).id
        subtasks = [
            subtask
            for measured in tasks
            if wanted is None or any(each.vertex == wanted for each in measured.report.subtasks)
            for subtask in subtasks_of(plan, measured)
            if wanted in (None, subtask.vertex.id)
        ]
        return iter(sorted(subtasks, key=lambda subtask: (subtask.vertex.id, subtask.subtask)))

    def _vertex(self, vertex_id: int | str) -> VertexPlan:
        for vertex in self._reports.plan.vertices:
            if vertex_id in (vertex.id, vertex.operators[0].id):
                return vertex
        raise InvalidArgumentError(f"the job has no vertex {vertex_id!r}")

    def _latencies(
        self, subtasks: Iterable[SubtaskMetrics]
    ) -> Iterator[tuple[SubtaskMetrics, OperatorPlan, Reading]]:
        """They belong to a source and an operator, so the name says both, as in Flink."""
        for subtask in subtasks:
            for operator, (groups, name, kind, value, value_indexes) in subtask.latencies:
                own = ("operator_id", operator.id, "operator_subtask_index", str(subtask.subtask))
                indexes = (*value_indexes, len(groups) + 1, len(groups) + 3)
                yield subtask, operator, ((*groups, *own), name, kind, value, indexes)

    def _processes(self) -> dict[str, tuple[dict[str, str], list[Reading]]]:
        """What is known of processes of tasks, by their names; several tasks of a simulation are in none of their own."""
        processes: dict[str, tuple[dict[str, str], list[Reading]]] = {}
        for measured in self._reports.measured_tasks()[1]:
            process = measured.report.process
            if process is not None:
                variables = process_variables(process.host, process.pid)
                processes[variables["<tm_id>"]] = variables, process_readings(process)
        return processes

    def _driver_readings(self) -> list[Reading]:
        with self._known_lock:
            known = list(self._known)
        running = [registry for registry in known if registry._is_running()]
        managers = {name for registry in running for name in registry._processes()}
        figures = {"numRunningJobs": len(running), "numRegisteredTaskManagers": len(managers)}
        return [*gauges(figures), *process_readings(self._driver.read())]

    def _is_running(self) -> bool:
        return bool(self._job_figures().get("uptime", -1) >= 0)


def _process_of(subtask: SubtaskMetrics) -> dict[str, str]:
    process = subtask.report.process
    return this_process() if process is None else process_variables(process.host, process.pid)


def _of_subtask(subtask: SubtaskMetrics) -> dict[str, Any]:
    metrics = _flat(subtask.own)
    for name, readings in _by_name(subtask):
        metrics.update({f"{_name(name)}.{metric}": value for metric, value in _flat(readings).items()})
    return metrics


def _by_name(subtask: SubtaskMetrics) -> Iterator[tuple[str, list[Reading]]]:
    """The operators of a subtask by names that tell them apart."""
    names = distinct_names([operator.name for operator, _ in subtask.operators])
    return zip(names, (readings for _, readings in subtask.operators), strict=True)


def _name(part: str) -> str:
    return part.translate(_NOT_IN_NAMES)


def _flat(readings: Iterable[Reading]) -> dict[str, Any]:
    """Names and values as Flink's REST interface has them; what has no value is left out."""
    metrics: dict[str, Any] = {}
    for groups, name, _, value, _ in readings:
        full = ".".join(map(_name, (*groups, name)))
        match value:
            case None:
                continue
            case MeterSummary():
                metrics[full] = value.rate
            case DistributionSummary():
                parts = {"count": value.count, "sum": value.total, "min": value.minimum, "max": value.maximum}
                metrics.update({f"{full}_{part}": number for part, number in parts.items()})
                metrics[f"{full}_mean"] = value.mean
            case HistogramSummary():
                metrics.update({f"{full}_{part}": number for part, number in _histogram_parts(value).items()})
            case _:
                metrics[full] = value
    return metrics


def _histogram_parts(summary: HistogramSummary) -> dict[str, float]:
    names = ("count", "min", "max", "mean", "stddev", "p75", "p90", "p95", "p98", "p99", "p999")
    return {"median": summary.p50, **{name: getattr(summary, name) for name in names}}
