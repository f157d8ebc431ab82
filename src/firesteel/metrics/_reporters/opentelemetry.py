"""Sends metrics by OTLP over HTTP, to a collector of OpenTelemetry or whatever speaks that."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firesteel.common._metric_values import MetricKind
from firesteel.common._option_types import parse_duration
from firesteel.common._override import override
from firesteel.common.errors import ProgramError, SetupError
from firesteel.metrics._numbers import parts
from firesteel.metrics._reported import MetricReporter, ReportedMetric

__all__ = ["OpenTelemetryReporter"]

_TIMEOUT = "10 s"


class OpenTelemetryReporter(MetricReporter):
    """Options: ``exporter.endpoint``, as http://host:4318, ``exporter.timeout``, ``service.name``, ``service.version``.

    Without an endpoint the variables of OpenTelemetry's own exporter count, such as OTEL_EXPORTER_OTLP_ENDPOINT.
    """

    @override
    def open(self, settings: Mapping[str, str]) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http import metric_exporter
            from opentelemetry.sdk import resources
            from opentelemetry.sdk.metrics import export
            from opentelemetry.sdk.util import instrumentation
        except ImportError as error:
            raise SetupError(
                "metrics are sent by OTLP with the package opentelemetry-exporter-otlp-proto-http; install it in the "
                "driver's environment: pip install 'firesteel[opentelemetry]'"
            ) from error
        if settings.get("exporter.protocol", "HTTP").upper() not in ("HTTP", "HTTP/PROTOBUF"):
            raise ProgramError(
                "OTLP is spoken over HTTP only: set exporter.protocol to HTTP, with the collector's port for it"
            )
        endpoint = settings.get("exporter.endpoint")
        self._model: Any = export
        self._exporter = metric_exporter.OTLPMetricExporter(
            endpoint=None if endpoint is None else _metrics_of(endpoint),
            timeout=parse_duration(settings.get("exporter.timeout", _TIMEOUT)).to_millis() / 1000,
        )
        attributes = {"service.name": settings.get("service.name", "firesteel")}
        if "service.version" in settings:
            attributes["service.version"] = settings["service.version"]
        self._resource: Any = resources.Resource.create(attributes)
        self._scope: Any = instrumentation.InstrumentationScope("firesteel")
        self._began = time.time_ns()

    @override
    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        model = self._model
        now = time.time_ns()
        points: dict[tuple[str, bool], list[Any]] = {}
        for metric in metrics:
            for name, is_sum, value in _numbers(metric):
                point = model.NumberDataPoint(dict(metric.variables), self._began, now, value)
                points.setdefault((name, is_sum), []).append(point)
        otel_metrics = [
            model.Metric(name, "", "", self._data(is_sum, of_name))
            for (name, is_sum), of_name in points.items()
        ]
        scope = model.ScopeMetrics(self._scope, otel_metrics, "")
        outcome = self._exporter.export(
            model.MetricsData([model.ResourceMetrics(self._resource, [scope], "")])
        )
        if outcome is not model.MetricExportResult.SUCCESS:
            raise SetupError("the collector did not take the metrics; the log of opentelemetry says why")

    def _data(self, is_sum: bool, points: list[Any]) -> Any:
        if is_sum:
            return self._model.Sum(points, self._model.AggregationTemporality.CUMULATIVE, is_monotonic=False)
        return self._model.Gauge(points)

    @override
    def close(self) -> None:
        self._exporter.shutdown()


def _metrics_of(endpoint: str) -> str:
    return endpoint if endpoint.rstrip("/").endswith("/v1/metrics") else f"{endpoint.rstrip('/')}/v1/metrics"


def _numbers(metric: ReportedMetric) -> Iterator[tuple[str, bool, float]]:
    name = f"flink.{metric.logical_name}"
    for part, value in parts(metric.value).items():
        yield f"{name}.{part}" if part else name, metric.kind is MetricKind.COUNTER or part == "count", value
