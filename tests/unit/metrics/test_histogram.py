"""A histogram has Flink's figures: those of the newest values, with quantiles that are interpolated."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.errors import ProgramError
from firesteel.metrics import Histogram, HistogramSummary, JobMetrics, MetricKind, MetricValue

VALUES = st.lists(st.integers(-1_000_000, 1_000_000), min_size=1, max_size=60)
QUANTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p98": 0.98, "p99": 0.99, "p999": 0.999}


def naive_quantile(values: list[int], fraction: float) -> float:
    """The value at rank ``fraction * (n + 1)``, counted from 1; between two ranks on the line that joins them."""
    ordered = sorted(values)
    ranks = {rank: float(value) for rank, value in enumerate(ordered, 1)}
    wanted = min(max(fraction * (len(values) + 1), 1.0), float(len(values)))
    below = int(wanted)
    above = min(below + 1, len(values))
    return ranks[below] * (1 - (wanted - below)) + ranks[above] * (wanted - below)


@given(VALUES, st.integers(1, 20))
def test_a_histogram_is_that_of_its_newest_values(values: list[int], window: int) -> None:
    histogram = Histogram(window)
    for value in values:
        histogram.update(value)
    newest = values[-window:]
    found = histogram.get_statistics()
    assert found is not None
    assert (found.count, histogram.get_count()) == (len(values), len(values))
    assert (found.min, found.max) == (min(newest), max(newest))
    assert found.mean == pytest.approx(statistics.mean(newest))
    deviation = statistics.stdev(newest) if len(newest) > 1 else 0.0
    assert found.stddev == pytest.approx(deviation)
    for name, fraction in QUANTILES.items():
        assert getattr(found, name) == pytest.approx(naive_quantile(newest, fraction), abs=1e-6)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_quantiles_of_all_subtasks_are_not_greater_than_the_total_says(parts: list[list[int]]) -> None:
    summaries = [HistogramSummary.of(len(part), part) for part in parts]
    metrics = JobMetrics(
        tuple(
            MetricValue("Map", "0a", subtask, (), "size", MetricKind.HISTOGRAM, summary)
            for subtask, summary in enumerate(summaries)
        )
    )
    total = metrics.total("size")
    together = [value for part in parts for value in part]
    assert (total.count, total.min, total.max) == (len(together), min(together), max(together))
    assert total.mean == pytest.approx(statistics.mean(together), abs=1e-6)
    assert total.p50 >= min(summary.p50 for summary in summaries)


def test_a_histogram_without_values_has_no_figures() -> None:
    assert Histogram().snapshot() is None


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(ProgramError, match="at least 1, got 0"):
        Histogram(0)
