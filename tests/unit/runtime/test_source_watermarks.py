"""Watermarks that begin in sources: one generator for each split, and what the source says itself."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.time import MAX_WATERMARK, Duration
from firesteel.common.watermark_strategy import IngestionTime, WatermarkStrategy
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.plan.job_plan import JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.messages import TaskId, WatermarkAlignmentUpdate, WatermarkReport
from firesteel.plan.operator_specs import CollectSpec, RuntimeMode, SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime.stage_task import StageTask
from firesteel.testing import (
    AddSplits,
    Emit,
    EmitWatermark,
    EndSplit,
    GoIdle,
    Pause,
    ScriptedSource,
    WaitForever,
)
from firesteel.testing._operator_harness import OperatorHarness, RecordingServices
from firesteel.testing.scripted_source import Step

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)


class SourceHarness(OperatorHarness):
    """A source that is polled as a task would do it, in simulated time."""

    def __init__(self, steps: list[Step], strategy: WatermarkStrategy, **settings: Any) -> None:
        source = Shipped.of(ScriptedSource(steps), "source")
        super().__init__(SourceSpec(source, True, strategy=Shipped.of(strategy, "strategy")), **settings)

    def run(self, seconds: float = 0.0) -> SourceHarness:
        """Let time pass; what is due happens in its order."""
        source: Any = self.operator
        end = self.services.now() + seconds
        while not source.ended:
            now = self.services.now()
            if self.operator.next_deadline() <= now:
                self.link.on_time(now)
            if source.ready(now):
                self.link.poll(2)
            elif (due := min(self.operator.next_deadline(), source.retry_at)) > end:
                break
            else:
                self.services.clock.advance_to(due)
        self.services.clock.advance_to(end)
        return self


def test_l04_the_watermark_is_the_minimum_over_the_splits() -> None:
    steps: list[Step] = [
        AddSplits(("a", "b")),
        Emit([100, 200], split="a"),
        Pause(0.5),
        Emit([10], split="b"),
        Pause(0.5),
        Emit([300], split="b"),
        WaitForever(),
    ]
    op = SourceHarness(steps, MONOTONOUS)
    assert op.run(0.4).output.watermarks == []
    assert op.run(0.5).output.watermarks == [9]
    assert op.run(0.5).output.watermarks == [9, 199]


def test_l04_reading_splits_one_after_the_other_makes_nothing_late() -> None:
    steps: list[Step] = [
        AddSplits((1, 2)),
        Emit([*range(50)], split=1),
        Pause(1),
        Emit([*range(50)], split=2),
    ]
    op = SourceHarness(steps, MONOTONOUS).run(10)
    assert op.output.watermarks == [MAX_WATERMARK]


def test_a_split_that_was_not_announced_takes_part_from_its_first_record() -> None:
    op = SourceHarness([Emit([100], split="a"), Pause(1), Emit([10], split="b"), Pause(1)], MONOTONOUS).run(
        10
    )
    assert op.output.watermarks == [99, MAX_WATERMARK]


def test_a_split_that_ended_leaves_the_minimum_at_once() -> None:
    steps: list[Step] = [AddSplits(("a", "b")), Emit([100], split="a"), Emit([5], split="b"), Pause(1)]
    op = SourceHarness(
        [*steps, EndSplit("b"), Pause(1), EndSplit("a"), EndSplit("?"), WaitForever()], MONOTONOUS
    )
    assert op.run(0.9).output.watermarks == [4]
    assert op.run(0.1).output.watermarks == [4, 99]
    assert op.run(5).output.watermarks == [4, 99]


def test_b12_an_idle_split_leaves_the_minimum_until_its_next_record() -> None:
    steps: list[Step] = [AddSplits(("a", "b")), Emit([5], split="b")]
    steps += [step for at in range(100, 150, 10) for step in (Emit([at], split="a"), Pause(0.5))]
    steps += [Emit([20], split="b"), WaitForever()]
    op = SourceHarness(steps, MONOTONOUS.with_idleness(Duration.of_seconds(1)))
    op.run(0.9)
    assert (op.output.watermarks, op.output.statuses) == ([4], [])
    op.run(1.5)
    assert (op.output.watermarks, op.output.statuses) == ([4, 109, 119, 129, 139], [])
    op.run(0.9)
    assert op.output.values[-1] == 20  # late, and the clock stays where it is
    assert op.output.watermarks[-1] == 139
    assert op.run(1).output.statuses == [False]


def test_a_source_without_splits_is_idle_after_its_timeout() -> None:
    op = SourceHarness([WaitForever()], MONOTONOUS.with_idleness(Duration.of_seconds(1)))
    assert op.run(0.9).output.statuses == []
    assert op.run(0.2).output.statuses == [False]


def test_a_source_that_waited_to_be_polled_is_not_idle() -> None:
    op = SourceHarness([Emit([1, 2, 3, 4]), WaitForever()], MONOTONOUS.with_idleness(Duration.of_seconds(1)))
    op.link.poll(2)
    op.services.clock.advance(30)  # back pressure: the task did not run
    op.run(0.5)
    assert op.output.statuses == []
    assert op.output.values == [1, 2, 3, 4]


def test_a_strategy_wins_over_the_watermarks_of_the_source() -> None:
    op = SourceHarness([EmitWatermark(1000), Emit([5]), Pause(1), EmitWatermark(2000)], MONOTONOUS).run(10)
    assert op.output.watermarks == [4, MAX_WATERMARK]


def test_b21_without_generator_the_sources_own_signals_pass() -> None:
    steps: list[Step] = [
        Emit([1], [1]),
        EmitWatermark(1),
        EmitWatermark(0),
        GoIdle(),
        EmitWatermark(7),
        WaitForever(),
    ]
    op = SourceHarness(steps, WatermarkStrategy.no_watermarks()).run()
    assert (op.output.watermarks, op.output.statuses) == ([1, 7], [False, True])


def test_own_watermarks_of_splits_are_combined_too() -> None:
    steps: list[Step] = [
        AddSplits((1, 2)),
        EmitWatermark(5, 1),
        EmitWatermark(3, 2),
        GoIdle(2),
        WaitForever(),
    ]
    op = SourceHarness(steps, WatermarkStrategy.no_watermarks()).run()
    assert (op.output.watermarks, op.output.statuses) == ([3, 5], [])


def test_a_source_may_declare_itself_idle_under_a_strategy() -> None:
    op = SourceHarness([Emit([5]), Pause(1), GoIdle(), WaitForever()], MONOTONOUS).run(2)
    assert (op.output.watermarks, op.output.statuses) == ([4], [False])


def test_in_batch_only_the_end_counts() -> None:
    steps: list[Step] = [EmitWatermark(3), Emit([5]), GoIdle(), Pause(1)]
    op = SourceHarness(steps, WatermarkStrategy.no_watermarks(), mode=RuntimeMode.BATCH).run(2)
    assert (op.output.watermarks, op.output.statuses) == ([MAX_WATERMARK], [])


def test_b04_ingestion_time_overrides_the_timestamps_of_the_source() -> None:
    op = SourceHarness(
        [Pause(1), Emit(["a"], [7]), Pause(0.3), EmitWatermark(9)], WatermarkStrategy(IngestionTime())
    )
    start = round(op.services.now() * 1000)
    op.run(2)
    assert op.output.timestamps == [start + 1000]
    assert op.output.watermarks == [start + 200 * tick - 1 for tick in range(1, 7)] + [MAX_WATERMARK]


def test_an_assigner_that_fails_in_a_source_names_the_record() -> None:
    op = SourceHarness([Emit([1, "x", 3])], MONOTONOUS)
    with pytest.raises(UserCodeError, match="must be an int") as caught:
        op.run()
    assert "'x'" in str(caught.value)


# Alignment ----------------------------------------------------------------------------------------------


class Numbers(Source):
    """1, 2, 3 ... without end, one for each poll."""

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return NumbersReader()


class NumbersReader(SourceReader):
    def __init__(self) -> None:
        self.next = 0
        self.stopped = False

    def poll(self, limit: int) -> Polled:
        self.next += 1
        return Polled([] if self.stopped else [self.next], ended=self.stopped)

    def stop(self) -> None:
        self.stopped = True


def aligned_task() -> tuple[StageTask, RecordingServices]:
    strategy = MONOTONOUS.with_watermark_alignment("g", Duration.of_millis(10), Duration.of_seconds(1))
    spec = SourceSpec(Shipped.of(Numbers(), "source"), False, strategy=Shipped.of(strategy, "strategy"))
    operators = (OperatorPlan("s", "Source", spec), OperatorPlan("c", "Collect", CollectSpec("c"), parent=0))
    vertex = VertexPlan(0, "Source", 0, 0, 1, 128, operators)
    plan = JobPlan("job", RuntimeMode.STREAMING, (StagePlan(0, 1, (0,)),), (vertex,), ())
    services = RecordingServices()
    task = StageTask(plan, TaskId(0, 0), services)
    task.open()
    return task, services


def test_a_source_reports_its_first_watermark_at_once_and_then_once_in_an_interval() -> None:
    task, services = aligned_task()
    task.poll()
    assert task.take_messages() == [WatermarkReport("g", "s", 0, 0)]
    for _ in range(5):
        task.poll()
    assert task.take_messages() == []
    services.clock.advance(1)
    task.poll()
    assert task.take_messages() == [WatermarkReport("g", "s", 0, 5)]


def test_a_source_that_has_to_wait_reports_at_once_because_it_may_be_the_slowest_itself() -> None:
    task, _ = aligned_task()
    task.poll()
    task.take_messages()
    task.obey(WatermarkAlignmentUpdate("g", 0))
    while task.ready():
        task.poll()
    assert task.take_messages() == [WatermarkReport("g", "s", 0, 11)]


def test_a_source_beyond_the_limit_waits_until_the_limit_moves() -> None:
    task, services = aligned_task()
    task.obey(WatermarkAlignmentUpdate("g", 0))
    for _ in range(50):
        task.poll()
    assert len(services.blobs) == 12  # the twelfth record brings it to 11, beyond 0 + 10
    services.clock.advance(60)
    while task.ready():
        task.poll()
    assert task.next_poll() == float("inf")
    task.obey(WatermarkAlignmentUpdate("other", 1000))
    assert not task.ready()
    task.obey(WatermarkAlignmentUpdate("g", 20))
    assert task.ready()


def test_a_source_that_waits_can_be_stopped_and_then_holds_nobody_back() -> None:
    task, _ = aligned_task()
    task.obey(WatermarkAlignmentUpdate("g", -100))
    task.poll()
    task.take_messages()
    assert not task.ready()
    task.stop_sources()
    task.poll()
    assert task.finished
    assert task.take_messages() == [WatermarkReport("g", "s", 0, MAX_WATERMARK)]


def test_a_watermark_of_the_source_beyond_64_bits_is_the_last_there_is() -> None:
    source = SourceHarness([EmitWatermark(2**70)], WatermarkStrategy.no_watermarks()).run()
    assert source.output.watermarks == [MAX_WATERMARK]
