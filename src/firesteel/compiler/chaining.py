"""Third pass: which neighbours share a task and call each other directly.

A chain is a tree: its head reads from other chains (or is a source), every other member has exactly
one input, which comes from a member of the same chain, by the main or by a side output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firesteel.compiler.settings import CompilerSettings
from firesteel.compiler.steps import Step
from firesteel.graph.stream_graph import Chaining
from firesteel.plan.exchange import Forward


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps that run in one task, each after its parent; the first is the head."""

    steps: tuple[Step, ...]

    @property
    def head(self) -> Step:
        """The step that reads the chain's input."""
        return self.steps[0]


def build_chains(
    steps: Mapping[int, Step], settings: CompilerSettings, heads: frozenset[str] = frozenset()
) -> list[Chain]:
    """All chains, in the order of their heads; every step is in exactly one. ``heads``: operators that begin one."""
    members: dict[int, list[Step]] = {}
    head_of: dict[int, int] = {}
    for node_id, step in steps.items():
        parent = None if step.operator_id in heads else _chained_to(step, steps, settings)
        head_of[node_id] = head = node_id if parent is None else head_of[parent.node.id]
        members.setdefault(head, []).append(step)
    return [Chain(tuple(chain)) for chain in members.values()]


def _chained_to(step: Step, steps: Mapping[int, Step], settings: CompilerSettings) -> Step | None:
    """The step that may call ``step`` directly, if there is one."""
    if len(step.inputs) != 1 or not isinstance(step.inputs[0].distribution, Forward):
        return None
    parent = steps[step.inputs[0].source]
    return parent if _may_chain(parent, step, settings) else None


def _may_chain(parent: Step, step: Step, settings: CompilerSettings) -> bool:
    return (
        settings.chaining
        and parent.node.chaining is not Chaining.NEVER
        and step.node.chaining is Chaining.ALWAYS
        and parent.parallelism == step.parallelism
        and (settings.chain_different_max_parallelism or parent.max_parallelism == step.max_parallelism)
        and parent.slot_sharing_group == step.slot_sharing_group
    )


def chain_name(chain: Chain) -> str:
    """Flink's name of a chain: ``Source: a -> Map -> (Filter, Sink: Print)``."""
    followers: dict[int, list[Step]] = {step.node.id: [] for step in chain.steps}
    for step in chain.steps[1:]:
        followers[step.inputs[0].source].append(step)
    # From the leaves to the head: when a step's turn comes, the names of its followers are there. A
    # recursion would be shorter and break on chains of a thousand steps.
    names: dict[int, str] = {}
    for step in reversed(chain.steps):
        rest = [names[follower.node.id] for follower in followers[step.node.id]]
        names[step.node.id] = step.name + _tail(rest)
    return names[chain.head.node.id]


def _tail(names: list[str]) -> str:
    if not names:
        return ""
    return f" -> {names[0]}" if len(names) == 1 else f" -> ({', '.join(names)})"
