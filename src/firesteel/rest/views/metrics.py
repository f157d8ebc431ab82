"""Metrics at any level: names, chosen values, and figures over several subtasks, jobs or hosts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["AGGREGATIONS", "aggregated_metrics", "metrics"]


def _skew(values: Sequence[float]) -> float:
    """How unevenly values are distributed, in per cent: 0 when all are alike; Flink's measure."""
    mean = sum(values) / len(values)
    if mean == 0 or len(values) == 1:
        return 0.0
    deviation = sum(abs(value - mean) for value in values) / len(values)
    return 100.0 * min(1.0, deviation / abs(mean))


AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "skew": _skew,
}


def metrics(known: Mapping[str, Any], wanted: Sequence[str] | None) -> list[dict[str, str]]:
    """The names that there are; or those that are wanted, with their values."""
    if wanted is None:
        return [{"id": name} for name in sorted(known)]
    return [{"id": name, "value": str(known[name])} for name in dict.fromkeys(wanted) if name in known]


def aggregated_metrics(
    sources: Sequence[Mapping[str, Any]], wanted: Sequence[str] | None, aggregations: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The same over several sources: for each wanted metric its least, greatest, mean and so on; all, unless some are named."""
    names = sorted({name for source in sources for name in source})
    if wanted is None:
        return [{"id": name} for name in names]
    chosen = aggregations or tuple(AGGREGATIONS)
    figures = []
    for name in dict.fromkeys(wanted):
        values = [number for source in sources if (number := _number(source.get(name))) is not None]
        if values:
            figures.append({"id": name, **{each: float(AGGREGATIONS[each](values)) for each in chosen}})
    return figures


def _number(value: Any) -> float | None:
    """A value that can be added up, also when somebody has written it as text."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
