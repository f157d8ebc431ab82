"""Counters, meters, distributions, histograms and gauges, and the groups that name them."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from numbers import Number
from typing import Any, ClassVar, TypeVar

from firesteel.common._metric_values import DistributionSummary, HistogramSummary, MeterSummary, MetricKind
from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.metrics._scopes import SystemScope

M = TypeVar("M", bound="Metric")

_LOG = logging.getLogger("firesteel.metrics")

#: Groups, name, kind and value of a metric, and which of the groups are values of keys.
Reading = tuple[tuple[str, ...], str, MetricKind, Any, tuple[int, ...]]


class Metric:
    """What reporters see of all kinds: a value of a `MetricKind`."""

    kind: ClassVar[MetricKind]

    def snapshot(self) -> Any:
        """The value to report; None when there is none yet."""
        raise NotImplementedError


class Counter(Metric):
    """A number that goes up and down.

    >>> counter = Counter()
    >>> counter.inc(); counter.inc(4); counter.dec()
    >>> counter.get_count()
    4
    """

    kind = MetricKind.COUNTER

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add ``n``."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtract ``n``."""
        self._count -= n

    def get_count(self) -> int:
        """The number now."""
        return self._count

    @override
    def snapshot(self) -> int:
        return self._count


class Meter(Metric):
    """Counts events and tells how many per second there were over a time span."""

    kind = MetricKind.METER

    def __init__(self, time_span_in_seconds: int = 60, now: Callable[[], float] = time.monotonic) -> None:
        self._span = time_span_in_seconds
        self._now = now
        self._count = 0
        self._marks: deque[tuple[float, int]] = deque()

    def mark_event(self, value: int = 1) -> None:
        """Count ``value`` events that happen now."""
        self._count += value
        second = float(int(self._now()))
        if self._marks and self._marks[-1][0] == second:
            self._marks[-1] = (second, self._marks[-1][1] + value)
        else:
            self._marks.append((second, value))

    def get_count(self) -> int:
        """All events so far."""
        return self._count

    def get_rate(self) -> float:
        """Events per second over the time span."""
        oldest = self._now() - self._span
        while self._marks and self._marks[0][0] < oldest:
            self._marks.popleft()
        return sum(events for _, events in self._marks) / self._span

    @override
    def snapshot(self) -> MeterSummary:
        return MeterSummary(self._count, self.get_rate())


class Distribution(Metric):
    """Summarises values: how many, their sum, least and greatest."""

    kind = MetricKind.DISTRIBUTION

    def __init__(self) -> None:
        self._summary: DistributionSummary | None = None

    def update(self, value: float) -> None:
        """Take a value in."""
        old = self._summary or DistributionSummary(0, 0, value, value)
        self._summary = DistributionSummary(
            old.count + 1, old.total + value, min(old.minimum, value), max(old.maximum, value)
        )

    @override
    def snapshot(self) -> DistributionSummary | None:
        """The summary so far, None before the first value."""
        return self._summary


class Histogram(Metric):
    """Quantiles, mean and deviation of the newest values; not in PyFlink.

    >>> histogram = Histogram()
    >>> for value in range(1, 100):
    ...     histogram.update(value)
    >>> histogram.get_count(), histogram.get_statistics().p95
    (99, 95.0)
    """

    kind = MetricKind.HISTOGRAM

    def __init__(self, window_size: int = 500) -> None:
        if window_size < 1:
            raise ProgramError(f"a histogram keeps the newest values, at least 1, got {window_size}")
        self._window: deque[float] = deque(maxlen=window_size)
        self._count = 0

    def update(self, value: float) -> None:
        """Take a value in."""
        self._window.append(value)
        self._count += 1

    def get_count(self) -> int:
        """How many values there were."""
        return self._count

    def get_statistics(self) -> HistogramSummary | None:
        """What the newest values look like, None before the first one."""
        return HistogramSummary.of(self._count, self._window) if self._window else None

    @override
    def snapshot(self) -> HistogramSummary | None:
        return self.get_statistics()


class _Gauge(Metric):
    kind = MetricKind.GAUGE

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    @override
    def snapshot(self) -> Any:
        value = self._function()
        # It leaves the process: objects of the user's, which may not be fit for that, are told by their text.
        return value if value is None or isinstance(value, Number | str) else str(value)


