"""Nodes and edges of a job, as the fluent API builds them.

Nodes are frozen; the fluent setters (`name`, `uid`, `set_parallelism` ...) replace a node in the
builder, so a graph built for one execution never changes under it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from firesteel.common.typeinfo import TypeInformation
from firesteel.plan.exchange import EdgeDistribution
from firesteel.plan.operator_specs import OperatorSpec
from firesteel.plan.shipped import Shipped


class Chaining(enum.Enum):
    """Whether an operator may share a task with its neighbours by direct calls."""

    ALWAYS = "always"
    HEAD = "head"  # starts a chain, may have followers: start_new_chain()
    NEVER = "never"  # disable_chaining()


@dataclass(frozen=True, slots=True)
class Edge:
    """Input of a node: which node's output (or side output) and how it is distributed."""

    source: int
    distribution: EdgeDistribution
    input_index: int = 0
    side_output: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. ``parallelism`` None means the environment's; ``fixed_parallelism`` forbids changing it.

    ``follows_default``: nobody has said how parallel this operation is, but how parallel all are.
    ``state_types`` are the declared types of what the operator keeps by itself, in words: ``{"keys": "Integer"}``.
    """

    id: int
    name: str
    spec: OperatorSpec
    inputs: tuple[Edge, ...] = ()
    output_type: TypeInformation | None = None
    side_types: Mapping[str, TypeInformation | None] = field(default_factory=dict)
    key_selectors: tuple[Shipped | None, ...] = ()
    state_types: Mapping[str, str] = field(default_factory=dict)
    parallelism: int | None = None
    fixed_parallelism: bool = False
    follows_default: bool = False
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    description: str | None = None
    chaining: Chaining = Chaining.ALWAYS
    slot_sharing_group: str | None = None
    buffer_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """The whole program: nodes in the order they were added (inputs come before their users)."""

    nodes: tuple[Node, ...]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def consumers(self) -> Mapping[int, list[Node]]:
        """For each node id the nodes that read from it."""
        consumers: dict[int, list[Node]] = {node.id: [] for node in self.nodes}
        for node in self.nodes:
            for source in dict.fromkeys(edge.source for edge in node.inputs):
                consumers[source].append(node)
        return consumers


class GraphBuilder:
    """The mutable list of nodes behind an execution environment."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._pending: set[int] = set()
        self._next_id = 1

    def add(self, name: str, spec: OperatorSpec, inputs: tuple[Edge, ...] = (), **settings: Any) -> int:
        """Add a node and return its id."""
        node = Node(self._next_id, name, spec, inputs, **settings)
        self._nodes[node.id] = node
        self._pending.add(node.id)
        self._next_id += 1
        return node.id

    def change(self, node_id: int, **settings: Any) -> None:
        """Replace some settings of a node."""
        self._nodes[node_id] = replace(self._nodes[node_id], **settings)

    def __getitem__(self, node_id: int) -> Node:
        return self._nodes[node_id]

    def __len__(self) -> int:
        return len(self._nodes)

    def mark_executed(self) -> None:
        """What has been added so far has run: the next graph starts from what is added after this."""
        self._pending.clear()

    def build(self) -> StreamGraph:
        """Everything added since the last execution, with all it reads from."""
        included: set[int] = set()
        waiting = list(self._pending)
        while waiting:
            node_id = waiting.pop()
            if node_id not in included:
                included.add(node_id)
                waiting.extend(edge.source for edge in self._nodes[node_id].inputs)
        return StreamGraph(tuple(node for node in self._nodes.values() if node.id in included))
