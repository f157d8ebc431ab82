"""How many subtasks a step gets: its own setting, else the default, never more than its source can use."""

from __future__ import annotations

from firesteel.graph.stream_graph import Node
from firesteel.plan.operator_specs import SourceSpec


def parallelism_of(node: Node, default: int) -> int:
    """The parallelism of ``node`` where the program's default is ``default``."""
    if node.parallelism is not None:
        return node.parallelism
    limit = source_limit(node)
    return default if limit is None else min(default, limit)


def source_limit(node: Node) -> int | None:
    """How many subtasks can read the node's source; None for no limit and for what is not a source."""
    return node.spec.max_subtasks if isinstance(node.spec, SourceSpec) else None
