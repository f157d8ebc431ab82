"""assign_timestamps_and_watermarks, driven by hand: one test for each rule."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.time import MAX_TIMESTAMP, MAX_WATERMARK, MIN_TIMESTAMP, Duration
from firesteel.common.watermark_strategy import (
    IngestionTime,
    TimestampAssigner,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from firesteel.plan.operator_specs import RuntimeMode, TimestampsSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime import elements
from firesteel.runtime.elements import Chunk, StreamStatus
from firesteel.testing._operator_harness import OperatorHarness


def assigner(strategy: WatermarkStrategy, interval: str = "200 ms", **settings: Any) -> OperatorHarness:
    spec = TimestampsSpec(Shipped.of(strategy, "test"))
    return OperatorHarness(spec, options={"pipeline.auto-watermark-interval": interval}, **settings)


def bounded(millis: int = 0) -> WatermarkStrategy:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(millis))
    return strategy.with_timestamp_assigner(lambda value, _: value)


class Punctuated(WatermarkGenerator):
    """Emits the timestamp of every record that can be divided by ten; a negative one means idle."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event < 0:
            output.mark_idle()
        elif event % 10 == 0:
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def punctuated() -> WatermarkStrategy:
    return WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda value, _: value)


# Timestamps ---------------------------------------------------------------------------------------------


def test_b16_the_assigner_sees_the_previous_timestamp() -> None:
    op = assigner(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, old: (value, old)[1])
    )
    op.process(["a", "b"], [5, None])
    op.process(["c"])
    assert op.output.timestamps == [5, MIN_TIMESTAMP, MIN_TIMESTAMP]


def test_a_strategy_without_assigner_keeps_the_timestamps() -> None:
    op = assigner(WatermarkStrategy.for_monotonous_timestamps())
    op.process(["a", "b", "c"], [5, None, 3])
    op.process(["d"])
    op.advance(0.2)
    assert op.output.timestamps == [5, None, 3, None]
    assert op.output.watermarks == [4]


def test_timestamps_beyond_64_bits_are_the_last_there_is() -> None:
    op = assigner(WatermarkStrategy.for_monotonous_timestamps())
    op.process(["a", "b", "c"], [5, None, 10**30])
    op.process(["d"], [-(10**30)])
    assert op.output.timestamps == [5, None, MAX_TIMESTAMP, MIN_TIMESTAMP]


def test_timestamps_that_are_no_integers_are_refused_where_they_begin() -> None:
    op = assigner(WatermarkStrategy.no_watermarks())
    with pytest.raises(UserCodeError, match=r"a timestamp must be an int, milliseconds since 1970, got 1\.5"):
        op.process(["a"], [1.5])  # type: ignore[list-item]


def test_assigners_may_be_objects() -> None:
    class Doubled(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return 2 * int(value)

    op = assigner(WatermarkStrategy.no_watermarks().with_timestamp_assigner(Doubled()))
    op.process([1, 2])
    assert op.output.timestamps == [2, 4]


def test_m01_timestamps_are_clamped_to_64_bits() -> None:
    op = assigner(bounded())
    op.process([2**70, -(2**70), 3])
    assert op.output.timestamps == [MAX_TIMESTAMP, MIN_TIMESTAMP, 3]
    op.advance(0.2)
    assert op.output.watermarks == [MAX_TIMESTAMP - 1]


def test_a_timestamp_that_is_no_int_is_refused_with_its_record() -> None:
    op = assigner(WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value["at"]))
    op.process([{"at": True}])
    assert op.output.timestamps == [1]
    with pytest.raises(UserCodeError, match=r"must be an int, milliseconds since 1970, got 1\.5") as caught:
        op.process([{"at": 1}, {"at": 1.5}, {"at": 2}])
    assert "{'at': 1.5}" in str(caught.value)


def test_an_assigner_that_raises_is_named_with_the_record() -> None:
    op = assigner(WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: int(value)))
    for timestamps in (None, [1, 2, 3]):
        with pytest.raises(UserCodeError, match="invalid literal") as caught:
            op.process(["1", "x", "3"], timestamps)
        assert "'x'" in str(caught.value)


# Periodic watermarks ------------------------------------------------------------------------------------


