"""What metrics of user functions have come to: values of single subtasks, and totals over the subtasks of an operator.

Programs import these classes from `firesteel.metrics`. They are here because `JobClient` gives them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DistributionSummary",
    "GaugeSummary",
    "JobMetrics",
    "MeterSummary",
    "MetricKind",
    "MetricTotal",
    "MetricValue",
]


class MetricKind(enum.Enum):
    """Which of the four kinds a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    DISTRIBUTION = "distribution"


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
class GaugeSummary:
    """Least, mean and greatest of what a gauge says in the subtasks: there is no sum that would mean something."""

    minimum: float
    mean: float
    maximum: float


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of one subtask, counted from 0, as last reported.

    ``value`` is a number for a counter, a `MeterSummary`, a `DistributionSummary` (None before the first value), and for
    a gauge a number, a text or None. ``scope`` are the groups that the metric was registered in.
    """

    operator: str
    operator_id: str
    subtask: int
    scope: tuple[str, ...]
    name: str
    kind: MetricKind
    value: Any

    @property
    def full_name(self) -> str:
        """The name with its groups, as in ``cache.hits``."""
        return ".".join((*self.scope, self.name))


@dataclass(frozen=True, slots=True)
class MetricTotal:
    """One metric of an operator over all its ``subtasks`` that have reported it.

    ``value`` of a counter is the sum, of a meter a `MeterSummary` with both sums, of a distribution that of all values, of
    a gauge a `GaugeSummary` of numbers; other gauges give the tuple of their different values.
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

    They begin anew when the job is restarted: what an attempt has counted is gone with it. What has to survive belongs
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
        found = [
            value for value in self.values if value.full_name == name and operator in (None, value.operator)
        ]
        if not found:
            known = ", ".join(sorted({value.full_name for value in self.values})) or "none"
            where = "" if operator is None else f" of operator {operator!r}"
            raise KeyError(f"no metric {name!r}{where} has been reported; there are: {known}")
        kinds = {value.kind: value.operator for value in found}
        if len(kinds) > 1:
            places = " and ".join(f"a {kind.value} of {place!r}" for kind, place in kinds.items())
            raise ValueError(f"the metric {name!r} is {places}, which cannot be added up: name the operator")
        return _total(found).value


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


def _of_gauges(values: Sequence[Any]) -> Any:
    try:
        return GaugeSummary(min(values), sum(values) / len(values), max(values))
    except (TypeError, ArithmeticError):  # texts, None, or numbers that do not go together
        return tuple(dict.fromkeys(values))


_COMBINE: dict[MetricKind, Any] = {
    MetricKind.COUNTER: sum,
    MetricKind.METER: _sum_of_meters,
    MetricKind.DISTRIBUTION: _merged,
    MetricKind.GAUGE: _of_gauges,
}
