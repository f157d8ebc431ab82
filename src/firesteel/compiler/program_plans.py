"""The plans of one program for other parallelisms: what a job that runs can continue as.

A plan that is made again has the operators of the first one, and with them its state. Its vertices begin where they began,
also where operators could be chained now, so that whoever watches a vertex finds it again; a vertex is split where only some of
its operators get another parallelism. Numbers of key groups, which state is cut by, never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidArgumentError
from firesteel.compiler.compile import compile_job
from firesteel.compiler.steps import Fixed
from firesteel.graph.operator_ids import operator_ids
from firesteel.graph.parallelism import parallelism_of
from firesteel.graph.stream_graph import Node, StreamGraph
from firesteel.plan.job_plan import JobPlan, OperatorPlan

__all__ = ["Bounds", "ProgramPlans"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many subtasks an operator wants (``upper``), and with how many it would do (``lower``)."""

    lower: int
    upper: int


class ProgramPlans:
    """Makes plans of one program; ``first`` is the one that its job has begun with."""

    def __init__(self, graph: StreamGraph, configuration: Configuration, first: JobPlan) -> None:
        ids = operator_ids(graph)
        self._graph = graph
        self._configuration = configuration
        self._first = first
        self._nodes = {ids[node.id]: node for node in graph}
        self._operators = {each.id: each for vertex in first.vertices for each in vertex.operators}
        self._max_parallelism = {
            each.id: vertex.max_parallelism for vertex in first.vertices for each in vertex.operators
        }
        self._heads = frozenset(vertex.operators[0].id for vertex in first.vertices)
        #: What the program asks for: at least one subtask of each operator, and at most as many as it says.
        self.bounds: Mapping[str, Bounds] = {
            each.id: Bounds(1, vertex.parallelism) for vertex in first.vertices for each in vertex.operators
        }

    def with_default(self, parallelism: int) -> dict[str, Bounds]:
        """What the program would ask for with another default parallelism; operators with one of their own keep it."""
        if parallelism < 1:
            raise InvalidArgumentError(f"expected a parallelism of at least 1, got {parallelism}")
        return {
            operator: Bounds(1, parallelism_of(_with_default(node), parallelism))
            for operator, node in self._nodes.items()
        }

    def plan(self, bounds: Mapping[str, Bounds]) -> JobPlan:
        """The plan with the upper bounds; raises `ProgramError` when there is none."""
        return self._plan({operator: each.upper for operator, each in bounds.items()})

    def largest(self, bounds: Mapping[str, Bounds], slots: int) -> JobPlan | None:
        """The plan within the bounds that makes the most of ``slots``; None when even the smallest one needs more."""
        best = None
        for cap in range(1, max(each.upper for each in bounds.values()) + 1):
            plan = self._plan({op: _within(each, cap) for op, each in bounds.items()})
            if plan.slots > slots:
                break
            best = plan
        return best

    def slots_of_larger(self, bounds: Mapping[str, Bounds], slots: int) -> int:
        """How many slots the next plan needs for which ``slots`` are too few; those of the largest plan when there is none."""
        needed = 0
        for cap in range(1, max(each.upper for each in bounds.values()) + 1):
            needed = self._plan({op: _within(each, cap) for op, each in bounds.items()}).slots
            if needed > slots:
                break
        return needed

    def smallest(self, bounds: Mapping[str, Bounds]) -> JobPlan:
        """The plan with the lower bounds."""
        return self._plan({operator: _within(each, 1) for operator, each in bounds.items()})

    def _plan(self, parallelism: Mapping[str, int]) -> JobPlan:
        fixed = Fixed(parallelism, self._max_parallelism, self._heads)
        plan = compile_job(self._graph, self._configuration, self._first.name, fixed)
        vertices = tuple(
            replace(vertex, operators=tuple(map(self._with_state, vertex.operators)))
            for vertex in plan.vertices
        )
        return replace(self._first, stages=plan.stages, vertices=vertices, edges=plan.edges)

    def _with_state(self, operator: OperatorPlan) -> OperatorPlan:
        """The operator with what is known of the types of its state, from before the job began."""
        return replace(operator, state_types=self._operators[operator.id].state_types)


def _with_default(node: Node) -> Node:
    """As it would be if nobody had said how parallel all operations are."""
    return replace(node, parallelism=None) if node.follows_default else node


def _within(bounds: Bounds, cap: int) -> int:
    return min(bounds.upper, max(bounds.lower, cap))
