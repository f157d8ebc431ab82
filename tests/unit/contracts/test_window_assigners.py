"""The assigners: which windows a record gets, and which settings make no sense."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest

from firesteel.common.errors import ProgramError
from firesteel.common.time import MAX_TIMESTAMP, Duration, Time
from firesteel.datastream.window import (
    ContinuousEventTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    CountWindowSerializer,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    GlobalWindowSerializer,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)


class At:
    """An assigner context: processing time, and one counter as state."""

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self.count: int | None = None

    def get_current_processing_time(self) -> int:
        return self.now

    def get_runtime_context(self) -> Any:
        return self

    def get_state(self, descriptor: Any) -> Any:
        return self

    def value(self) -> int | None:
        return self.count

    def update(self, count: int) -> None:
        self.count = count


def bounds(assigner: Any, timestamp: int, now: int = 0) -> list[tuple[int, int]]:
    return [(w.start, w.end) for w in assigner.assign_windows("x", timestamp, At(now))]


@pytest.mark.parametrize("size", [Time.seconds(5), Duration.of_seconds(5), timedelta(seconds=5), 5000])
def test_sizes_are_given_in_many_ways(size: Any) -> None:
    assert bounds(TumblingEventTimeWindows.of(size), 7000) == [(5000, 10_000)]


def test_tumbling_windows_take_an_offset() -> None:
    hourly = TumblingEventTimeWindows.of(Time.hours(1), Time.minutes(15))
    assert bounds(hourly, 0) == [(-45 * 60_000, 15 * 60_000)]
    assert bounds(TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8)), 0) == [
        (-8 * 3_600_000, 16 * 3_600_000)
    ]
    assert bounds(TumblingProcessingTimeWindows.of(10), 99, now=7) == [(0, 10)]


def test_sliding_windows_overlap_or_leave_gaps() -> None:
    assert bounds(SlidingEventTimeWindows.of(60, 15), 61) == [(60, 120), (45, 105), (30, 90), (15, 75)]
    assert len(bounds(SlidingEventTimeWindows.of(Time.days(1), Time.minutes(15)), 12345)) == 96
    assert bounds(SlidingEventTimeWindows.of(5, 10), 4) == [(0, 5)]
    assert bounds(SlidingEventTimeWindows.of(5, 10), 5) == []
    assert bounds(SlidingProcessingTimeWindows.of(4, 2), 99, now=-1) == [(-2, 2), (-4, 0)]


def test_sessions_start_as_a_window_of_their_own() -> None:
    assert bounds(EventTimeSessionWindows.with_gap(Time.milliseconds(5)), 3) == [(3, 8)]
    assert bounds(ProcessingTimeSessionWindows.with_gap(5), 99, now=3) == [(3, 8)]
    assert bounds(EventTimeSessionWindows.with_dynamic_gap(lambda element: 7), 3) == [(3, 10)]

    class Extractor(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return -len(element)

    assert isinstance(
        ProcessingTimeSessionWindows.with_dynamic_gap(Extractor()), DynamicProcessingTimeSessionWindows
    )
    with pytest.raises(ProgramError, match="gap of a session window must be above 0 ms, got -1"):
        bounds(DynamicEventTimeSessionWindows.with_dynamic_gap(Extractor()), 3)


def test_count_windows_are_filled_in_order_of_arrival() -> None:
    context: Any = At()
    tumbling = CountTumblingWindowAssigner.of(2)
    assert [tumbling.assign_windows("x", 0, context) for _ in range(3)] == [
        [CountWindow(0)],
        [CountWindow(0)],
        [CountWindow(1)],
    ]
    context = At()
    sliding = CountSlidingWindowAssigner.of(3, 2)
    ids = [[window.id for window in sliding.assign_windows("x", 0, context)] for _ in range(5)]
    assert ids == [[0], [0], [1, 0], [1], [2, 1]]


def test_there_is_one_global_window() -> None:
    assert GlobalWindows.create().assign_windows("x", 0, At()) == [GlobalWindow.get()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("assigner", "trigger", "is_event_time"),
    [
        (TumblingEventTimeWindows.of(5), EventTimeTrigger, True),
        (SlidingEventTimeWindows.of(5, 2), EventTimeTrigger, True),
        (EventTimeSessionWindows.with_gap(5), EventTimeTrigger, True),
        (TumblingProcessingTimeWindows.of(5), ProcessingTimeTrigger, False),
        (SlidingProcessingTimeWindows.of(5, 2), ProcessingTimeTrigger, False),
        (ProcessingTimeSessionWindows.with_gap(5), ProcessingTimeTrigger, False),
        (CountTumblingWindowAssigner.of(5), CountTrigger, False),
        (CountSlidingWindowAssigner.of(5, 2), CountTrigger, False),
        (GlobalWindows.create(), NeverTrigger, False),
        (GlobalWindows.create_with_end_of_stream_trigger(), EndOfStreamTrigger, False),
    ],
    ids=repr,
)
def test_assigners_bring_a_trigger_and_a_clock(assigner: Any, trigger: type, is_event_time: bool) -> None:
    assert type(assigner.get_default_trigger(None)) is trigger
    assert assigner.is_event_time() is is_event_time


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: TumblingEventTimeWindows.of(0),
            r"TumblingEventTimeWindows\(0, 0\): size and slide must be above 0",
        ),
        (lambda: TumblingProcessingTimeWindows.of(-5), "must be above 0 ms"),
        (lambda: TumblingEventTimeWindows.of(5, 5), "the offset must be smaller than the size"),
        (lambda: TumblingEventTimeWindows.of(5, -5), "the offset must be smaller than the size"),
        (lambda: SlidingEventTimeWindows.of(5, 0), "must be above 0 ms"),
        (lambda: SlidingEventTimeWindows.of(-1, 2), "must be above 0 ms"),
        (lambda: SlidingProcessingTimeWindows.of(5, 2, 2), "the offset must be smaller than the slide"),
        (lambda: EventTimeSessionWindows.with_gap(0), "needs a gap above 0 ms, got 0"),
        (lambda: EventTimeSessionWindows.with_dynamic_gap(5), "needs a SessionWindowTimeGapExtractor"),  # type: ignore[arg-type]
        (lambda: CountTumblingWindowAssigner.of(0), "at least 1 record, got 0"),
        (lambda: CountSlidingWindowAssigner.of(2, -1), "at least 1 record, got -1"),
        (lambda: ContinuousEventTimeTrigger.of(0), "interval above 0 ms"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ProgramError, match=sentence):
        make()


def test_a_size_must_be_a_length_of_time() -> None:
    with pytest.raises(TypeError, match=r"expected a length of time such as Time.seconds\(5\)"):
        TumblingEventTimeWindows.of("5 s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("serializer", "window"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, 2**40)),
        (CountWindowSerializer(), CountWindow(7)),
        (GlobalWindowSerializer(), GlobalWindow.get()),
    ],
)
def test_serializers_read_what_they_write(serializer: Any, window: Any) -> None:
    stream = BytesIO()
    serializer.serialize(window, stream)
    serializer.serialize(window, stream)
    stream.seek(0)
    assert [serializer.deserialize(stream), serializer.deserialize(stream)] == [window, window]
    assert stream.read() == b""


def test_assigners_and_triggers_show_their_settings() -> None:
    shown = [
        TumblingEventTimeWindows(5, 1),
        SlidingEventTimeWindows(5, 2, 1),
        EventTimeSessionWindows(3),
        CountSlidingWindowAssigner(2, 1),
        PurgingTrigger.of(CountTrigger.of(2)),
    ]
    assert [repr(each) for each in shown] == [
        "TumblingEventTimeWindows(5, 1)",
        "SlidingEventTimeWindows(5, 2, 1)",
        "EventTimeSessionWindows(3)",
        "CountSlidingWindowAssigner(2, 1)",
        "PurgingTrigger(CountTrigger(2))",
    ]
    assert GlobalWindow.get().max_timestamp() == MAX_TIMESTAMP
