"""What metrics of user functions have come to: values of single subtasks, and totals over the subtasks of an operator.

Programs import these classes from `firesteel.metrics`. They are here because `JobClient` gives them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DistributionSummary",
    "GaugeSummary",
    "HistogramSummary",
    "JobMetrics",
    "MeterSummary",
    "MetricKind",
    "MetricTotal",
    "MetricValue",
]


class MetricKind(enum.Enum):
    """Which of the five kinds a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    DISTRIBUTION = "distribution"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MeterSummary:
    """All events of a meter, and how many per second there were over its time span."""

    count: int
    rate: float


@dataclass(frozen=True, slots=True)
class DistributionSummary:
    """Count, sum, least and greatest of the values seen."""

    count: int
    total: float
    minimum: float
    maximum: float

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class HistogramSummary:
    """What the newest values of a histogram look like; ``count`` is that of all values.

    As in Flink, everything but the count is of a window of the newest values, ``stddev`` is the deviation of a sample,
    and quantiles between two values are interpolated.
    """

    count: int
    min: float
    max: float
    mean: float
    stddev: float
    p50: float
    p75: float
    p90: float
    p95: float
    p98: float
    p99: float
    p999: float

    @classmethod
    def of(cls, count: int, values: Iterable[float]) -> HistogramSummary:
        """The summary of a window with at least one value.

        >>> summary = HistogramSummary.of(7, [4, 1, 3, 2])
        >>> summary.count, summary.min, summary.max, summary.mean, summary.p50
        (7, 1, 4, 2.5, 2.5)
        """
        ordered = sorted(values)
        size = len(ordered)
        mean = math.fsum(ordered) / size
        squares = math.fsum((value - mean) ** 2 for value in ordered)
        stddev = math.sqrt(squares / (size - 1)) if size > 1 else 0.0
        return cls(count, ordered[0], ordered[-1], mean, stddev, *(_quantile(ordered, q) for q in _QUANTILES))

    @property
    def quantiles(self) -> tuple[tuple[float, float], ...]:
        """The quantiles that reporters show, as in ``(0.5, 12.0)``."""
        return (
            (0.5, self.p50), (0.75, self.p75), (0.95, self.p95), (0.98, self.p98), (0.99, self.p99), (0.999, self.p999),
        )  # fmt: skip


_QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999)


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    position = fraction * (len(ordered) + 1)
    below = math.floor(position)
    if below < 1:
        return ordered[0]
    if below >= len(ordered):
        return ordered[-1]
    return ordered[below - 1] + (position - below) * (ordered[below] - ordered[below - 1])


@dataclass(frozen=True, slots=True)
class GaugeSummary:
    """Least, mean and greatest of what a gauge says in the subtasks: there is no sum that would mean something."""

    minimum: float
    mean: float
    maximum: float


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of one subtask, counted from 0, as last reported.

    ``value`` is a number for a counter, a `MeterSummary`, a `DistributionSummary` or `HistogramSummary` (None before the
    first value), and for a gauge a number, a text or None. ``scope`` are the groups that the metric was registered in;
    ``value_indexes`` says which of them are the values of keys right before them, as in ``add_group("topic", "orders")``.
    """

    operator: str
    operator_id: str
    subtask: int
    scope: tuple[str, ...]
    name: str
    kind: MetricKind
    value: Any
    value_indexes: tuple[int, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with its groups, as in ``cache.hits``."""
        return ".".join((*self.scope, self.name))


