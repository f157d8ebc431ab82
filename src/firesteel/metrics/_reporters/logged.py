"""Writes all metrics to the log, as Flink does with SLF4J."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from firesteel.common._metric_values import MetricKind
from firesteel.common._override import override
from firesteel.metrics._numbers import parts
from firesteel.metrics._reported import MetricReporter, ReportedMetric

__all__ = ["LoggingReporter"]

_LOG = logging.getLogger("firesteel.metrics.report")
_HEADINGS = {
    MetricKind.COUNTER: "Counters",
    MetricKind.GAUGE: "Gauges",
    MetricKind.METER: "Meters",
    MetricKind.HISTOGRAM: "Histograms",
    MetricKind.DISTRIBUTION: "Distributions",
}


class LoggingReporter(MetricReporter):
    """One record of the logger ``firesteel.metrics.report`` with all metrics, at the level INFO."""

    @override
    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        lines = ["=== metrics ==="]
        for kind, heading in _HEADINGS.items():
            of_kind = [metric for metric in metrics if metric.kind is kind]
            if of_kind:
                lines += [f"-- {heading}", *(f"{metric.identifier}: {_text(metric)}" for metric in of_kind)]
        _LOG.info("%s", "\n".join(lines))


def _text(metric: ReportedMetric) -> str:
    numbers = parts(metric.value)
    if set(numbers) <= {""}:
        return str(metric.value)
    return ", ".join(f"{name}={value}" for name, value in numbers.items())
