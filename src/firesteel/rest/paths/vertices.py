"""Paths about vertices, their subtasks and attempts."""

from __future__ import annotations

from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.rest.endpoints import AGGREGATION, GET_METRICS, Call, Endpoint, Parameter
from firesteel.rest.errors import Malformed
from firesteel.rest.flame_graphs import read_flame_settings
from firesteel.rest.outline import VertexOutline
from firesteel.rest.paths.lookup import attempt_in, job_in, subtask_in, subtask_index, vertex_in
from firesteel.rest.schemas import TEXT, WHOLE, choice
from firesteel.rest.views import vertices as views
from firesteel.rest.views.flame_graph import DISABLED, OVER, WAITING, flame_graph
from firesteel.rest.views.metrics import aggregated_metrics, metrics
from firesteel.rest.views.subtasks import attempts_of, subtasks_of, task_of

__all__ = ["ENDPOINTS"]

_ROOT = "/jobs/{jobid}/vertices/{vertexid}"


def _details(call: Call) -> Any:
    job = job_in(call)
    return views.vertex_details(vertex_in(call, job), job.snapshot())


def _times(call: Call) -> Any:
    job = job_in(call)
    return views.subtask_times(vertex_in(call, job), job.snapshot())


def _task_managers(call: Call) -> Any:
    job = job_in(call)
    return views.task_managers(vertex_in(call, job), job.snapshot())


def _watermarks(call: Call) -> Any:
    job = job_in(call)
    return views.watermarks(vertex_in(call, job), job.metrics())


def _back_pressure(call: Call) -> Any:
    job = job_in(call)
    return views.back_pressure(vertex_in(call, job), job.snapshot(), job.metrics())


def _flame_graph(call: Call) -> Any:
    job = job_in(call)
    vertex, inspector = vertex_in(call, job), job.inspector
    index = call.query.get("subtaskindex")
    subtasks = subtasks_of(vertex, job.snapshot())
    if index is not None:
        subtasks = [subtasks[subtask_in(index, vertex)]]
    settings = read_flame_settings(Configuration.from_dict(dict(job.outline.options)))
    if not settings.enabled:
        return DISABLED
    if inspector is None or job.control is None or all(each.state.is_terminal for each in subtasks):
        return OVER
    tasks = [task_of(vertex, each.index) for each in subtasks]
    key = (call.path["jobid"], vertex.id, "" if index is None else str(index))
    samples = call.context.flame_graphs.find(key, inspector, tasks, settings)
    if samples is None:
        return WAITING
    return flame_graph(samples.stacks, call.query.get("type", "FULL"), samples.ended_ms)


def _accumulators(call: Call) -> Any:
    job = job_in(call)
    return views.vertex_accumulators(vertex_in(call, job), job.snapshot())


def _subtasks_accumulators(call: Call) -> Any:
    job = job_in(call)
    return views.subtasks_accumulators(vertex_in(call, job), job.snapshot())


def _metrics(call: Call) -> Any:
    job = job_in(call)
    return metrics(job.metrics().vertex(vertex_in(call, job).number), call.query.get("get"))


def _driver_metrics(call: Call) -> Any:
    vertex_in(call, job_in(call))
    return metrics({}, call.query.get("get"))  # the driver measures nothing of single operators yet


def _subtasks_metrics(call: Call) -> Any:
    job = job_in(call)
    vertex, source = vertex_in(call, job), job.metrics()
    chosen = _chosen(vertex, call.query.get("subtasks"))
    sources = [source.subtask(vertex.number, index) for index in chosen]
    return aggregated_metrics(sources, call.query.get("get"), call.query.get("agg", ()))


def _chosen(vertex: VertexOutline, ranges: list[str] | None) -> list[int]:
    """The subtasks of ranges such as 0-2 and 5; those that there are."""
    if not ranges:
        return list(range(vertex.parallelism))
    wanted: set[int] = set()
    for text in ranges:
        first, _, last = text.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise Malformed(
                f"parameter 'subtasks': expected numbers or ranges such as 0-2, got {text[:100]!r}"
            )
        wanted.update(range(int(first), min(int(last or first) + 1, vertex.parallelism)))
    return sorted(wanted & set(range(vertex.parallelism)))


