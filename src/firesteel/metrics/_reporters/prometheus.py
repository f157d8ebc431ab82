"""Metrics for Prometheus: a page that it reads, or pushed to its gateway. Names and labels are those of Flink's reporter.

The name is ``flink_``, the logical scope and the name of the metric, as in ``flink_taskmanager_job_task_operator_numRecordsIn``;
variables of the scope are labels. Counters and meters are gauges, because a restart resets them; histograms are summaries.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from firesteel.common._metric_values import DistributionSummary, HistogramSummary, MeterSummary
from firesteel.common._option_types import PORTS
from firesteel.common._override import override
from firesteel.common.errors import ProgramError, SetupError
from firesteel.metrics._numbers import number
from firesteel.metrics._reported import MetricReporter, ReportedMetric

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["PrometheusReporter", "PushGatewayReporter"]

_LOG = logging.getLogger("firesteel.metrics")

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9:_]")
_PREFIX = "flink_"


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError as error:
        raise SetupError(
            "metrics are reported to Prometheus with the package prometheus-client; install it in the driver's "
            "environment: pip install 'firesteel[prometheus]'"
        ) from error
    return prometheus_client


class _Collected:
    """Asked by the client library with every scrape or push."""

    def __init__(self, metrics: Callable[[], Iterable[ReportedMetric]], filters_labels: bool) -> None:
        self._metrics = metrics
        self._filters_labels = filters_labels

    def collect(self) -> Iterable[Metric]:
        """One family for each name, with a sample for every place that has it."""
        client = _client()
        families: dict[str, Metric] = {}
        places: dict[int, dict[str, str]] = {}  # the metrics of one place share their variables
        metrics = list(self._metrics())
        for metric in metrics:
            labels = places.get(id(metric.variables))
            if labels is None:
                labels = places[id(metric.variables)] = self._labels(metric.variables)
            is_summary = isinstance(metric.value, HistogramSummary)
            name = _name(metric.logical_scope, metric.name)
            for suffix, extra, value in _samples(metric.value):
                key = name if is_summary else name + suffix
                if key not in families:
                    kind = "summary" if is_summary else "gauge"
                    families[key] = client.Metric(
                        key, f"{metric.name} (scope: {'_'.join(metric.logical_scope)})", kind
                    )
                families[key].add_sample(name + suffix, {**labels, **extra} if extra else labels, value)
        return families.values()

    def _labels(self, variables: Mapping[str, str]) -> dict[str, str]:
        clean = _clean if self._filters_labels else str
        return {_clean(key): clean(value) for key, value in variables.items()}


def _samples(value: Any) -> Iterator[tuple[str, dict[str, str], float]]:
    match value:
        case MeterSummary(_, rate):
            yield "", {}, rate
        case HistogramSummary():
            yield "_count", {}, value.count
            for quantile, at in value.quantiles:
                yield "", {"quantile": str(quantile)}, at
        case DistributionSummary():
            yield "_count", {}, value.count
            yield "_sum", {}, value.total
            yield "_min", {}, value.minimum
            yield "_max", {}, value.maximum
        case _:
            figure = number(value)
            if figure is not None:
                yield "", {}, figure


# The same names come with every scrape.
@lru_cache(maxsize=4096)
def _name(logical_scope: tuple[str, ...], name: str) -> str:
    return _PREFIX + _clean("_".join((*logical_scope, name)))


@lru_cache(maxsize=4096)
def _clean(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)


def _filters_labels(settings: Mapping[str, str]) -> bool:
    return settings.get("filterLabelValueCharacters", "true").strip().lower() != "false"


class PrometheusReporter(MetricReporter):
    """A page with all metrics: ``port`` (9249, or a range) of ``host``, which is this machine only unless it says otherwise."""

    is_scheduled = False

    @override
    def open(self, settings: Mapping[str, str]) -> None:
        """Take the first free port."""
        client = _client()
        registry = client.CollectorRegistry(auto_describe=False)
        registry.register(_Collected(self.current_metrics, _filters_labels(settings)))
        host, ports = settings.get("host", "127.0.0.1"), PORTS.parse(settings.get("port", "9249"))
        problem: OSError | None = None
        for port in ports:
            try:
                self._server, self._thread = client.start_http_server(port, addr=host, registry=registry)
            except OSError as error:
                problem = error
            else:
                _LOG.info(
                    "metrics for Prometheus are at http://%s:%d/metrics", host, self._server.server_port
                )
                return
        raise SetupError(f"no port of {settings.get('port', '9249')} on {host} is free: {problem}")

    @override
    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        """Never called: Prometheus asks."""

    @override
    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class PushGatewayReporter(MetricReporter):
    """Replaces the group of a job at ``hostUrl`` with every report; ``deleteOnShutdown`` (true) takes it away at the end."""

    @override
    def open(self, settings: Mapping[str, str]) -> None:
        self._client = _client()
        self._url = (
            settings.get("hostUrl")
            or f"http://{settings.get('host', 'localhost')}:{settings.get('port', '9091')}"
        )
        is_random = settings.get("randomJobNameSuffix", "true").strip().lower() != "false"
        self._job = settings.get("jobName", "") + (secrets.token_hex(16) if is_random else "")
        if not self._job:
            raise ProgramError(
                "a push gateway needs a name for the group: set jobName, or leave randomJobNameSuffix on"
            )
        pairs = [pair.partition("=") for pair in settings.get("groupingKey", "").split(";") if pair]
        self._grouping = {key.strip(): value.strip() for key, _, value in pairs}
        self._deletes = settings.get("deleteOnShutdown", "true").strip().lower() != "false"
        self._filters_labels = _filters_labels(settings)

    @override
    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        registry = self._client.CollectorRegistry(auto_describe=False)
        registry.register(_Collected(lambda: metrics, self._filters_labels))
        self._client.push_to_gateway(self._url, self._job, registry, self._grouping)

    @override
    def close(self) -> None:
        if self._deletes:
            self._client.delete_from_gateway(self._url, self._job, self._grouping)
