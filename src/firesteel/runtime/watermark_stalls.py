"""Notices where event time stands still, and finds out who holds it back.

An operator that waits for the watermark - for windows, timers, an interval join - is watched: when it has got records for a
while, and its watermark has not moved, the task says so, once until it moves. Nothing is done for that per record, and no
timer is set: the task looks whenever it has messages to send, and only records that arrive can make it say something.

The cause is found by following the way of the watermark backwards: within the chain to the operator that makes it, a source
or an assigner; else to the channel that is furthest behind, and from there on by asking the task of its sender
(`ExplainWatermark`, passed on by the job master).
"""

from __future__ import annotations

from collections.abc import Callable

from firesteel.common.time import MAX_TIMESTAMP
from firesteel.plan.messages import WatermarkCause, WatermarkStalled
from firesteel.runtime.event_time import TimestampsOperator
from firesteel.runtime.operator import Operator
from firesteel.runtime.operator_chain import ChainLink
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.vertex import VertexSubtask

__all__ = ["StallWatch", "explain", "watches_of"]


class StallWatch:
    """Watches one operator; ``seconds`` are how long records may come without the watermark moving."""

    def __init__(self, vertex: VertexSubtask, operator: int, seconds: float) -> None:
        self._vertex = vertex
        self._index = operator
        self._link: ChainLink = vertex.chain[operator].link
        self._seconds = seconds
        self._watermark = self._link.current_watermark
        self._records = self._link.records_in
        self._since: float | None = None  # of the first record after the watermark had moved
        self._has_told = False

    def look(self, now: Callable[[], float]) -> WatermarkStalled | None:
        """What there is to say, now that something has happened in the task."""
        link = self._link
        if link.current_watermark != self._watermark:
            self._watermark = link.current_watermark
            self._records = link.records_in
            self._since, self._has_told = None, False
            return None
        if link.records_in == self._records or self._has_told:
            return None
        self._records = link.records_in
        if self._since is None:
            self._since = now()
            return None
        waited = now() - self._since
        if waited < self._seconds or self._watermark >= MAX_TIMESTAMP - 1:
            return None
        if not link.operator.awaits_event_time():
            return None
        self._has_told = True
        vertex = self._vertex
        return WatermarkStalled(
            vertex.chain[self._index].plan.name,
            vertex.subtask,
            vertex.plan.parallelism,
            waited,
            self._watermark,
            explain(vertex, self._index, before=True),
        )


def watches_of(vertex: VertexSubtask, seconds: float) -> list[StallWatch]:
    """One for each operator that may wait for a watermark; none when ``seconds`` say so."""
    if seconds <= 0:
        return []
    return [
        StallWatch(vertex, index, seconds)
        for index, subtask in enumerate(vertex.chain)
        if type(subtask.link.operator).awaits_event_time is not Operator.awaits_event_time
    ]


def explain(vertex: VertexSubtask, operator: int, before: bool = False) -> WatermarkCause:
    """Why the watermark behind an operator of a chain, or ``before`` it, is where it is, as far as this subtask knows."""
    index = vertex.chain[operator].plan.parent if before else operator
    while index is not None:
        candidate = vertex.chain[index].link.operator
        if isinstance(candidate, (SourceOperator, TimestampsOperator)):
            name = f"'{vertex.chain[index].plan.name}' ({vertex.subtask + 1}/{vertex.plan.parallelism})"
            return WatermarkCause(candidate.time.explain(name, isinstance(candidate, SourceOperator)))
        index = vertex.chain[index].plan.parent
    channel = vertex.gate.slowest_channel()
    if channel is None:
        return WatermarkCause("all its inputs have said that they are idle")
    return WatermarkCause("", channel.edge.source, channel.edge.source_operator, channel.sender)
