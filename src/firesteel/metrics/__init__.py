"""Metrics that user functions keep: counters, gauges, meters and distributions, grouped by name; and what they come to."""

from firesteel.common._metric_values import (
    DistributionSummary,
    GaugeSummary,
    JobMetrics,
    MeterSummary,
    MetricKind,
    MetricTotal,
    MetricValue,
)
from firesteel.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = [
    "Counter",
    "Distribution",
    "DistributionSummary",
    "GaugeSummary",
    "JobMetrics",
    "Meter",
    "MeterSummary",
    "Metric",
    "MetricGroup",
    "MetricKind",
    "MetricTotal",
    "MetricValue",
]