def _subtask(call: Call) -> Any:
    job = job_in(call)
    vertex = vertex_in(call, job)
    return views.subtask_details(subtasks_of(vertex, job.snapshot())[subtask_index(call, vertex)])


def _subtask_metrics(call: Call) -> Any:
    job = job_in(call)
    vertex = vertex_in(call, job)
    known = job.metrics().subtask(vertex.number, subtask_index(call, vertex))
    return metrics(known, call.query.get("get"))


def _attempt(call: Call) -> Any:
    job = job_in(call)
    return views.subtask_details(attempt_in(call, vertex_in(call, job), job.snapshot()))


def _attempt_accumulators(call: Call) -> Any:
    job = job_in(call)
    vertex, snapshot = vertex_in(call, job), job.snapshot()
    attempt = attempt_in(call, vertex, snapshot)
    return views.subtask_accumulators(attempt, attempts_of(vertex, attempt.index, snapshot))


ENDPOINTS = (
    Endpoint("GET", _ROOT, _details, "Vertex", "A vertex with all its subtasks."),
    Endpoint("GET", f"{_ROOT}/subtasktimes", _times, "SubtaskTimes", "When subtasks came to their states."),
    Endpoint("GET", f"{_ROOT}/taskmanagers", _task_managers, "VertexTaskManagers", "Subtasks by host."),
    Endpoint("GET", f"{_ROOT}/watermarks", _watermarks, "Metrics", "Watermarks of subtasks."),
    Endpoint("GET", f"{_ROOT}/backpressure", _back_pressure, "BackPressure", "Back pressure of subtasks."),
    Endpoint(
        "GET",
        f"{_ROOT}/flamegraph",
        _flame_graph,
        "FlameGraph",
        "Where the time of its tasks goes; ask again while the samples are taken.",
        query=(
            Parameter(
                "type",
                choice("FULL", "ON_CPU", "OFF_CPU"),
                "All samples, or those of threads that ran, or waited.",
            ),
            Parameter("subtaskindex", WHOLE, "Of one subtask only."),
        ),
    ),
    Endpoint(
        "GET", f"{_ROOT}/accumulators", _accumulators, "VertexAccumulators", "Accumulators of a vertex."
    ),
    Endpoint(
        "GET", f"{_ROOT}/metrics", _metrics, "Metrics", "Metrics of all subtasks.", query=(GET_METRICS,)
    ),
    Endpoint(
        "GET",
        f"{_ROOT}/jm-operator-metrics",
        _driver_metrics,
        "Metrics",
        "Metrics that the driver has of operators: none yet.",
        query=(GET_METRICS,),
    ),
    Endpoint(
        "GET",
        f"{_ROOT}/subtasks/metrics",
        _subtasks_metrics,
        "AggregatedMetrics",
        "Figures over the metrics of subtasks.",
        query=(GET_METRICS, AGGREGATION, Parameter("subtasks", TEXT, "Which, as in 0-2,5.", True)),
    ),
    Endpoint(
        "GET",
        f"{_ROOT}/subtasks/accumulators",
        _subtasks_accumulators,
        "SubtasksAccumulators",
        "Accumulators by subtask.",
    ),
    Endpoint(
        "GET", f"{_ROOT}/subtasks/{{subtaskindex}}", _subtask, "Subtask", "The current attempt of a subtask."
    ),
    Endpoint(
        "GET",
        f"{_ROOT}/subtasks/{{subtaskindex}}/metrics",
        _subtask_metrics,
        "Metrics",
        "Metrics of a subtask.",
        query=(GET_METRICS,),
    ),
    Endpoint(
        "GET", f"{_ROOT}/subtasks/{{subtaskindex}}/attempts/{{attempt}}", _attempt, "Subtask", "An attempt."
    ),
    Endpoint(
        "GET",
        f"{_ROOT}/subtasks/{{subtaskindex}}/attempts/{{attempt}}/accumulators",
        _attempt_accumulators,
        "AttemptAccumulators",
        "Accumulators of an attempt.",
    ),
)
