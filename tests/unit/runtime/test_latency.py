"""Latency markers leave at their pace, behind the records of their channel, and become histograms."""

from __future__ import annotations

import pytest

from firesteel.metrics import MetricGroup
from firesteel.plan.exchange import Rebalance
from firesteel.plan.messages import SubtaskStatistics
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.elements import Barrier, Chunk, LatencyMarker
from firesteel.runtime.latency import Latencies, MarkerPace
from firesteel.runtime.wire_format import encode
from firesteel_support.flow import Flow
from firesteel_support.task_harness import TaskHarness


class Sent:
    def __init__(self) -> None:
        self.markers: list[LatencyMarker] = []

    def latency_marker(self, marker: LatencyMarker) -> None:
        self.markers.append(marker)


def test_a_marker_leaves_at_once_and_then_one_for_every_interval() -> None:
    sent = Sent()
    pace = MarkerPace("0a", 3, 0.5, sent)
    for now in (10.0, 10.2, 10.5, 10.9, 13.0, 13.1):
        pace.on_time(now)
    assert [marker.marked_at_ms for marker in sent.markers] == [10_000, 10_500, 13_000]
    assert {(marker.source_id, marker.source_subtask) for marker in sent.markers} == {("0a", 3)}
    assert pace.due_at == 13.5


@pytest.mark.parametrize(
    ("granularity", "histograms"),
    [
        ("single", {("latency",): 3}),
        ("operator", {("latency", "source_id", "a"): 2, ("latency", "source_id", "b"): 1}),
        (
            "subtask",
            {
                ("latency", "source_id", "a", "source_subtask_index", "0"): 1,
                ("latency", "source_id", "a", "source_subtask_index", "1"): 1,
                ("latency", "source_id", "b", "source_subtask_index", "0"): 1,
            },
        ),
    ],
)
def test_granularity_says_what_there_is_a_histogram_for(
    granularity: str, histograms: dict[tuple[str, ...], int]
) -> None:
    group = MetricGroup("Map")
    latencies = Latencies(group, granularity, 128, lambda: 2.0)
    for source, subtask in (("a", 0), ("a", 1), ("b", 0)):
        latencies.record(LatencyMarker(1_900, source, subtask))
    found = {scope: value for scope, name, _, value, _ in group.readings() if name == "latency"}
    assert {scope: value.count for scope, value in found.items()} == histograms
    assert {value.max for value in found.values()} == {100}


def test_clocks_that_disagree_make_no_negative_latency() -> None:
    group = MetricGroup("Map")
    Latencies(group, "single", 128, lambda: 1.0).record(LatencyMarker(5_000, "a", 0))
    assert [value.min for _, _, _, value, _ in group.readings()] == [0]


def middle_task() -> TaskHarness:
    """A task with a map between two exchanges, fed by one sender."""
    flow = Flow(parallelism=2)
    mapped = flow.map(flow.source([1], parallelism=1), lambda v: v, by=Rebalance())
    flow.collect(flow.map(mapped, lambda v: v, by=Rebalance()), "out")
    return TaskHarness(flow.plan(), stage=1)


def test_a_marker_goes_to_one_receiver_behind_the_records_for_it() -> None:
    task = middle_task()
    marker = LatencyMarker(7, "0a", 0)
    task.task.receive(encode(Chunk([1, 2, 3, 4]), 0, 0, 0, 0))
    task.task.receive(encode(marker, 0, 0, 0, 1))
    by_receiver: dict[int, list[object]] = {}
    for _, header, element in task.elements():
        by_receiver.setdefault(header.target, []).append(element)
    marked = [elements for elements in by_receiver.values() if marker in elements]
    assert len(marked) == 1
    assert isinstance(marked[0][0], Chunk)
    assert marked[0][-1] == marker


def test_what_came_and_left_is_counted_for_the_subtask() -> None:
    task = middle_task()
    payload = encode(Chunk([1, 2, 3, 4]), 0, 0, 0, 0)
    task.task.receive(payload)
    task.elements()
    [counted] = task.task.report().subtasks
    assert isinstance(counted, SubtaskStatistics)
    assert (counted.records_in, counted.records_out) == (4, 4)
    assert (counted.bytes_in, counted.buffers_in) == (len(payload), 1)
    assert counted.buffers_out == 2
    assert counted.alignment_ms is None, "there was no checkpoint yet"
    task.task.receive(encode(Barrier(CheckpointOrder(1, 0)), 0, 0, 0, 1))
    [counted] = task.task.report().subtasks
    assert counted.alignment_ms == 0.0
    assert counted.start_delay_ms is not None
