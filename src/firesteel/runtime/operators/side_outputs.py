"""Sorts what a process function gave into main and side outputs.

A record reaches a side output in two ways: yielded as ``tag, value`` among the results, or handed to
``ctx.output``. Within a side output they keep the order in which the function emitted them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from firesteel.contracts.output_tag import OutputTag
from firesteel.runtime.operator import Output, Timestamps


class Aside(NamedTuple):
    """A record handed to ``ctx.output``; ``position`` is how many results there were before it."""

    position: int
    tag_id: str
    value: Any
    timestamp: int | None


def emit_sorted(output: Output, results: list[Any], timestamps: Timestamps, asides: list[Aside]) -> None:
    """Send ``tag, value`` results and ``asides`` to their side outputs and the rest to the main output."""
    tagged = [
        i
        for i, result in enumerate(results)
        if type(result) is tuple and result and type(result[0]) is OutputTag
    ]
    if tagged or asides:
        yielded = [_yielded(i, results, timestamps) for i in tagged]
        # By position, and what was handed over there before what was yielded there: sorting is stable.
        _emit_sides(
            output, sorted([*asides, *yielded], key=lambda aside: aside.position), timestamps is not None
        )
    if tagged:
        drop = set(tagged)
        kept = [i for i in range(len(results)) if i not in drop]
        results, timestamps = (
            _chosen(results, kept),
            None if timestamps is None else _chosen(timestamps, kept),
        )
    output.emit(results, timestamps)


def _yielded(index: int, results: list[Any], timestamps: Timestamps) -> Aside:
    tag, value = results[index]
    return Aside(index, tag.tag_id, value, None if timestamps is None else timestamps[index])


def _emit_sides(output: Output, asides: list[Aside], timed: bool) -> None:
    by_tag: dict[str, list[Aside]] = {}
    for aside in asides:
        by_tag.setdefault(aside.tag_id, []).append(aside)
    for tag_id, found in by_tag.items():
        stamps: Timestamps = [aside.timestamp for aside in found] if timed else None
        output.emit_side(tag_id, [aside.value for aside in found], stamps)


def _chosen(items: list[Any], indexes: list[int]) -> list[Any]:
    return [items[i] for i in indexes]
