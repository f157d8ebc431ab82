import pickle
from datetime import timedelta

import pytest

from firesteel.common import Duration, Instant, Time
from firesteel.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from firesteel.common.time import MAX_TIMESTAMP, MAX_WATERMARK, MIN_TIMESTAMP


def test_durations_of_equal_length_are_equal():
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440)
    assert Duration.of_seconds(1) == Duration.of_millis(1000) == Duration.of_nanos(10**9)
    assert hash(Duration.of_seconds(1)) == hash(Duration.of_millis(1000))
    assert Duration.of_seconds(1) < Duration.of_seconds(2)


def test_duration_refuses_fractions():
    with pytest.raises(TypeError, match="smaller unit"):
        Duration.of_seconds(1.5)


def test_duration_converts_to_and_from_timedelta():
    delta = timedelta(days=1, seconds=2, microseconds=3)
    assert Duration.of_timedelta(delta).to_timedelta() == delta


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (Duration.of_days(2), "2 d"),
        (Duration.of_seconds(90), "90 s"),
        (Duration(), "0 ms"),
        (Duration(1), "1 ns"),
    ],
)
def test_duration_prints_in_its_largest_whole_unit(duration, text):
    assert str(duration) == text


@pytest.mark.parametrize("millis", [0, 1, -1, -1500, 1_700_000_000_123])
def test_instant_keeps_milliseconds(millis):
    instant = Instant.of_epoch_milli(millis)
    assert instant.to_epoch_milli() == millis
    assert pickle.loads(pickle.dumps(instant)) == instant
    assert 0 <= instant.nanos < 10**9


def test_time_counts_milliseconds():
    assert (
        Time.days(1)
        == Time.hours(24)
        == Time.minutes(1440)
        == Time.seconds(86_400)
        == Time.milliseconds(86_400_000)
    )
    assert str(Time.seconds(2)) == "2000 ms"


def test_limits_are_those_of_a_java_long():
    assert (MIN_TIMESTAMP, MAX_TIMESTAMP, MAX_WATERMARK) == (-(2**63), 2**63 - 1, 2**63 - 1)
    assert (MIN_LONG_VALUE, MAX_LONG_VALUE) == (MIN_TIMESTAMP, MAX_TIMESTAMP)
