"""Metrics count what they are told, under the names of their groups."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from firesteel.common.errors import ProgramError
from firesteel.metrics import MetricGroup
from firesteel.metrics.metricbase import Counter, Distribution, DistributionSummary, Meter


def test_counter_goes_up_and_down() -> None:
    counter = Counter()
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    counter.dec()
    assert (counter.get_count(), counter.snapshot()) == (3, 3)


def test_meter_forgets_events_older_than_its_span() -> None:
    now = [100.0]
    meter = Meter(10, lambda: now[0])
    meter.mark_event(30)
    now[0] += 5
    meter.mark_event()
    assert (meter.get_count(), meter.get_rate()) == (31, 3.1)
    now[0] += 6
    assert (meter.get_count(), meter.get_rate()) == (31, 0.1)


def test_distribution_summarises() -> None:
    distribution = Distribution()
    assert distribution.snapshot() is None
    for value in (3, -1, 7):
        distribution.update(value)
    assert distribution.snapshot() == DistributionSummary(3, 9, -1, 7)


def test_groups_name_their_metrics() -> None:
    group = MetricGroup("Map")
    group.counter("in").inc()
    group.gauge("size", lambda: 42)
    group.add_group("cache", "lru").counter("hits").inc(2)
    group.add_group("cache", "lru").counter("misses")
    assert dict(group.snapshot()) == {
        "Map.in": 1,
        "Map.size": 42,
        "Map.cache.lru.hits": 2,
        "Map.cache.lru.misses": 0,
    }


def test_a_name_twice_in_one_group_is_refused() -> None:
    group = MetricGroup("Map")
    group.counter("in")
    with pytest.raises(ProgramError, match="'in' is registered twice in group 'Map'"):
        group.meter("in")


def test_a_gauge_that_raises_is_left_out_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    group = MetricGroup("Map")
    answers: list[Any] = [ValueError("not yet"), SystemExit(1), 7]

    def size() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    group.gauge("size", size)
    group.add_group("cache").gauge("hits", lambda: 1 // 0)
    group.counter("in")
    assert dict(group.snapshot()) == {"Map.in": 0}
    assert dict(group.snapshot()) == {"Map.in": 0}
    assert dict(group.snapshot()) == {"Map.in": 0, "Map.size": 7}
    assert [record.message.partition(" cannot")[0] for record in caplog.records] == [
        "the metric 'Map.size'",
        "the metric 'Map.cache.hits'",
    ]
    assert caplog.records[0].message.endswith("its gauge raised ValueError: not yet")
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_a_gauge_reports_numbers_and_text_and_the_text_of_anything_else() -> None:
    group = MetricGroup("Map")
    for name, value in {
        "number": 1.5,
        "text": "a",
        "none": None,
        "list": [1],
        "lock": threading.Lock(),
    }.items():
        group.gauge(name, lambda value=value: value)
    values = dict(group.snapshot())
    assert [values[f"Map.{name}"] for name in ("number", "text", "none", "list")] == [1.5, "a", None, "[1]"]
    assert "lock" in values["Map.lock"]
