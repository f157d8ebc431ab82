"""Second pass: every step gets the values that its program left open - parallelism, key groups, slot group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from firesteel.compiler.settings import CompilerSettings
from firesteel.graph.names import operator_name
from firesteel.graph.operator_ids import operator_ids
from firesteel.graph.parallelism import parallelism_of
from firesteel.graph.stream_graph import Edge, Node, StreamGraph
from firesteel.plan.exchange import resolved
from firesteel.plan.key_groups import default_max_parallelism

DEFAULT_SLOT_SHARING_GROUP = "default"


@dataclass(frozen=True, slots=True)
class Step:
    """A node of the graph with nothing left open."""

    node: Node
    operator_id: str
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    buffer_timeout_ms: int
    inputs: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Fixed:
    """What is not left to the compiler, by operator id: parallelism, key groups, and which operators begin a vertex."""

    parallelism: Mapping[str, int] = field(default_factory=dict)
    max_parallelism: Mapping[str, int] = field(default_factory=dict)
    heads: frozenset[str] = frozenset()


NOTHING_FIXED = Fixed()


def resolve_steps(
    graph: StreamGraph, settings: CompilerSettings, fixed: Fixed = NOTHING_FIXED
) -> dict[int, Step]:
    """The steps by node id, in the graph's order (inputs before their users)."""
    ids = operator_ids(graph)
    steps: dict[int, Step] = {}
    for node in graph:
        steps[node.id] = _resolve(node, ids[node.id], steps, settings, fixed)
    return steps


def _resolve(
    node: Node, operator_id: str, done: Mapping[int, Step], settings: CompilerSettings, fixed: Fixed
) -> Step:
    parallelism = fixed.parallelism.get(operator_id) or parallelism_of(node, settings.parallelism)
    own_timeout = node.buffer_timeout_ms
    return Step(
        node=node,
        operator_id=operator_id,
        name=operator_name(node),
        parallelism=parallelism,
        max_parallelism=fixed.max_parallelism.get(operator_id)
        or _max_parallelism(node, parallelism, settings),
        slot_sharing_group=_slot_sharing_group(node, done),
        buffer_timeout_ms=settings.buffer_timeout_ms if own_timeout is None else own_timeout,
        inputs=tuple(_resolve_edge(edge, done[edge.source].parallelism, parallelism) for edge in node.inputs),
    )


def _max_parallelism(node: Node, parallelism: int, settings: CompilerSettings) -> int:
    for given in (node.max_parallelism, settings.max_parallelism):
        if given is not None:
            return given
    return default_max_parallelism(parallelism)


def _slot_sharing_group(node: Node, done: Mapping[int, Step]) -> str:
    """The group the user chose, else the one all inputs are in, else the default one."""
    if node.slot_sharing_group is not None:
        return node.slot_sharing_group
    inherited = {done[edge.source].slot_sharing_group for edge in node.inputs}
    return inherited.pop() if len(inherited) == 1 else DEFAULT_SLOT_SHARING_GROUP


def _resolve_edge(edge: Edge, senders: int, receivers: int) -> Edge:
    return replace(edge, distribution=resolved(edge.distribution, senders, receivers))