def test_b17_a_watermark_comes_once_in_an_interval_and_only_when_it_advances() -> None:
    op = assigner(bounded(10))
    op.process([100, 90])
    assert op.output.watermarks == []
    op.advance(0.2)
    assert op.output.watermarks == [89]
    op.advance(1.0)
    op.process([95])  # late, but nothing new
    op.advance(1.0)
    assert op.output.watermarks == [89]
    op.process([101])
    op.process([105])
    op.advance(0.2)
    assert op.output.watermarks == [89, 94]


def test_b17_ticks_stay_where_they_are() -> None:
    op = assigner(bounded(), interval="1 s")
    op.advance(0.9)
    op.process([5])
    op.advance(0.1)
    assert op.output.watermarks == [4]
    op.process([6])  # at the very moment of a tick: waits for the next one
    assert op.operator.next_deadline() == op.services.now() + 1


def test_b17_interval_zero_means_no_periodic_watermarks() -> None:
    op = assigner(bounded(), interval="0 ms")
    op.process([5])
    op.advance(10)
    assert op.output.watermarks == []
    op.watermark(MAX_WATERMARK)
    assert op.output.watermarks == [MAX_WATERMARK]


def test_m04_the_watermark_stays_one_below_so_that_equal_timestamps_are_not_late() -> None:
    op = assigner(bounded(0))
    op.process([7, 7])
    op.advance(0.2)
    assert op.output.watermarks == [6]


def test_m04_nothing_is_emitted_before_the_first_record() -> None:
    op = assigner(bounded(1000))
    op.advance(10)
    assert op.operator.next_deadline() == float("inf")
    op.process([MIN_TIMESTAMP])
    op.advance(1)
    assert op.output.watermarks == []


def test_a_batch_costs_a_built_in_generator_no_call_per_record() -> None:
    op = assigner(bounded(0))
    op.process([3, 9, 4])
    op.advance(0.2)
    assert op.output.batches == [[3, 9, 4]]
    assert op.output.elements[-1] == elements.WatermarkSignal(8)


