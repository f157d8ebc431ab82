"""Fourth pass: the DAG of chains becomes a line of stages.

A chain's stage is the largest number of exchanges on any path from a source to it, so every edge
goes from a lower stage to a higher one and nothing is computed twice. An edge that skips stages
stays one edge; the tasks between relay its chunks unopened.
"""

from __future__ import annotations

from collections.abc import Sequence

from firesteel.compiler.chaining import Chain, chain_name
from firesteel.compiler.steps import Step
from firesteel.graph.stream_graph import Node
from firesteel.plan import operator_specs as specs
from firesteel.plan.job_plan import EdgePlan, OperatorPlan, StagePlan, VertexPlan


def stages_of(chains: Sequence[Chain]) -> list[int]:
    """For each chain the index of its stage. Chains come after those they read from."""
    stage_of_step: dict[int, int] = {}
    stages = []
    for chain in chains:
        stage = 1 + max((stage_of_step[edge.source] for edge in chain.head.inputs), default=-1)
        stage_of_step.update((step.node.id, stage) for step in chain.steps)
        stages.append(stage)
    return stages


def lay_out_stages(chains: Sequence[Chain], stages: Sequence[int]) -> tuple[tuple[StagePlan, ...], list[int]]:
    """The stages, and for each chain the first task of its stage that hosts it.

    Chains of one slot sharing group share tasks; other groups get tasks of their own beside them.
    """
    first_tasks = [0] * len(chains)
    plans = []
    for index in range(max(stages) + 1):
        vertices = [vertex for vertex, stage in enumerate(stages) if stage == index]
        offsets, tasks = _group_offsets([chains[vertex].head for vertex in vertices])
        for vertex in vertices:
            first_tasks[vertex] = offsets[chains[vertex].head.slot_sharing_group]
        plans.append(StagePlan(index, tasks, tuple(vertices)))
    return tuple(plans), first_tasks


def _group_offsets(heads: Sequence[Step]) -> tuple[dict[str, int], int]:
    """The first task of each slot sharing group, and how many tasks there are in all."""
    widths: dict[str, int] = {}
    for head in heads:
        group = head.slot_sharing_group
        widths[group] = max(widths.get(group, 0), head.parallelism)
    offsets, tasks = {}, 0
    for group, width in widths.items():
        offsets[group] = tasks
        tasks += width
    return offsets, tasks


def vertex_plan(index: int, chain: Chain, stage: int, first_task: int, sending: frozenset[int]) -> VertexPlan:
    """The chain as the tasks see it. ``sending`` are the nodes whose output leaves their chain."""
    return VertexPlan(
        id=index,
        name=chain_name(chain),
        stage=stage,
        first_task=first_task,
        parallelism=chain.head.parallelism,
        # Keyed steps are never chained to their input, so the head's number of key groups is the one that counts.
        max_parallelism=chain.head.max_parallelism,
        operators=_operator_plans(chain),
        buffer_timeout_ms=_buffer_timeout(chain, sending),
    )


def _operator_plans(chain: Chain) -> tuple[OperatorPlan, ...]:
    position = {step.node.id: index for index, step in enumerate(chain.steps)}
    return tuple(
        OperatorPlan(
            id=step.operator_id,
            name=step.name,
            spec=step.node.spec,
            output_type=step.node.output_type,
            side_types=step.node.side_types,
            key_selectors=step.node.key_selectors,
            state_types=step.node.state_types,
            parent=None if step is chain.head else position[step.inputs[0].source],
            parent_tag=None if step is chain.head else step.inputs[0].side_output,
        )
        for step in chain.steps
    )


def _buffer_timeout(chain: Chain, sending: frozenset[int]) -> int:
    """The shortest time-out of the steps that send to other chains; -1 means no time-out at all."""
    timeouts = [step.buffer_timeout_ms for step in chain.steps if step.node.id in sending]
    bounded = [timeout for timeout in timeouts if timeout >= 0]
    if bounded:
        return min(bounded)
    return timeouts[0] if timeouts else chain.head.buffer_timeout_ms


def edge_plans(chains: Sequence[Chain]) -> tuple[EdgePlan, ...]:
    """The edges between chains, ordered by where they end."""
    positions = {
        step.node.id: (vertex, position)
        for vertex, chain in enumerate(chains)
        for position, step in enumerate(chain.steps)
    }
    edges: list[EdgePlan] = []
    for target, chain in enumerate(chains):
        for edge in chain.head.inputs:
            source, operator = positions[edge.source]
            edges.append(
                EdgePlan(
                    id=len(edges),
                    source=source,
                    source_operator=operator,
                    side_output=edge.side_output,
                    target=target,
                    input_index=edge.input_index,
                    distribution=edge.distribution,
                    reads_keys=_reads_every_key(chain.head.node, edge.input_index),
                )
            )
    return tuple(edges)


def _reads_every_key(node: Node, input_index: int) -> bool:
    return any(node.key_selectors[input_index : input_index + 1]) and isinstance(node.spec, _READ_EVERY_KEY)


_READ_EVERY_KEY = (
    specs.ProcessSpec,
    specs.CoProcessSpec,
    specs.BroadcastProcessSpec,
    specs.ReduceSpec,
    specs.WithStateSpec,
    specs.IntervalJoinSpec,
    specs.WindowSpec,
)


def sending_steps(chains: Sequence[Chain]) -> frozenset[int]:
    """The nodes from which an edge leads out of their chain."""
    return frozenset(edge.source for chain in chains for edge in chain.head.inputs)


def vertex_plans(
    chains: Sequence[Chain], stages: Sequence[int], first_tasks: Sequence[int]
) -> tuple[VertexPlan, ...]:
    """All vertices; the vertex with id i is chain i."""
    sending = sending_steps(chains)
    return tuple(
        vertex_plan(index, chain, stages[index], first_tasks[index], sending)
        for index, chain in enumerate(chains)
    )
