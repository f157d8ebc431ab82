"""A task as a machine: what goes in and comes out, in order, with nothing lost unnoticed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.accumulators import IntCounter
from firesteel.common.errors import DataLossError, UpstreamLostError, UserCodeError
from firesteel.common.time import MAX_WATERMARK
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.functions import MapFunction, RuntimeContext
from firesteel.contracts.source import SourceFunction
from firesteel.graph.stream_graph import Chaining, Edge
from firesteel.metrics import MetricKind
from firesteel.plan.exchange import Broadcast, Rebalance
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import OperatorStatistics, TriggerCheckpoint
from firesteel.plan.operator_specs import TimestampsSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.elements import END_OF_INPUT, Barrier, Chunk, Element, StreamStatus, WatermarkSignal
from firesteel.runtime.wire_format import decode, encode, read_header
from firesteel.testing.scripted_source import (
    Emit,
    EmitWatermark,
    GoIdle,
    Pause,
    ScriptedSource,
    Step,
    WaitForever,
)
from firesteel_support.flow import Flow
from firesteel_support.task_harness import TaskHarness

BUFFER_TIMEOUT = "execution.buffer-timeout.interval"


def two_stages(source: Any, function: Any = lambda v: v, **options: Any) -> JobPlan:
    """One source task, one task with a map and a collecting sink behind a rebalance."""
    flow = Flow()
    stream = flow.source(source, parallelism=1)
    flow.collect(flow.map(stream, function, by=Rebalance()), "out")
    return flow.plan(**options)


def with_an_edge_that_skips_stages() -> tuple[JobPlan, int]:
    """A plan and the number of an edge of it from the first to the last of four stages."""
    flow = Flow()
    source = flow.source([1])
    far = flow.map(
        flow.map(source, lambda v: v, by=Rebalance(), parallelism=2),
        lambda v: v,
        by=Rebalance(),
        parallelism=3,
    )
    joined = flow.map([far, source], lambda v: v, by=Broadcast(), parallelism=3)
    flow.collect(joined, "out")
    plan = flow.plan()
    return plan, next(e.id for e in plan.edges if e.source == 0 and plan.vertices[e.target].stage == 3)


def receiving(function: Any = lambda v: v) -> TaskHarness:
    return TaskHarness(two_stages([1], function), stage=1)


def row(element: Element, sequence: int, sender: int = 0, target: int = 0, edge: int = 0) -> bytes:
    return encode(element, edge, sender, target, sequence)


def collected(task: TaskHarness) -> list[Any]:
    import pickle

    return [value for _, blob in task.services.blobs for value in pickle.loads(blob)]


# Sending -----------------------------------------------------------------------------------------------


def test_a_source_task_sends_its_records_then_the_end() -> None:
    task = TaskHarness(two_stages([1, 2, 3]))
    assert task.task.poll()
    assert [element for _, _, element in task.elements()] == [
        Chunk([1, 2, 3]),
        WatermarkSignal(MAX_WATERMARK),
        END_OF_INPUT,
    ]
    assert task.task.finished
    assert not task.task.has_sources
    assert not task.task.poll()


def test_nothing_leaves_a_busy_task_before_a_chunk_is_full() -> None:
    task = TaskHarness(two_stages(ScriptedSource([Emit([1, 2]), WaitForever()])))
    task.task.poll()
    assert task.task.take(idle=False) == []
    assert [element for _, _, element in task.elements(idle=True)] == [Chunk([1, 2])]


def test_an_idle_task_pushes_its_last_row_with_a_flush_row() -> None:
    task = TaskHarness(two_stages(ScriptedSource([Emit([1]), WaitForever()])))
    task.task.poll()
    first, flush = task.task.take(idle=True)
    assert (first[0], flush) == (0, (0, b""))
    assert task.task.take(idle=True) == []


def test_full_chunks_of_a_busy_task_are_pushed_when_it_becomes_idle() -> None:
    task = TaskHarness(
        two_stages(ScriptedSource([Emit([1, 2, 3]), WaitForever()]), **{"firesteel.chunk.records": 1})
    )
    task.task.poll()
    rows = task.task.take(idle=False)
    assert len(rows) == 3
    assert all(payload for _, payload in rows)
    assert task.task.take(idle=True) == [(0, b"")]


def test_the_buffer_timeout_flushes_a_busy_task() -> None:
    task = TaskHarness(two_stages(ScriptedSource([Emit([1]), WaitForever()]), **{BUFFER_TIMEOUT: "100 ms"}))
    task.task.poll()
    task.services.clock.advance(0.05)
    assert task.elements(idle=False) == []
    task.services.clock.advance(0.06)
    assert len(task.elements(idle=False)) == 1


def test_a_look_in_the_last_quarter_of_the_buffer_timeout_flushes_because_the_next_one_may_be_too_late() -> (
    None
):
    task = TaskHarness(two_stages(ScriptedSource([Emit([1]), WaitForever()]), **{BUFFER_TIMEOUT: "100 ms"}))
    task.task.poll()
    task.services.clock.advance(0.074)
    assert not task.task.flush_is_due
    task.services.clock.advance(0.002)
    assert task.task.flush_is_due
    assert len(task.elements(idle=False)) == 1
    assert not task.task.flush_is_due


def test_a_barrier_does_not_wait_for_the_buffer_timeout() -> None:
    task = TaskHarness(two_stages(ScriptedSource([Emit([1]), WaitForever()]), **{BUFFER_TIMEOUT: "1 h"}))
    task.task.poll()
    assert task.task.take(idle=False) == []
    order = CheckpointOrder(1, 0)
    task.task.obey(TriggerCheckpoint(order))
    assert task.task.has_much_to_send
    *rows, flush = task.task.take(idle=False)
    assert [decode(read_header(payload).kind, payload) for _, payload in rows] == [Chunk([1]), Barrier(order)]
    assert flush == (0, b"")


def test_a_relayed_barrier_does_not_wait_either() -> None:
    plan, skipping = with_an_edge_that_skips_stages()
    task = TaskHarness(plan, stage=1, index=1)
    payload = row(Barrier(CheckpointOrder(1, 0)), 0, target=2, edge=skipping)
    task.task.receive(memoryview(payload))
    assert task.task.take(idle=False) == [(2, payload), (2, b"")]


def test_a_buffer_timeout_of_zero_flushes_at_every_look() -> None:
    task = TaskHarness(two_stages(ScriptedSource([Emit([1]), WaitForever()]), **{BUFFER_TIMEOUT: "0 ms"}))
    task.task.poll()
    assert len(task.elements(idle=False)) == 1


def test_without_buffer_timeout_chunks_leave_only_when_full() -> None:
    source = ScriptedSource([Emit([1]), WaitForever()])
    task = TaskHarness(two_stages(source, **{"execution.buffer-timeout.enabled": False}))
    task.task.poll()
    task.services.clock.advance(100)
    assert task.elements(idle=True) == []


def test_a_vertex_without_buffer_timeout_does_not_hold_up_its_neighbours() -> None:
    flow = Flow()
    for timeout in (-1, 100):
        source = flow.source(
            ScriptedSource([Emit([timeout]), WaitForever()]), parallelism=1, buffer_timeout_ms=timeout
        )
        flow.collect(flow.map(source, lambda v: v, by=Rebalance()), f"out{timeout}")
    task = TaskHarness(flow.plan())
    task.task.poll()
    assert [element for _, _, element in task.elements()] == [Chunk([100])]


# Receiving ---------------------------------------------------------------------------------------------


def test_chunks_run_through_the_chain() -> None:
    task = receiving(lambda v: v + 1)
    task.task.receive(row(Chunk([1, 2]), 0))
    task.task.receive(memoryview(row(Chunk([3], [5]), 1)))
    task.task.receive(b"")
    assert collected(task) == [2, 3, 4]
    assert not task.task.finished


def test_the_end_of_all_channels_finishes_the_task() -> None:
    task = receiving()
    task.task.receive(row(Chunk([1]), 0))
    task.task.receive(row(END_OF_INPUT, 1))
    assert task.task.finished
    task.task.input_ended()


@pytest.mark.parametrize("sequences", [[1], [0, 2], [0, 0], [0, 1, 0]])
def test_a_lost_repeated_or_reordered_payload_is_noticed(sequences: list[int]) -> None:
    task = receiving()
    for sequence in sequences[:-1]:
        task.task.receive(row(Chunk([sequence]), sequence))
    with pytest.raises(DataLossError, match="records were lost, repeated or reordered"):
        task.task.receive(row(Chunk([9]), sequences[-1]))


def test_a_payload_after_the_end_is_noticed() -> None:
    task = receiving()
    task.task.receive(row(END_OF_INPUT, 0))
    with pytest.raises(DataLossError, match="expected nothing after the end"):
        task.task.receive(row(Chunk([1]), 1))


def test_input_that_ends_early_is_noticed() -> None:
    task = receiving()
    task.task.receive(row(Chunk([1]), 0))
    with pytest.raises(UpstreamLostError, match="an upstream task ended early"):
        task.task.input_ended()


def test_a_payload_for_another_task_is_noticed() -> None:
    task = receiving()
    with pytest.raises(DataLossError, match="wrong task"):
        task.task.receive(row(Chunk([1]), 0, sender=5))
    with pytest.raises(DataLossError, match="wrong task"):
        task.task.receive(row(Chunk([1]), 0, target=1))


# Signals -----------------------------------------------------------------------------------------------


def signals(task: TaskHarness) -> list[Element]:
    return [element for _, _, element in task.elements() if not isinstance(element, Chunk)]


def middle_task() -> TaskHarness:
    """A task with a map between two exchanges, fed by two senders."""
    flow = Flow()
    source = flow.source(ScriptedSource([], []), parallelism=2)
    flow.collect(flow.map(flow.map(source, lambda v: v), lambda v: v, by=Rebalance()), "out")
    return TaskHarness(flow.plan(), stage=1)


def test_the_minimum_of_the_channels_watermarks_is_passed_on_behind_the_records() -> None:
    task = middle_task()
    task.task.receive(row(WatermarkSignal(10), 0, sender=0))
    assert signals(task) == []
    task.task.receive(row(Chunk(["a"]), 0, sender=1))
    task.task.receive(row(WatermarkSignal(7), 1, sender=1))
    assert [element for _, _, element in task.elements()] == [Chunk(["a"]), WatermarkSignal(7)]


def test_l01_a_watermark_is_passed_on_only_when_the_clock_advances() -> None:
    task = middle_task()
    sequences = [0, 0]
    for sender, timestamp in [(0, 10), (1, 7), (0, 12), (1, 7), (1, 9), (0, 13), (1, 20)]:
        task.task.receive(row(WatermarkSignal(timestamp), sequences[sender], sender=sender))
        sequences[sender] += 1
    assert signals(task) == [WatermarkSignal(7), WatermarkSignal(9), WatermarkSignal(13)]


def test_idleness_is_passed_on_when_all_channels_are_idle() -> None:
    task = middle_task()
    task.task.receive(row(StreamStatus(False), 0, sender=0))
    assert signals(task) == []
    task.task.receive(row(StreamStatus(False), 0, sender=1))
    task.task.receive(row(StreamStatus(True), 1, sender=1))
    assert signals(task) == [StreamStatus(False), StreamStatus(True)]


def test_an_idle_source_becomes_active_with_its_next_record_and_for_its_end() -> None:
    script: list[Step] = [EmitWatermark(1), GoIdle(), Emit([1]), GoIdle()]
    task = TaskHarness(two_stages(ScriptedSource(script)))
    for _ in range(len(script) + 1):
        task.task.poll()
    assert [element for _, _, element in task.elements()] == [
        WatermarkSignal(1),
        StreamStatus(False),
        StreamStatus(True),
        Chunk([1]),
        StreamStatus(False),
        StreamStatus(True),
        WatermarkSignal(MAX_WATERMARK),
        END_OF_INPUT,
    ]


# Relaying ----------------------------------------------------------------------------------------------


def test_an_edge_that_skips_a_stage_is_relayed_unopened() -> None:
    plan, skipping = with_an_edge_that_skips_stages()
    task = TaskHarness(plan, stage=1, index=1)
    payload = row(Chunk(["opaque"]), 0, target=2, edge=skipping)
    task.task.receive(memoryview(payload))
    assert task.task.take(idle=False) == [(2, payload)]
    assert task.task.take(idle=True) == [(2, b"")]


# Polling -----------------------------------------------------------------------------------------------


def test_a_pause_tells_when_to_poll_again() -> None:
    task = TaskHarness(two_stages(ScriptedSource([Pause(5.0), Emit([1]), WaitForever()])))
    start = task.services.now()
    assert task.task.ready()
    assert not task.task.poll()
    assert task.task.next_poll() == start + 5
    assert task.task.next_poll(sources_from=start + 7) == start + 7
    assert task.task.next_poll(sources_from=start + 3) == start + 5
    assert not task.task.ready()
    assert not task.task.poll()
    task.services.clock.advance(5)
    assert task.task.ready()
    assert task.task.poll()
    task.task.poll()
    assert task.task.next_poll() == math.inf


def test_the_source_batch_option_limits_what_is_taken_at_once() -> None:
    source = ScriptedSource([Emit([1, 2, 3, 4, 5])])
    task = TaskHarness(two_stages(source, **{"firesteel.source.batch": 2, BUFFER_TIMEOUT: "0 ms"}))
    chunks = []
    while task.task.has_sources:
        task.task.poll()
        chunks += [element.values for _, _, element in task.elements(False) if isinstance(element, Chunk)]
    assert chunks == [[1, 2], [3, 4], [5]]


def test_stop_ends_the_sources_as_if_their_input_had_ended() -> None:
    task = TaskHarness(two_stages(ScriptedSource([Emit([1]), WaitForever()])))
    task.task.poll()
    task.task.stop_sources()
    assert task.task.poll()
    assert signals(task) == [WatermarkSignal(MAX_WATERMARK), END_OF_INPUT]
    assert task.task.finished


class StubbornSource(SourceFunction):
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        pass

    def cancel(self) -> None:
        raise OSError("will not")


def test_an_error_in_cancel_names_the_source() -> None:
    flow = Flow()
    flow.collect(flow.function_source(StubbornSource()), "out")
    task = TaskHarness(flow.plan(**{"execution.runtime-mode": "STREAMING"}))
    with pytest.raises(UserCodeError, match="will not") as caught:
        task.task.stop_sources()
    assert "Custom Source" in caught.value.operator


# Reports -----------------------------------------------------------------------------------------------


class Counted(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = IntCounter()
        runtime_context.add_accumulator("total", self.total)
        self.metric = runtime_context.get_metrics_group().counter("maps")

    def map(self, value: int) -> int:
        self.total.add(value)
        self.metric.inc()
        return value


def test_a_report_has_counters_accumulators_and_metrics() -> None:
    flow = Flow()
    source = flow.source([1, 2, 3])
    flow.collect(flow.filter(flow.map(source, Counted()), lambda v: v > 1), "a")
    flow.collect(flow.map(source, Counted(), chaining=Chaining.ALWAYS), "b")
    task = TaskHarness(flow.plan())
    task.task.poll()
    report = task.task.report()
    by_counts = sorted((o.records_in, o.records_out) for o in report.operators)
    assert by_counts == [(0, 3), (2, 0), (3, 0), (3, 2), (3, 3), (3, 3)]
    assert report.accumulators["total"].get_local_value() == 12
    # Two operators of the same name keep their own.
    maps = [value for value in report.metrics if value.name == "maps"]
    assert [(value.operator, value.subtask, value.kind, value.value) for value in maps] == [
        ("Map", 0, MetricKind.COUNTER, 3)
    ] * 2
    assert len({value.operator_id for value in maps}) == 2
    assert all(isinstance(entry, OperatorStatistics) for entry in report.operators)


class Unmeasurable(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_metrics_group().gauge("ratio", lambda: 1 // 0)

    def map(self, value: int) -> int:
        return value


def test_a_gauge_that_raises_does_not_fail_the_task(caplog: pytest.LogCaptureFixture) -> None:
    task = TaskHarness(two_stages([1], Unmeasurable()), stage=1)
    for _ in range(2):
        assert "ratio" not in {value.name for value in task.task.report().metrics}
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the metric 'Map.ratio' cannot be reported"
    ]


def test_a_report_tells_how_far_event_time_has_come() -> None:
    flow = Flow()
    stamped = flow.graph.add(
        "Stamp",
        TimestampsSpec(Shipped.of(WatermarkStrategy.for_monotonous_timestamps(), "test")),
        (Edge(flow.source([1], parallelism=1), Rebalance(), 0),),
        chaining=Chaining.NEVER,
    )
    flow.collect(flow.map(stamped, lambda v: v, by=Rebalance()), "out")
    last = TaskHarness(flow.plan(), stage=2)
    never = -(2**63)
    assert watermarks(last, "Map") == (never, never)
    last.task.receive(row(WatermarkSignal(41), 0, edge=1))
    assert watermarks(last, "Map") == (41, 41)
    # What comes in ends at an operator that makes its own watermarks.
    stamp = TaskHarness(flow.plan(), stage=1)
    stamp.task.receive(row(WatermarkSignal(5), 0))
    assert watermarks(stamp, "Stamp") == (5, never)
    source = TaskHarness(flow.plan()).task.report().metrics
    assert {value.name: value.value for value in source} == {"currentOutputWatermark": never}


def watermarks(task: TaskHarness, operator: str) -> tuple[int, int]:
    metrics = {value.name: value.value for value in task.task.report().metrics if value.operator == operator}
    return metrics["currentInputWatermark"], metrics["currentOutputWatermark"]


def test_counters_of_an_operator_have_its_watermark_unless_it_is_idle() -> None:
    flow = Flow()
    flow.collect(flow.map(flow.source([1], parallelism=1), lambda v: v, by=Rebalance()), "out")
    task = TaskHarness(flow.plan(), stage=1)

    def shown() -> list[int | None]:
        return [entry.watermark for entry in task.task.report().operators]

    assert shown() == [None, None]
    task.task.receive(row(WatermarkSignal(41), 0))
    assert shown() == [41, 41]
    task.task.receive(row(StreamStatus(active=False), 1))
    assert shown() == [None, None]
    task.task.receive(row(StreamStatus(active=True), 2))
    assert shown() == [41, 41]


def test_a_report_does_not_change_when_the_task_goes_on() -> None:
    flow = Flow()
    flow.collect(
        flow.map(flow.source(ScriptedSource([Emit([1]), Emit([2])]), parallelism=1), Counted()), "out"
    )
    task = TaskHarness(flow.plan())
    task.task.poll()
    report = task.task.report()
    task.task.poll()
    assert report.accumulators["total"].get_local_value() == 1


def test_names_tell_the_subtasks() -> None:
    flow = Flow(2)
    source = flow.source(ScriptedSource([], []))
    flow.collect(flow.map(source, lambda v: v), "out")
    assert TaskHarness(flow.plan(), index=1).task.names == ["Source: numbers -> Map -> Sink: Collect (2/2)"]


class CloseRecorder(MapFunction):
    closed: list[str] = []

    def __init__(self, name: str, fails: bool = False) -> None:
        self.name = name
        self.fails = fails

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        CloseRecorder.closed.append(self.name)
        if self.fails:
            raise OSError(self.name)


@pytest.fixture
def closed() -> Iterator[list[str]]:
    CloseRecorder.closed.clear()
    yield CloseRecorder.closed
    CloseRecorder.closed.clear()


def test_an_error_in_close_does_not_keep_the_others_open(closed: list[str]) -> None:
    flow = Flow()
    stream = flow.map(
        flow.map(flow.source([1]), CloseRecorder("a", fails=True)), CloseRecorder("b", fails=True)
    )
    flow.collect(flow.map(stream, CloseRecorder("c")), "out")
    errors = TaskHarness(flow.plan()).task.close()
    assert closed == ["a", "b", "c"]
    assert len(errors) == 2


def test_a_task_can_say_what_takes_its_memory() -> None:
    flow = Flow()
    keyed = flow.reduce(flow.source([1]), lambda a, b: a, key=lambda v: v, parallelism=1)
    flow.collect(keyed, "out")
    task = TaskHarness(flow.plan(), stage=1)
    task.task.receive(row(Chunk(list(range(1000))), 0))
    assert "'Reduce' (1/1) has 1,000 entries of state, about 0." in task.task.describe_memory()
    assert "'Sink: Collect' (1/1) has no keyed state" in task.task.describe_memory()
