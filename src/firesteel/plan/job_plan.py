"""The compiled job: stages in a line, the operator chains in each, the edges between chains.

Vocabulary: an *operator* does one thing; a *vertex* is a chain (a tree) of operators that call each
other directly; a *stage* is everything that runs in the same Spark stage; a *task* is one Spark task
of a stage and hosts one subtask of each vertex assigned to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from firesteel.common.typeinfo import TypeInformation
from firesteel.plan.exchange import EdgeDistribution
from firesteel.plan.operator_specs import OperatorSpec, RuntimeMode
from firesteel.plan.shipped import Shipped


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """One operator of a chain. ``parent`` is its index in the chain, None for the head.

    ``state_types``: see `graph.stream_graph.Node`. State that was saved with other ones cannot be used.
    """

    id: str
    name: str
    spec: OperatorSpec
    output_type: TypeInformation | None = None
    side_types: Mapping[str, TypeInformation | None] = field(default_factory=dict)
    key_selectors: tuple[Shipped | None, ...] = ()
    state_types: Mapping[str, str] = field(default_factory=dict)
    parent: int | None = None
    parent_tag: str | None = None


@dataclass(frozen=True, slots=True)
class VertexPlan:
    """A chain of operators with its parallelism and its position in the line of stages.

    Subtask i of the vertex runs in task ``first_task + i`` of stage ``stage``. Operators come in
    an order in which each one follows its parent.
    """

    id: int
    name: str
    stage: int
    first_task: int
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorPlan, ...]
    buffer_timeout_ms: int = 100


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """Records from one operator (or its side output) to one input of another vertex."""

    id: int
    source: int
    source_operator: int
    side_output: str | None
    target: int
    input_index: int
    distribution: EdgeDistribution
    #: Whether the receiver finds out the key of every record by itself, and refuses what is none.
    reads_keys: bool = False


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One Spark stage: n tasks, hosting these vertices."""

    index: int
    tasks: int
    vertices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Everything the tasks of a job need to know; vertex and edge ids are their positions."""

    name: str
    mode: RuntimeMode
    stages: tuple[StagePlan, ...]
    vertices: tuple[VertexPlan, ...]
    edges: tuple[EdgePlan, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    #: Classes of the program that tasks cannot import: state refers to them by name. See `checkpoint.state_pickle`.
    program_classes: bytes = field(default=b"", repr=False)
    #: A custom state backend that the program has set; wins over the options.
    state_backend: Shipped | None = None

    @property
    def slots(self) -> int:
        """How many task slots the job needs: all stages at once in STREAMING, the widest in BATCH."""
        tasks = [stage.tasks for stage in self.stages]
        return sum(tasks) if self.mode is RuntimeMode.STREAMING else max(tasks)

    @property
    def parallelism(self) -> dict[str, int]:
        """The parallelism of each operator, by its id."""
        return {operator.id: vertex.parallelism for vertex in self.vertices for operator in vertex.operators}

    def for_stage(self, stage: int) -> JobPlan:
        """The plan as tasks of one stage get it, without the operators of others.

        Their user code stays at home: a big collection travels to its source only.
        """
        vertices = tuple(v if v.stage == stage else replace(v, operators=()) for v in self.vertices)
        return replace(self, vertices=vertices)

    def subtask_names(self, stage: int, task: int) -> list[str]:
        """Names of the subtasks in a task, as in ``Map (1/4)``."""
        return [
            f"{v.name} ({task - v.first_task + 1}/{v.parallelism})"
            for v in self.vertices
            if v.stage == stage and 0 <= task - v.first_task < v.parallelism
        ]

    def edges_into(self, vertex: int) -> list[EdgePlan]:
        """The edges that end at ``vertex``, by id."""
        return [edge for edge in self.edges if edge.target == vertex]

    def edges_from(self, vertex: int) -> list[EdgePlan]:
        """The edges that start at ``vertex``, by id."""
        return [edge for edge in self.edges if edge.source == vertex]
