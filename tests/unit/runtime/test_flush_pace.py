"""Partly filled chunks leave at a pace that their rows pay for."""

from __future__ import annotations

import pytest

from firesteel.runtime.flush_pace import FlushPace


def test_the_first_flush_happens_at_once():
    assert FlushPace().pause(now=1000.0) <= 0


def test_the_pause_after_a_flush_grows_with_its_rows():
    one, many = FlushPace(), FlushPace()
    one.flushed(rows=1, records=1, now=1000.0)
    many.flushed(rows=4, records=1, now=1000.0)
    assert 0 < one.pause(1000.0) < many.pause(1000.0)


def test_a_record_that_comes_after_the_pause_does_not_wait():
    pace = FlushPace()
    pace.flushed(rows=2, records=1, now=1000.0)
    assert pace.pause(1000.0 + 0.01) <= 0


@pytest.mark.parametrize("rows", [100, 10_000])
def test_many_receivers_do_not_make_a_record_wait_for_long(rows):
    pace = FlushPace()
    pace.flushed(rows, records=1, now=1000.0)
    assert pace.pause(1000.0) == pytest.approx(0.01)


def test_many_records_leave_in_rows_that_are_worth_their_cost():
    few, many = FlushPace(), FlushPace()
    few.flushed(rows=2, records=2, now=1000.0)
    many.flushed(rows=2, records=500, now=1000.0)
    assert few.pause(1000.0) == pytest.approx(0.002, rel=0.1)
    assert many.pause(1000.0) == pytest.approx(0.01)
