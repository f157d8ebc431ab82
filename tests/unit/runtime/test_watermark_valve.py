"""The valve's rules one by one, and against a naive model."""

from __future__ import annotations

from firesteel.common.time import MIN_TIMESTAMP
from firesteel.runtime.inputs.watermark_valve import WatermarkValve


def test_one_channel_passes_rising_watermarks_only() -> None:
    valve = WatermarkValve(1)
    assert [valve.watermark(0, t) for t in (5, 5, 4, 6)] == [5, None, None, 6]


def test_the_clock_is_the_minimum() -> None:
    valve = WatermarkValve(3)
    assert valve.watermark(0, 10) is None
    assert valve.watermark(1, 20) is None
    assert valve.watermark(2, 5) == 5
    assert valve.watermark(2, 15) == 10


def test_an_idle_channel_holds_nobody_back() -> None:
    valve = WatermarkValve(2)
    valve.watermark(0, 10)
    assert valve.status(1, False) == (10, None)
    assert valve.watermark(0, 12) == 12


def test_watermarks_of_an_idle_channel_are_ignored() -> None:
    valve = WatermarkValve(2)
    valve.status(1, False)
    assert valve.watermark(1, 99) is None
    assert valve.watermark(0, 5) == 5


def test_a_channel_that_returns_late_stays_out_until_it_has_caught_up() -> None:
    valve = WatermarkValve(2)
    valve.status(1, False)
    valve.watermark(0, 10)
    assert valve.status(1, True) == (None, None)
    assert valve.watermark(1, 5) is None  # behind the clock: does not count yet
    assert valve.watermark(0, 11) == 11
    assert valve.watermark(1, 11) is None  # caught up: counts from now on
    assert valve.watermark(0, 20) is None
    assert valve.watermark(1, 15) == 15


def test_all_idle_makes_the_whole_idle_and_back() -> None:
    valve = WatermarkValve(2)
    assert valve.status(0, False) == (None, None)
    assert valve.status(1, False) == (None, False)
    assert valve.status(1, False) == (None, None)
    assert valve.status(0, True) == (None, True)


def test_the_last_one_to_become_idle_lets_the_clock_jump_to_the_furthest() -> None:
    valve = WatermarkValve(2)
    valve.watermark(0, 10)
    valve.watermark(1, 5)
    valve.status(0, False)
    assert valve.status(1, False) == (10, False)


def test_nothing_known_says_nothing() -> None:
    valve = WatermarkValve(2)
    assert valve.status(0, False) == (None, None)
    assert valve.watermark(1, MIN_TIMESTAMP) is None
