"""Metrics that user functions keep, what they come to, and who reports them to other systems."""

from firesteel.common._metric_values import (
    DistributionSummary,
    GaugeSummary,
    HistogramSummary,
    JobMetrics,
    MeterSummary,
    MetricKind,
    MetricTotal,
    MetricValue,
)
from firesteel.metrics._reported import MetricReporter, ReportedMetric
from firesteel.metrics.metricbase import Counter, Distribution, Histogram, Meter, Metric, MetricGroup

__all__ = [
    "Counter",
    "Distribution",
    "DistributionSummary",
    "GaugeSummary",
    "Histogram",
    "HistogramSummary",
    "JobMetrics",
    "Meter",
    "MeterSummary",
    "Metric",
    "MetricGroup",
    "MetricKind",
    "MetricReporter",
    "MetricTotal",
    "MetricValue",
    "ReportedMetric",
]
