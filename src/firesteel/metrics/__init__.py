"""Metrics that user functions keep: counters, gauges, meters and distributions, grouped by name."""

from firesteel.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
