import pickle
from datetime import timedelta

import pytest

from firesteel.common import (
    Duration,
    Time,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.common.watermark_strategy import BoundedOutOfOrderness, Watermark, WatermarkAlignment


class Recorder(WatermarkOutput):
    def __init__(self):
        self.seen = []

    def emit_watermark(self, watermark):
        self.seen.append(watermark.timestamp)

    def mark_idle(self):
        self.seen.append("idle")

    def mark_active(self):
        self.seen.append("active")


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Punctuated(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        if event == "mark":
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output):
        pass


def watermarks(strategy, timestamps):
    generator, output = strategy.create_generator(), Recorder()
    for timestamp in timestamps:
        generator.on_event(None, timestamp, output)
        generator.on_periodic_emit(output)
    return output.seen


def test_bounded_watermark_stays_the_bound_and_one_behind_the_latest():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    assert watermarks(strategy, [10_000, 9_000, 12_000]) == [7_999, 7_999, 9_999]


def test_monotonous_watermark_stays_one_behind():
    assert watermarks(WatermarkStrategy.for_monotonous_timestamps(), [5, 7]) == [4, 6]


def test_first_watermark_does_not_fall_below_the_minimum():
    generator, output = (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1)).create_generator(),
        Recorder(),
    )
    generator.on_periodic_emit(output)
    assert output.seen == [MIN_TIMESTAMP]
    assert BoundedOutOfOrderness(5).watermark(MIN_TIMESTAMP) == MIN_TIMESTAMP


def test_no_watermarks_emits_none():
    assert watermarks(WatermarkStrategy.no_watermarks(), [1, 2]) == []


def test_users_generator_is_built_anew_each_time():
    strategy = WatermarkStrategy.for_generator(Punctuated)
    generator, output = strategy.create_generator(), Recorder()
    generator.on_event("mark", 5, output)
    assert output.seen == [5]
    assert strategy.create_generator() is not generator


def test_generator_instance_is_refused():
    with pytest.raises(TypeError, match="class or function"):
        WatermarkStrategy.for_generator(Punctuated())


def test_settings_are_kept_whatever_the_order():
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(Second())
        .with_idleness(Duration.of_minutes(1))
        .with_watermark_alignment("g", Duration.of_seconds(20))
    )
    assert strategy.timestamp_function()(("a", 42), 0) == 42
    assert strategy.idle_timeout == 60_000
    assert strategy.alignment == WatermarkAlignment("g", 20_000, 1000)


def test_assigner_may_be_a_function():
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, ts: value + ts)
    assert strategy.timestamp_function()(1, 2) == 3
    assert WatermarkStrategy.no_watermarks().timestamp_function() is None
    with pytest.raises(TypeError, match="TimestampAssigner or a function"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(5)


def test_assigner_is_also_set_in_place_when_the_result_is_dropped():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    strategy.with_timestamp_assigner(Second())
    assert strategy.timestamp_function() is not None


def test_second_assigner_leaves_the_first_strategy_alone():
    base = WatermarkStrategy.for_monotonous_timestamps()
    first = base.with_timestamp_assigner(lambda v, _: 1)
    second = base.with_timestamp_assigner(lambda v, _: 2)
    assert (first.timestamp_function()(0, 0), second.timestamp_function()(0, 0)) == (1, 2)


def test_strategy_survives_pickling():
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(Second())
    twin = pickle.loads(pickle.dumps(strategy))
    assert twin.timestamp_function()(("a", 3), 0) == 3
    assert isinstance(twin.create_generator(), Punctuated)


def test_negative_bound_and_zero_idleness_are_refused():
    with pytest.raises(ValueError, match="negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))
    with pytest.raises(ValueError, match="positive"):
        WatermarkStrategy.no_watermarks().with_idleness(Duration())


@pytest.mark.parametrize(
    "second", [Duration.of_seconds(1), Time.seconds(1), timedelta(seconds=1), 1000], ids=repr
)
def test_lengths_may_be_given_in_any_form(second):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(second).with_idleness(second)
    strategy = strategy.with_watermark_alignment("group", second, second)
    assert strategy.generator == BoundedOutOfOrderness(1000)
    assert strategy.idle_timeout == 1000
    assert strategy.alignment == WatermarkAlignment("group", 1000, 1000)


def test_something_that_is_no_length_is_refused_with_an_example():
    for use in (
        WatermarkStrategy.for_bounded_out_of_orderness,
        WatermarkStrategy.no_watermarks().with_idleness,
    ):
        with pytest.raises(
            TypeError, match=r"a length of time such as .*Duration.of_seconds\(5\), got '5 s'"
        ):
            use("5 s")


def test_alignment_needs_a_group_a_drift_that_is_not_negative_and_an_interval():
    strategy = WatermarkStrategy.no_watermarks()
    with pytest.raises(ValueError, match="group"):
        strategy.with_watermark_alignment("", Duration.of_seconds(1))
    with pytest.raises(ValueError, match="drift must not be negative, got -1 s"):
        strategy.with_watermark_alignment("group", Duration.of_seconds(-1))
    with pytest.raises(ValueError, match="interval must be positive, got 0 ms"):
        strategy.with_watermark_alignment("group", Duration.of_seconds(1), Duration())