@dataclass(frozen=True, slots=True)
class MetricTotal:
    """One metric of an operator over all its ``subtasks`` that have reported it.

    ``value`` of a counter is the sum, of a meter a `MeterSummary` with both sums, of a distribution that of all values, of
    a gauge a `GaugeSummary` of numbers; other gauges give the tuple of their different values. Quantiles of a histogram
    are the greatest of any subtask: those of all values together are not greater.
    """

    operator: str
    operator_id: str
    scope: tuple[str, ...]
    name: str
    kind: MetricKind
    value: Any
    subtasks: int

    @property
    def full_name(self) -> str:
        """The name with its groups, as in ``cache.hits``."""
        return ".".join((*self.scope, self.name))


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """The metrics of all operators of a job, as its tasks last reported them, in the order of the operators.

    >>> def hits(subtask: int, count: int) -> MetricValue:
    ...     return MetricValue("Map", "0a", subtask, ("cache",), "hits", MetricKind.COUNTER, count)
    >>> metrics = JobMetrics((hits(0, 3), hits(1, 4)))
    >>> [value.value for value in metrics.values], metrics.total("cache.hits")
    ([3, 4], 7)

    They begin again when the job is restarted: what an attempt has counted is gone with it. What has to survive belongs
    into state, or into an accumulator whose record is replayed with the input.
    """

    values: tuple[MetricValue, ...] = ()

    def of_operator(self, operator: str) -> JobMetrics:
        """Only those of the operators with that name."""
        return JobMetrics(tuple(value for value in self.values if value.operator == operator))

    def totals(self) -> tuple[MetricTotal, ...]:
        """One for each metric of each operator."""
        alike: dict[tuple[str, tuple[str, ...], str, MetricKind], list[MetricValue]] = {}
        for value in self.values:
            alike.setdefault((value.operator_id, value.scope, value.name, value.kind), []).append(value)
        return tuple(_total(values) for values in alike.values())

    def total(self, name: str, operator: str | None = None) -> Any:
        """The total of the metric with this full name, over all operators that have it or of those named so."""
        matches = [
            value for value in self.values if value.full_name == name and operator in (None, value.operator)
        ]
        if not matches:
            known = ", ".join(sorted({value.full_name for value in self.values})) or "none"
            where = "" if operator is None else f" of operator {operator!r}"
            raise KeyError(f"no metric {name!r}{where} has been reported; there are: {known}")
        kinds = {value.kind: value.operator for value in matches}
        if len(kinds) > 1:
            places = " and ".join(f"a {kind.value} of {place!r}" for kind, place in kinds.items())
            raise ValueError(f"the metric {name!r} is {places}, which cannot be added up: name the operator")
        return _total(matches).value


def _total(values: Sequence[MetricValue]) -> MetricTotal:
    first = values[0]
    combined = _COMBINE[first.kind]([value.value for value in values])
    return MetricTotal(
        first.operator, first.operator_id, first.scope, first.name, first.kind, combined, len(values)
    )


def _sum_of_meters(summaries: Iterable[MeterSummary]) -> MeterSummary:
    parts = list(summaries)
    return MeterSummary(sum(part.count for part in parts), sum(part.rate for part in parts))


def _merged(summaries: Iterable[DistributionSummary | None]) -> DistributionSummary | None:
    parts = [part for part in summaries if part is not None]
    if not parts:
        return None
    return DistributionSummary(
        sum(part.count for part in parts),
        sum(part.total for part in parts),
        min(part.minimum for part in parts),
        max(part.maximum for part in parts),
    )


def _merged_histograms(summaries: Iterable[HistogramSummary | None]) -> HistogramSummary | None:
    parts = [part for part in summaries if part is not None]
    count = sum(part.count for part in parts)
    if not count:
        return None
    mean = math.fsum(part.mean * part.count for part in parts) / count
    squares = math.fsum(part.count * (part.stddev**2 + (part.mean - mean) ** 2) for part in parts)
    highest = [max(getattr(part, f"p{name}") for part in parts) for name in (50, 75, 90, 95, 98, 99, 999)]
    least, greatest = min(part.min for part in parts), max(part.max for part in parts)
    return HistogramSummary(count, least, greatest, mean, math.sqrt(squares / count), *highest)


def _of_gauges(values: Sequence[Any]) -> Any:
    try:
        return GaugeSummary(min(values), sum(values) / len(values), max(values))
    except (TypeError, ArithmeticError):  # texts, None, or numbers that do not go together
        return tuple(dict.fromkeys(values))


_COMBINE: dict[MetricKind, Any] = {
    MetricKind.COUNTER: sum,
    MetricKind.METER: _sum_of_meters,
    MetricKind.DISTRIBUTION: _merged,
    MetricKind.HISTOGRAM: _merged_histograms,
    MetricKind.GAUGE: _of_gauges,
}
