"""Latency markers: when sources send them, and what operators learn from them.

A marker goes the way of the records, waits in the same queues and never passes one of them. User code does not see it, so its
age at an operator is how long records wait on their way there, without the time that functions or windows take for themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from firesteel.common.time import to_millis
from firesteel.metrics import Histogram, MetricGroup
from firesteel.runtime.elements import LatencyMarker

__all__ = ["Latencies", "MarkerOutput", "MarkerPace"]


class MarkerOutput(Protocol):
    """Where a source sends its markers."""

    def latency_marker(self, marker: LatencyMarker) -> None:
        """Send it on."""
        ...


class MarkerPace:
    """Sends a marker of one source's subtask every ``seconds``, beginning at once."""

    def __init__(self, source_id: str, subtask: int, seconds: float, output: MarkerOutput) -> None:
        self._source_id = source_id
        self._subtask = subtask
        self._seconds = seconds
        self._output = output
        #: When the next one is due.
        self.due_at = 0.0

    def on_time(self, now: float) -> None:
        """Send one if it is due. Those that were missed are not made up for."""
        if now >= self.due_at:
            self.due_at = now + self._seconds
            self._output.latency_marker(LatencyMarker(to_millis(now), self._source_id, self._subtask))


class Latencies:
    """The latencies seen by one operator's subtask: a histogram for each source, as ``granularity`` says."""

    def __init__(self, group: MetricGroup, granularity: str, history: int, now: Callable[[], float]) -> None:
        self._group = group.add_group("latency")
        self._granularity = granularity
        self._history = history
        self._now = now
        self._histograms: dict[tuple[str, int], Histogram] = {}

    def record(self, marker: LatencyMarker) -> None:
        """One more; clocks that disagree never make it negative."""
        key = self._key(marker)
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = self._register(marker)
        histogram.update(max(0, to_millis(self._now()) - marker.marked_at_ms))

    def _key(self, marker: LatencyMarker) -> tuple[str, int]:
        match self._granularity:
            case "single":
                return "", 0
            case "subtask":
                return marker.source_id, marker.source_subtask
            case _:
                return marker.source_id, 0

    def _register(self, marker: LatencyMarker) -> Histogram:
        group = self._group
        if self._granularity != "single":
            group = group.add_group("source_id", marker.source_id)
        if self._granularity == "subtask":
            group = group.add_group("source_subtask_index", str(marker.source_subtask))
        return group.histogram("latency", self._history)
