"""A metric as plain numbers, for systems that know nothing else."""

from __future__ import annotations

import math
from typing import Any

from firesteel.common._metric_values import DistributionSummary, HistogramSummary, MeterSummary

__all__ = ["number", "parts"]


def number(value: Any) -> float | None:
    """A gauge or counter as a number; None when it is a text, or no number that could be told."""
    if isinstance(value, bool):
        return float(value)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def parts(value: Any) -> dict[str, float]:
    """The numbers that a value has, by what is appended to its name; nothing is appended to that of a single one.

    >>> parts(3), parts(MeterSummary(3, 0.5)), parts("text")
    ({'': 3}, {'count': 3, 'rate': 0.5}, {})
    """
    match value:
        case MeterSummary(count, rate):
            return {"count": count, "rate": rate}
        case DistributionSummary():
            return {
                "count": value.count,
                "sum": value.total,
                "min": value.minimum,
                "max": value.maximum,
                "mean": value.mean,
            }
        case HistogramSummary():
            names = ("count", "min", "max", "mean", "stddev", "p50", "p75", "p95", "p98", "p99", "p999")
            return {name: getattr(value, name) for name in names}
        case _:
            figure = number(value)
            return {} if figure is None else {"": figure}
