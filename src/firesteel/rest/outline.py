"""The plan of a job as interfaces show it: names, ids, parallelism and how vertices are connected; no user code.

Flink calls a vertex by the id of the operator at its head, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common._redaction import marked_keys, redacted
from firesteel.common.configuration import Configuration
from firesteel.common.options import SCHEDULER
from firesteel.plan.job_plan import EdgePlan, JobPlan, VertexPlan
from firesteel.plan.operator_specs import RuntimeMode

__all__ = ["InputOutline", "JobOutline", "OperatorOutline", "VertexOutline", "outline_of", "scheduler_of"]


@dataclass(frozen=True, slots=True)
class OperatorOutline:
    """One operator of a chain. ``leaves``: what it emits goes to other vertices."""

    id: str
    name: str
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class InputOutline:
    """An edge into a vertex, from the vertex with the id ``source``."""

    source: str
    number: int
    ship_strategy: str
    exchange: str


@dataclass(frozen=True, slots=True)
class VertexOutline:
    """A chain of operators. ``number`` is its place in the plan; subtask i runs in task ``first_task + i`` of ``stage``."""

    id: str
    number: int
    name: str
    parallelism: int
    max_parallelism: int
    stage: int
    first_task: int
    operators: tuple[OperatorOutline, ...]
    inputs: tuple[InputOutline, ...] = ()


@dataclass(frozen=True, slots=True)
class JobOutline:
    """A job. ``options`` and ``parameters`` are as given, without what is secret."""

    name: str
    mode: RuntimeMode
    vertices: tuple[VertexOutline, ...]
    slots: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    def vertex(self, vertex_id: str) -> VertexOutline | None:
        """The vertex with this id."""
        return next((each for each in self.vertices if each.id == vertex_id), None)


def outline_of(plan: JobPlan) -> JobOutline:
    """What may be shown of a plan, and kept when the job is over: user code stays behind."""
    return JobOutline(
        plan.name,
        plan.mode,
        tuple(_vertex(plan, vertex) for vertex in plan.vertices),
        plan.slots,
        redacted(plan.options),
        redacted(plan.job_parameters, marked_keys(plan.options)),
    )


def scheduler_of(outline: JobOutline) -> str:
    """The name of Flink's scheduler that does the same."""
    if outline.mode is not RuntimeMode.STREAMING:
        return "AdaptiveBatch"
    return Configuration.from_dict(dict(outline.options)).get(SCHEDULER)


def _vertex(plan: JobPlan, vertex: VertexPlan) -> VertexOutline:
    leaving = {edge.source_operator for edge in plan.edges_from(vertex.id)}
    return VertexOutline(
        _id_of(vertex),
        vertex.id,
        vertex.name,
        vertex.parallelism,
        vertex.max_parallelism,
        vertex.stage,
        vertex.first_task,
        tuple(
            OperatorOutline(operator.id, operator.name, index in leaving)
            for index, operator in enumerate(vertex.operators)
        ),
        tuple(_input(plan, edge, number) for number, edge in enumerate(plan.edges_into(vertex.id))),
    )


def _input(plan: JobPlan, edge: EdgePlan, number: int) -> InputOutline:
    exchange = "pipelined_bounded" if plan.mode is RuntimeMode.STREAMING else "blocking"
    return InputOutline(_id_of(plan.vertices[edge.source]), number, edge.distribution.label, exchange)


def _id_of(vertex: VertexPlan) -> str:
    return vertex.operators[0].id if vertex.operators else f"{vertex.id:032x}"
