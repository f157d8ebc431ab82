"""A compiled plan for people and tools: as text in a terminal, as Mermaid, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firesteel.plan.job_plan import EdgePlan, JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.operator_specs import RuntimeMode


def to_text(plan: JobPlan) -> str:
    """The plan as a person reads it: stages from top to bottom, what runs in them, where it goes."""
    lines = [_headline(plan)]
    for stage in plan.stages:
        lines += ["", f"stage {stage.index}: {_count(stage.tasks, 'task')}"]
        for vertex in stage.vertices:
            lines += _vertex_lines(plan, stage, plan.vertices[vertex])
        lines += _relay_lines(plan, stage)
    return "\n".join(lines) + "\n"


def to_mermaid(plan: JobPlan) -> str:
    """The plan as a Mermaid flow chart, one box per chain, one frame per stage."""
    lines = ["flowchart LR"]
    for stage in plan.stages:
        lines.append(f'  subgraph stage{stage.index}["stage {stage.index}: {_count(stage.tasks, "task")}"]')
        lines += [_mermaid_box(plan.vertices[vertex]) for vertex in stage.vertices]
        lines.append("  end")
    for edge in plan.edges:
        label = escape_mermaid(_edge_label(plan, edge))
        lines.append(f'  v{edge.source} -- "{label}" --> v{edge.target}')
    return "\n".join(lines) + "\n"


def to_dict(plan: JobPlan) -> dict[str, Any]:
    """The plan as plain lists, dicts, texts and numbers, ready for JSON."""
    return {
        "name": plan.name,
        "mode": plan.mode.name,
        "slots": plan.slots,
        "stages": [
            {"index": stage.index, "tasks": stage.tasks, "vertices": list(stage.vertices)}
            for stage in plan.stages
        ],
        "vertices": [_vertex_dict(vertex) for vertex in plan.vertices],
        "edges": [_edge_dict(plan, edge) for edge in plan.edges],
    }


def relay_stages(plan: JobPlan, edge: EdgePlan) -> range:
    """The stages between the two ends of an edge; their tasks pass its chunks on unopened."""
    return range(plan.vertices[edge.source].stage + 1, plan.vertices[edge.target].stage)


def escape_mermaid(text: str) -> str:
    """Text that is safe between the quotes of a Mermaid label."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


# Text -----------------------------------------------------------------------------------------------


def _headline(plan: JobPlan) -> str:
    when = "all stages at once" if plan.mode is RuntimeMode.STREAMING else "one stage after another"
    return (
        f"{plan.name}: {plan.mode.name}, {_count(len(plan.stages), 'stage')}, "
        f"{_count(plan.slots, 'slot')} ({when})"
    )


def _vertex_lines(plan: JobPlan, stage: StagePlan, vertex: VertexPlan) -> Iterator[str]:
    yield f"  [{vertex.id}] {vertex.name}  x{vertex.parallelism}{_hosting_tasks(stage, vertex)}"
    for edge in plan.edges_from(vertex.id):
        yield f"      -> [{edge.target}] {_edge_label(plan, edge)}"


def _hosting_tasks(stage: StagePlan, vertex: VertexPlan) -> str:
    """Which tasks of the stage host the vertex, when it is not all of them."""
    if vertex.parallelism == stage.tasks:
        return ""
    last = vertex.first_task + vertex.parallelism - 1
    if last == vertex.first_task:
        return f"  on task {last}"
    return f"  on tasks {vertex.first_task}-{last}"


def _relay_lines(plan: JobPlan, stage: StagePlan) -> Iterator[str]:
    for edge in plan.edges:
        if stage.index in relay_stages(plan, edge):
            yield f"  relay [{edge.source}] -> [{edge.target}]"


def _edge_label(plan: JobPlan, edge: EdgePlan) -> str:
    """Distribution, and what is not obvious: the sending operator, side output and the input it is for."""
    label = edge.distribution.label
    sender = plan.vertices[edge.source].operators[edge.source_operator]
    if len(plan.vertices[edge.source].operators) > 1:
        label += f" from {sender.name}"
    if edge.side_output is not None:
        label += f" side output {edge.side_output!r}"
    if any(other.input_index != edge.input_index for other in plan.edges_into(edge.target)):
        label += f" to input {edge.input_index + 1}"
    return label


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# Mermaid --------------------------------------------------------------------------------------------


def _mermaid_box(vertex: VertexPlan) -> str:
    return f'    v{vertex.id}["{escape_mermaid(vertex.name)}<br/>x{vertex.parallelism}"]'


# Data -----------------------------------------------------------------------------------------------


def _vertex_dict(vertex: VertexPlan) -> dict[str, Any]:
    return {
        "id": vertex.id,
        "name": vertex.name,
        "stage": vertex.stage,
        "first_task": vertex.first_task,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "buffer_timeout_ms": vertex.buffer_timeout_ms,
        "operators": [_operator_dict(operator) for operator in vertex.operators],
    }


def _operator_dict(operator: OperatorPlan) -> dict[str, Any]:
    user_code = operator.spec.user_code
    return {
        "id": operator.id,
        "name": operator.name,
        "kind": type(operator.spec).__name__.removesuffix("Spec"),
        "function": None if user_code is None else user_code.description,
        "parent": operator.parent,
        "parent_tag": operator.parent_tag,
    }


def _edge_dict(plan: JobPlan, edge: EdgePlan) -> dict[str, Any]:
    return {
        "id": edge.id,
        "source": edge.source,
        "source_operator": edge.source_operator,
        "side_output": edge.side_output,
        "target": edge.target,
        "input_index": edge.input_index,
        "distribution": edge.distribution.label,
        "relayed_by": list(relay_stages(plan, edge)),
    }