class Clocked(WatermarkGenerator):
    """Counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        self.asked += 1
        output.emit_watermark(Watermark(self.asked))


def test_b20_a_generator_of_the_user_is_asked_at_every_tick_even_without_records() -> None:
    op = assigner(WatermarkStrategy.for_generator(Clocked))
    op.advance(1.0)
    assert op.output.watermarks == [1, 2, 3, 4, 5]


def test_a_generator_that_falls_back_is_ignored() -> None:
    class Jumping(Clocked):
        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            output.emit_watermark(Watermark(event))

    op = assigner(WatermarkStrategy.for_generator(Jumping), interval="0 ms")
    op.process([5, 3, 5, 8, 2**80])
    assert op.output.watermarks == [5, 8, MAX_TIMESTAMP]


# Punctuated watermarks ----------------------------------------------------------------------------------


def test_b20_punctuated_watermarks_take_their_place_right_behind_their_record() -> None:
    op = assigner(punctuated())
    op.process([1, 10, 2, 3, 20, 30])
    assert op.output.elements == [
        Chunk([1, 10], [1, 10]),
        elements.WatermarkSignal(10),
        Chunk([2, 3, 20], [2, 3, 20]),
        elements.WatermarkSignal(20),
        Chunk([30], [30]),
        elements.WatermarkSignal(30),
    ]


def test_a_generator_that_raises_is_named_with_the_record() -> None:
    class Picky(Punctuated):
        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            raise ValueError("no " + event)

    op = assigner(WatermarkStrategy.for_generator(Picky))
    with pytest.raises(UserCodeError, match="no thanks") as caught:
        op.process(["thanks", "bye"])
    assert "'thanks'" in str(caught.value)


def test_a_generator_may_say_itself_that_the_stream_is_idle() -> None:
    op = assigner(punctuated())
    op.process([10, -1, 5])
    op.process([20])
    assert op.output.elements == [
        Chunk([10], [10]),
        elements.WatermarkSignal(10),
        Chunk([-1], [-1]),
        StreamStatus(False),
        StreamStatus(True),
        Chunk([5], [5]),
        Chunk([20], [20]),
        elements.WatermarkSignal(20),
    ]


# What comes from upstream -------------------------------------------------------------------------------


def test_l05_an_assigner_swallows_timestamps_watermarks_and_idleness_from_before() -> None:
    op = assigner(bounded())
    op.watermark(1000)
    op.status(False)
    op.process([5], [999])
    op.status(True)
    op.advance(0.2)
    assert op.output.elements == [Chunk([5], [5]), elements.WatermarkSignal(4)]


def test_the_end_of_input_passes_and_nothing_follows_it() -> None:
    op = assigner(bounded().with_idleness(Duration.of_seconds(1)))
    op.process([5])
    op.watermark(MAX_WATERMARK)
    op.advance(10)
    op.finish()
    assert op.output.elements == [Chunk([5], [5]), elements.WatermarkSignal(MAX_WATERMARK)]


def test_an_idle_stream_becomes_active_for_its_end() -> None:
    op = assigner(bounded().with_idleness(Duration.of_seconds(1)))
    op.advance(1)
    op.watermark(MAX_WATERMARK)
    assert op.output.elements == [
        StreamStatus(False),
        StreamStatus(True),
        elements.WatermarkSignal(MAX_WATERMARK),
    ]


# Idleness -----------------------------------------------------------------------------------------------


def test_b12_a_stream_without_records_is_idle_after_its_timeout_and_active_with_the_next_record() -> None:
    op = assigner(bounded().with_idleness(Duration.of_seconds(1)))
    op.process([5])
    op.advance(0.9)
    op.process([6])
    op.advance(0.9)
    assert op.output.statuses == []
    op.advance(0.1)
    assert op.output.statuses == [False]
    op.advance(60)
    op.process([7])
    assert op.output.elements[-2:] == [StreamStatus(True), Chunk([7], [7])]


def test_l03_a_returning_stream_does_not_turn_its_clock_back() -> None:
    op = assigner(bounded().with_idleness(Duration.of_seconds(1)))
    op.process([1000])
    op.advance(2)
    op.process([10])
    op.advance(1)
    assert (op.output.watermarks, op.output.statuses) == ([999], [False, True, False])
    op.process([2000])
    op.advance(0.2)
    assert op.output.watermarks == [999, 1999]


def test_a_stream_that_never_had_a_record_becomes_idle_too() -> None:
    op = assigner(bounded().with_idleness(Duration.of_seconds(1)))
    op.advance(1)
    assert op.output.elements == [StreamStatus(False)]


def test_what_was_seen_is_claimed_before_the_stream_goes_idle() -> None:
    op = assigner(bounded().with_idleness(Duration.of_millis(50)), interval="10 s")
    op.process([5])
    op.advance(1)
    assert op.output.elements == [Chunk([5], [5]), elements.WatermarkSignal(4), StreamStatus(False)]


def test_a_task_that_was_held_up_does_not_call_its_input_idle() -> None:
    op = assigner(bounded().with_idleness(Duration.of_seconds(1)))
    op.process([5])
    op.services.clock.advance(30)  # nothing ran for so long: what waits in the mailbox is not known
    op.link.on_time(op.services.now())
    assert op.output.statuses == []
    op.advance(1)
    assert op.output.statuses == [False]


def test_a_silent_generator_is_not_asked() -> None:
    op = assigner(WatermarkStrategy.for_generator(Clocked).with_idleness(Duration.of_seconds(1)))
    op.advance(60)
    assert op.output.watermarks == [1, 2, 3, 4, 5]
    assert op.output.statuses == [False]


# Modes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [bounded(), punctuated(), WatermarkStrategy(IngestionTime())])
def test_in_batch_only_the_final_watermark_passes(strategy: WatermarkStrategy) -> None:
    op = assigner(strategy.with_idleness(Duration.of_seconds(1)), mode=RuntimeMode.BATCH)
    op.process([10, 20])
    op.advance(10)
    op.watermark(MAX_WATERMARK)
    assert op.output.watermarks == [MAX_WATERMARK]
    assert op.output.statuses == []
    assert None not in op.output.timestamps


def test_b04_ingestion_time_is_the_machines_time_and_moves_without_records() -> None:
    op = assigner(WatermarkStrategy(IngestionTime()))
    start = round(op.services.now() * 1000)
    op.advance(0.05)
    op.process(["a", "b"], [1, 2])
    op.advance(0.45)
    assert op.output.timestamps == [start + 50, start + 50]
    assert op.output.watermarks == [start + 199, start + 399]
