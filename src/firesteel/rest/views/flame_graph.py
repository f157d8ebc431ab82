"""Samples of stacks as Flink's flame graph: a tree of frames, each with the number of samples that it is in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firesteel.plan.messages import SampledStack

__all__ = ["DISABLED", "OVER", "WAITING", "flame_graph"]

#: Times that Flink gives an answer without data: the vertex has ended, nobody may sample, samples are being taken.
OVER, DISABLED, WAITING = ({"endTimestamp": time} for time in (-1, -2, -3))

_KINDS = {"FULL": (True, False), "ON_CPU": (True,), "OFF_CPU": (False,)}


def flame_graph(stacks: Iterable[SampledStack], kind: str, ended_ms: int) -> dict[str, Any]:
    """``kind``: all samples, those of threads that ran, or of those that waited."""
    root = _node("root")
    for stack in stacks:
        if stack.runs not in _KINDS[kind]:
            continue
        root["value"] += stack.count
        at = root
        for name in stack.frames:
            at = at["children"].setdefault(name, _node(name))
            at["value"] += stack.count
    return {"endTimestamp": ended_ms, "data": _listed(root)}


def _node(name: str) -> dict[str, Any]:
    return {"name": name, "value": 0, "children": {}}


def _listed(node: dict[str, Any]) -> dict[str, Any]:
    """The same with lists of children, in the order of their names, so that boxes stay where they are from answer to answer."""
    children = sorted(node["children"].values(), key=lambda child: str(child["name"]))
    return {**node, "children": [_listed(child) for child in children]}
