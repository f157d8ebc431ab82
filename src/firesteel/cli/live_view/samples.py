"""What is known of running jobs at one moment: taken over REST, as frozen data that lines are made from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.cli.running_jobs import FoundJob
from firesteel.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from firesteel.rest.client import RestClient

__all__ = ["JobSample", "OperatorSample", "VertexSample", "sample_job", "unknown_job"]

_JOB_METRICS = (
    "numRestarts",
    "numberOfCompletedCheckpoints",
    "numberOfFailedCheckpoints",
    "lastCheckpointDuration",
    "lastCheckpointSize",
)
_BUSY, _BACK_PRESSURED = "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond"
_WATERMARK = "currentOutputWatermark"
_OPERATOR_METRICS = ("numRecordsIn", "numRecordsOut", "numRecordsInPerSecond", "numRecordsOutPerSecond")
#: What the names of metrics have instead of characters that mean something in them.
_NOT_IN_NAMES = str.maketrans(dict.fromkeys(" .:,", "_"))


@dataclass(frozen=True, slots=True)
class OperatorSample:
    """Records of one operator, over all its subtasks; rates are those of the last minute. None: not reported yet."""

    name: str
    records_in: float | None = None
    records_out: float | None = None
    rate_in: float | None = None
    rate_out: float | None = None


@dataclass(frozen=True, slots=True)
class VertexSample:
    """A chain of operators. Shares are from 0 to 1, means over its subtasks; None: not reported yet.

    ``busy_ms`` and ``back_pressured_ms`` are what its subtasks have been together, since they started.
    """

    id: str
    name: str
    parallelism: int
    state: str
    operators: tuple[OperatorSample, ...]
    is_source: bool = False
    is_sink: bool = False
    busy: float | None = None
    back_pressured: float | None = None
    busy_ms: float | None = None
    back_pressured_ms: float | None = None
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class JobSample:
    """A job at one moment; times are in milliseconds by the clock of its driver. ``problem``: why nothing else is known."""

    job_id: str
    name: str
    state: str
    started: int
    url: str = ""
    now: int = 0
    duration: int = 0
    vertices: tuple[VertexSample, ...] = ()
    tasks_running: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


def unknown_job(job: FoundJob, problem: str = "") -> JobSample:
    """A job that does not say anything of itself."""
    return JobSample(job.job_id, job.name, job.state, job.started, job.url, problem=problem or job.problem)


def sample_job(client: RestClient, job_id: str) -> JobSample:
    """Ask for one job: one request for the job, one for its metrics, one for each vertex."""
    details = client.get(f"/jobs/{job_id}")
    nodes = {node["id"]: node for node in details["plan"]["nodes"]}
    read = {edge["id"] for node in nodes.values() for edge in node.get("inputs", ())}
    vertices = [_vertex(client, job_id, each, nodes[each["id"]], read) for each in details["vertices"]]
    return JobSample(
        job_id,
        str(details["name"]),
        str(details["state"]),
        int(details["start-time"]),
        client.url,
        int(details["now"]),
        int(details["duration"]),
        tuple(vertices),
        sum(each["tasks"]["RUNNING"] for each in details["vertices"]),
        _values(client.get(f"/jobs/{job_id}/metrics", {"get": ",".join(_JOB_METRICS)})),
    )


def _vertex(
    client: RestClient, job_id: str, vertex: Mapping[str, Any], node: Mapping[str, Any], read: Iterable[str]
) -> VertexSample:
    names = node["description"].split("<br/>")
    # How far event time has come where the chain ends: sources and sinks of a chain of their own have that, too.
    watermark = _metric(names[-1], _WATERMARK)
    wanted = [_BUSY, _BACK_PRESSURED, watermark]
    wanted += [_metric(name, each) for name in names for each in _OPERATOR_METRICS]
    answer = client.get(
        f"/jobs/{job_id}/vertices/{vertex['id']}/subtasks/metrics",
        {"get": ",".join(dict.fromkeys(wanted)), "agg": "min,avg,sum"},
    )
    figures = {each["id"]: each for each in answer}
    return VertexSample(
        vertex["id"],
        vertex["name"],
        vertex["parallelism"],
        vertex["status"],
        tuple(_operator(name, figures) for name in names),
        is_source=not node.get("inputs"),
        is_sink=vertex["id"] not in read,
        busy=_share(_figure(figures, _BUSY, "avg")),
        back_pressured=_share(_figure(figures, _BACK_PRESSURED, "avg")),
        busy_ms=_number(vertex["metrics"]["accumulated-busy-time"]),
        back_pressured_ms=_number(vertex["metrics"]["accumulated-backpressured-time"]),
        watermark=_watermark(_figure(figures, watermark, "min")),
    )


def _operator(name: str, figures: Mapping[str, Any]) -> OperatorSample:
    return OperatorSample(name, *(_figure(figures, _metric(name, each), "sum") for each in _OPERATOR_METRICS))


def _metric(operator: str, name: str) -> str:
    return f"{operator.translate(_NOT_IN_NAMES)}.{name}"


def _figure(figures: Mapping[str, Any], name: str, kind: str) -> float | None:
    return _number(figures[name].get(kind)) if name in figures else None


def _values(metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    numbers = {each["id"]: _number(each["value"]) for each in metrics}
    return {name: value for name, value in numbers.items() if value is not None}


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _share(millis_per_second: float | None) -> float | None:
    return None if millis_per_second is None else min(1.0, millis_per_second / 1000)


def _watermark(value: float | None) -> int | None:
    """None before the first one. Figures are floating point, in which the end of time is only about there."""
    if value is None or value <= MIN_TIMESTAMP / 2:
        return None
    return MAX_WATERMARK if value >= MAX_WATERMARK / 2 else int(value)
