"""Where views find metrics: the registry of a job that runs, and what is kept of one that has ended.

Names are Flink's. Those of a vertex begin with the number of the subtask, as in ``0.numRecordsIn``; those of an operator have
its name in front, as in ``0.Map.numRecordsIn``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from firesteel.common._override import override
from firesteel.rest.outline import JobOutline

__all__ = ["KeptMetrics", "MetricSource"]


class MetricSource(Protocol):
    """All metrics of one job, by Flink's names; a vertex is named by its number in the plan."""

    def job(self) -> Mapping[str, Any]:
        """Those of the whole job."""
        ...

    def vertex(self, vertex_id: int) -> Mapping[str, Any]:
        """Those of all subtasks of a vertex, each with the number of its subtask in front."""
        ...

    def subtask(self, vertex_id: int, index: int) -> Mapping[str, Any]:
        """Those of one subtask, without its number in front."""
        ...

    def operators(self, vertex_id: int) -> Mapping[str, Mapping[str, Any]]:
        """Those of a vertex's operators, by the name of the operator; each with the number of its subtask in front."""
        ...

    def job_manager(self) -> Mapping[str, Any]:
        """Those of the driver's process; `KeptMetrics` has none."""
        ...


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
