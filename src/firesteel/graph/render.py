"""The graph for people and tools: as JSON in the shape of Flink's execution plan, and as Mermaid."""

from __future__ import annotations

import json
from typing import Any

from firesteel.graph.names import is_sink, is_source, operator_name
from firesteel.graph.parallelism import parallelism_of
from firesteel.graph.stream_graph import Edge, Node, StreamGraph
from firesteel.plan.exchange import Auto, resolved
from firesteel.plan.render import escape_mermaid


def to_json(graph: StreamGraph, default_parallelism: int) -> str:
    """The graph as ``get_execution_plan`` returns it: one object per node, with its predecessors."""
    widths = {node.id: parallelism_of(node, default_parallelism) for node in graph}
    return json.dumps({"nodes": [_node_json(node, widths) for node in graph]}, indent=2)


def to_mermaid(graph: StreamGraph) -> str:
    """The graph as a Mermaid flow chart, one box per step."""
    lines = ["flowchart LR"]
    for node in graph:
        opening, closing = ("([", "])") if is_source(node.spec) or is_sink(node.spec) else ("[", "]")
        lines.append(f'  n{node.id}{opening}"{escape_mermaid(operator_name(node))}"{closing}')
    lines += [_mermaid_arrow(node, edge) for node in graph for edge in node.inputs]
    return "\n".join(lines) + "\n"


def _mermaid_arrow(node: Node, edge: Edge) -> str:
    words = [] if isinstance(edge.distribution, Auto) else [edge.distribution.label]
    if edge.side_output is not None:
        words.append(f"side output {edge.side_output!r}")
    label = f'-- "{escape_mermaid(" ".join(words))}" -->' if words else "-->"
    return f"  n{edge.source} {label} n{node.id}"


def _node_json(node: Node, widths: dict[int, int]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": node.id,
        "type": operator_name(node),
        "pact": "Data Source" if is_source(node.spec) else "Data Sink" if is_sink(node.spec) else "Operator",
        "contents": node.description or operator_name(node),
        "parallelism": widths[node.id],
    }
    if node.inputs:
        fields["predecessors"] = [_predecessor(edge, widths, widths[node.id]) for edge in node.inputs]
    return fields


def _predecessor(edge: Edge, widths: dict[int, int], receivers: int) -> dict[str, Any]:
    distribution = resolved(edge.distribution, widths[edge.source], receivers)
    # "second" for every edge is what Flink writes, whichever input it is; its plan visualizer expects the field.
    return {"id": edge.source, "ship_strategy": distribution.label, "side": "second"}