class MetricGroup:
    """Named metrics and subgroups of one operator.

    >>> group = MetricGroup("Map")
    >>> group.add_group("cache").counter("hits").inc(2)
    >>> dict(group.snapshot())
    {'Map.cache.hits': 2}
    """

    def __init__(
        self,
        name: str,
        scope: tuple[str, ...] = (),
        *,
        system: SystemScope | None = None,
        value_indexes: tuple[int, ...] = (),
    ) -> None:
        self._name = name
        self._scope = scope
        self._system = SystemScope((name,)) if system is None else system
        self._value_indexes = value_indexes
        self._metrics: dict[str, Metric] = {}
        self._groups: dict[str, MetricGroup] = {}
        self._broken: set[str] = set()

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """The subgroup ``name``, or for a key and its value ``name.extra``; made on first use.

        Reporters with labels, such as that for Prometheus, show a key and its value as a label.
        """
        added = (name,) if extra is None else (name, extra)
        scope = ".".join(added)
        if scope not in self._groups:
            groups = (*self._scope, *added)
            values = self._value_indexes if extra is None else (*self._value_indexes, len(groups) - 1)
            self._groups[scope] = MetricGroup(
                f"{self._name}.{scope}", groups, system=self._system, value_indexes=values
            )
        return self._groups[scope]

    def counter(self, name: str) -> Counter:
        """Register a counter, which begins at 0; a name can be had once in a group."""
        return self._register(name, Counter())

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Register a function whose value is asked for when metrics are reported.

        When it raises, the metric is missing from that report, and a warning is logged the first time.
        """
        self._register(name, _Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Register a meter: events in a second, over the last ``time_span_in_seconds``."""
        return self._register(name, Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """Register a distribution: how many values there were, their sum, the least and the greatest."""
        return self._register(name, Distribution())

    def histogram(self, name: str, window_size: int = 500) -> Histogram:
        """Register a histogram over the newest ``window_size`` values; not in PyFlink."""
        return self._register(name, Histogram(window_size))

    def get_scope_components(self) -> tuple[str, ...]:
        """Where the group is: the parts of the operator's scope, as configured, then the groups."""
        return (*self._system.components, *self._scope)

    def get_all_variables(self) -> dict[str, str]:
        """What is known of the place of the group, as in ``{"<host>": ..., "<subtask_index>": "0"}``, keys of groups too."""
        pairs = {f"<{self._scope[index - 1]}>": self._scope[index] for index in self._value_indexes}
        return {**self._system.variables, **pairs}

    def get_metric_identifier(self, metric_name: str) -> str:
        """The full name of a metric of this group, with its scope.

        >>> MetricGroup("Map").add_group("cache").get_metric_identifier("hits")
        'Map.cache.hits'
        """
        return self._system.delimiter.join((*self.get_scope_components(), metric_name))

    def snapshot(self) -> Iterator[tuple[str, Any]]:
        """All metrics that have a value, with their full names."""
        first = self._name.removesuffix(".".join(("", *self._scope)))
        for scope, name, _, value, _ in self.readings():
            yield ".".join((first, *scope, name)), value

    def readings(self) -> Iterator[Reading]:
        """All metrics here and in subgroups that have a value now."""
        for name, metric in self._metrics.items():
            try:
                value = metric.snapshot()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a gauge is the user's code
                self._warn_once(name, error)
            else:
                yield self._scope, name, metric.kind, value, self._value_indexes
        for group in self._groups.values():
            yield from group.readings()

    def _warn_once(self, name: str, error: BaseException) -> None:
        """A metric that cannot be read is no reason to end a job that works."""
        if name not in self._broken:
            self._broken.add(name)
            _LOG.warning(
                "the metric '%s.%s' cannot be reported: its gauge raised %s: %s",
                self._name,
                name,
                type(error).__name__,
                error,
                exc_info=error,
            )

    def _register(self, name: str, metric: M) -> M:
        if name in self._metrics:
            raise ProgramError(f"the metric {name!r} is registered twice in group {self._name!r}")
        self._metrics[name] = metric
        return metric
