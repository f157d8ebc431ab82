"""Metrics as reporters get them, and what a reporter is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from firesteel.common._metric_values import MetricKind

__all__ = ["MetricReporter", "ReportedMetric"]


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """One metric at one moment, with what is known of its place.

    ``value`` is a number for a counter, for a gauge a number or a text, else a `firesteel.metrics.MeterSummary`,
    `firesteel.metrics.DistributionSummary` or `firesteel.metrics.HistogramSummary`. ``variables`` are those of the scope, such
    as ``host``, ``job_name`` and ``subtask_index``, and keys of groups.

    >>> metric = ReportedMetric(
    ...     "hits", MetricKind.COUNTER, 3, ("a", "Map", "0", "cache"), ("taskmanager", "job", "task", "operator", "cache")
    ... )
    >>> metric.identifier, metric.logical_name
    ('a.Map.0.cache.hits', 'taskmanager.job.task.operator.cache.hits')
    """

    name: str
    kind: MetricKind
    value: Any
    #: Parts of the full name before the name itself, as the options ``metrics.scope.*`` want them.
    scope: tuple[str, ...]
    #: What the place is, without names of hosts, jobs and the like.
    logical_scope: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = "."

    @property
    def identifier(self) -> str:
        """The full name, which no other metric has."""
        return self.delimiter.join((*self.scope, self.name))

    @property
    def logical_name(self) -> str:
        """The name that the same metric of other subtasks has, too."""
        return ".".join((*self.logical_scope, self.name))


class MetricReporter(ABC):
    """Tells another system of a job's metrics; subclass it for one of your own.

    ``metrics.reporter.<name>.factory.class: module:Class`` starts it with every job, in the driver. It has a thread of its own:
    `report` may take its time, and what it raises harms no job. Jobs of one program with the same settings share it.
    """

    #: False for a reporter that is asked by somebody, and asks `current_metrics` then: `report` is not called.
    is_scheduled: ClassVar[bool] = True

    _collect: Callable[[], list[ReportedMetric]] = staticmethod(list)

    def open(self, settings: Mapping[str, str]) -> None:
        """Prepare; ``settings`` are the options below ``metrics.reporter.<name>.``, without that beginning."""

    @abstractmethod
    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        """Tell how all metrics are now; called every ``interval``, and once more when the last of its jobs has ended."""

    def close(self) -> None:
        """Release what `open` took."""

    def current_metrics(self) -> list[ReportedMetric]:
        """All metrics as they are now, as the filters leave them; from any thread."""
        return self._collect()
