"""Metrics count what they are told, under the names of their groups."""

from __future__ import annotations

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
