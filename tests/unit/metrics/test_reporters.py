"""Reporters say to other systems what there is, under the names that Flink's reporters have."""

from __future__ import annotations

import http.server
import logging
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from firesteel.common._metric_values import DistributionSummary, HistogramSummary, MeterSummary, MetricKind
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, ProgramError, SetupError
from firesteel.metrics import ReportedMetric
from firesteel.metrics._reporter_settings import read_reporters
from firesteel.metrics._reporters.logged import LoggingReporter
from firesteel.metrics._reporters.opentelemetry import OpenTelemetryReporter
from firesteel.metrics._reporters.prometheus import PrometheusReporter, PushGatewayReporter
from firesteel.metrics._reporters.statsd import StatsDReporter

OPERATOR = ("taskmanager", "job", "task", "operator")
PATIENCE = 600


def metric(
    name: str, kind: MetricKind, value: Any, *, groups: tuple[str, ...] = (), **variables: str
) -> ReportedMetric:
    place = {"host": "h", "job_name": "my job", **variables}
    return ReportedMetric(name, kind, value, ("h", "my job", "Map", *groups), (*OPERATOR, *groups), place)


SIZES = HistogramSummary.of(9, [1, 2, 3])
METRICS = [
    metric("numRecordsIn", MetricKind.COUNTER, 12, subtask_index="0"),
    metric("numRecordsIn", MetricKind.COUNTER, 30, subtask_index="1"),
    metric("rate", MetricKind.METER, MeterSummary(8, 0.5)),
    metric("size", MetricKind.HISTOGRAM, SIZES, groups=("cache",)),
    metric("spread", MetricKind.DISTRIBUTION, DistributionSummary(2, 5.0, -1, 6)),
    metric("balance", MetricKind.GAUGE, -3.5),
    metric("up", MetricKind.GAUGE, True),
    metric("state", MetricKind.GAUGE, "warm"),
]


def open_prometheus(**settings: str) -> PrometheusReporter:
    reporter = PrometheusReporter()
    reporter._collect = lambda: METRICS
    reporter.open({"port": "0", **settings})
    return reporter


def scraped(reporter: PrometheusReporter) -> dict[str, list[tuple[str, dict[str, str], float]]]:
    url = f"http://127.0.0.1:{reporter._server.server_port}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {each.name: [(s.name, s.labels, s.value) for s in each.samples] for each in families}


def test_prometheus_reads_what_there_is() -> None:
    reporter = open_prometheus()
    try:
        found = scraped(reporter)
    finally:
        reporter.close()
    place = {"host": "h", "job_name": "my_job"}
    prefix = "flink_taskmanager_job_task_operator_"
    assert found[f"{prefix}numRecordsIn"] == [
        (f"{prefix}numRecordsIn", {**place, "subtask_index": "0"}, 12.0),
        (f"{prefix}numRecordsIn", {**place, "subtask_index": "1"}, 30.0),
    ]
    assert found[f"{prefix}rate"] == [(f"{prefix}rate", place, 0.5)]
    assert found[f"{prefix}balance"] == [(f"{prefix}balance", place, -3.5)]
    assert found[f"{prefix}up"] == [(f"{prefix}up", place, 1.0)]
    assert f"{prefix}state" not in found, "a text is no sample"
    size = found[f"{prefix}cache_size"]
    assert (f"{prefix}cache_size_count", place, 9.0) in size
    assert (f"{prefix}cache_size", {**place, "quantile": "0.5"}, 2.0) in size
    assert {labels["quantile"] for name, labels, _ in size if name.endswith("size")} == {
        "0.5", "0.75", "0.95", "0.98", "0.99", "0.999",
    }  # fmt: skip
    assert found[f"{prefix}spread_sum"] == [(f"{prefix}spread_sum", place, 5.0)]


def test_label_values_stay_as_they_are_when_that_is_wanted() -> None:
    reporter = open_prometheus(filterLabelValueCharacters="false")
    try:
        (_, labels, _), *_ = scraped(reporter)["flink_taskmanager_job_task_operator_balance"]
    finally:
        reporter.close()
    assert labels["job_name"] == "my job"


def test_the_next_port_of_a_range_is_taken_and_a_taken_one_is_said() -> None:
    first = open_prometheus()
    taken = first._server.server_port
    try:
        with pytest.raises(SetupError, match=f"no port of {taken} on 127.0.0.1 is free"):
            open_prometheus(port=str(taken))
        second = open_prometheus(port=f"{taken},0")
        second.close()
    finally:
        first.close()


@contextmanager
def http_server() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A server that takes everything, and what it was sent: method, path, body."""
    sent: list[tuple[str, str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            sent.append((self.command, self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST = do_DELETE = take  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_push_gateway_gets_a_group_and_loses_it_at_the_end() -> None:
    reporter = PushGatewayReporter()
    with http_server() as (url, sent):
        settings = {
            "hostUrl": url,
            "jobName": "clicks",
            "randomJobNameSuffix": "false",
            "groupingKey": "env=test",
        }
        reporter.open(settings)
        reporter.report(METRICS)
        reporter.close()
    assert [(method, path) for method, path, _ in sent] == [
        ("PUT", "/metrics/job/clicks/env/test"),
        ("DELETE", "/metrics/job/clicks/env/test"),
    ]
    names = {family.name for family in text_string_to_metric_families(sent[0][2].decode())}
    assert "flink_taskmanager_job_task_operator_numRecordsIn" in names


def test_otlp_carries_every_number() -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    reporter = OpenTelemetryReporter()
    with http_server() as (url, sent):
        reporter.open({"exporter.endpoint": url, "service.name": "clicks"})
        reporter.report(METRICS)
        reporter.close()
    [(method, path, body)] = sent
    assert (method, path) == ("POST", "/v1/metrics")
    request: Any = ExportMetricsServiceRequest.FromString(body)
    [resource] = request.resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes["service.name"] == "clicks"
    [scope] = resource.scope_metrics
    by_name = {each.name: each for each in scope.metrics}
    records = by_name["flink.taskmanager.job.task.operator.numRecordsIn"].sum.data_points
    assert [point.as_int for point in records] == [12, 30]
    assert by_name["flink.taskmanager.job.task.operator.balance"].gauge.data_points[0].as_double == -3.5
    assert by_name["flink.taskmanager.job.task.operator.cache.size.p50"].gauge.data_points[0].as_double == 2.0


def test_otlp_over_grpc_is_refused() -> None:
    with pytest.raises(ProgramError, match="over HTTP only"):
        OpenTelemetryReporter().open({"exporter.protocol": "gRPC"})


def test_statsd_gets_gauges() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(PATIENCE)
        reporter = StatsDReporter()
        reporter.open({"host": "127.0.0.1", "port": str(server.getsockname()[1])})
        reporter.report(
            [
                metric("balance", MetricKind.GAUGE, -3.5),
                metric("rate", MetricKind.METER, MeterSummary(8, 0.5)),
            ]
        )
        reporter.close()
        lines = [server.recv(1024).decode() for _ in range(4)]
    assert lines == ["h.my_job.Map.balance:0|g", "h.my_job.Map.balance:-3.5|g", "h.my_job.Map.rate.count:8|g", "h.my_job.Map.rate.rate:0.5|g"]  # fmt: skip


def test_the_log_has_all_kinds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "firesteel.metrics.report"):
        LoggingReporter().report(METRICS)
    [record] = caplog.records
    assert "-- Counters\nh.my job.Map.numRecordsIn: 12" in record.message
    assert "h.my job.Map.state: warm" in record.message
    assert "h.my job.Map.rate: count=8, rate=0.5" in record.message


# Settings ----------------------------------------------------------------------------------------------


def settings(options: dict[str, str]) -> list[Any]:
    return read_reporters(Configuration.from_dict(options))


def test_classes_of_flink_mean_ours() -> None:
    flink = {
        "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": PrometheusReporter,
        "org.apache.flink.metrics.prometheus.PrometheusPushGatewayReporterFactory": PushGatewayReporter,
        "org.apache.flink.metrics.statsd.StatsDReporterFactory": StatsDReporter,
        "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": LoggingReporter,
        "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": OpenTelemetryReporter,
        "org.apache.flink.metrics.slf4j.Slf4jReporter": LoggingReporter,
    }
    for name, ours in flink.items():
        [found] = settings({"metrics.reporter.x.factory.class": name})
        assert found.reporter_class is ours


def test_the_list_says_which_reporters_start() -> None:
    logged = "org.apache.flink.metrics.slf4j.Slf4jReporterFactory"
    options = {
        "metrics.reporter.a.factory.class": logged,
        "metrics.reporter.b.class": logged,
        "metrics.reporter.b.interval": "1 min",
        "metrics.reporter.b.scope.delimiter": "/",
        "metrics.reporter.b.scope.variables.excludes": "job_id;tm_id",
        "metrics.reporter.b.scope.variables.additional": "env:test",
        "metrics.reporter.c.port": "1",
    }
    assert [found.name for found in settings(options)] == ["a", "b"]
    [found] = settings({**options, "metrics.reporters": "b"})
    assert (found.interval_seconds, found.delimiter) == (60.0, "/")
    assert (found.excluded_variables, found.additional_variables) == ({"job_id", "tm_id"}, {"env": "test"})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"metrics.reporters": "x"}, r"reporter 'x' has no 'metrics.reporter.x.factory.class'"),
        ({"metrics.reporter.x.class": "no.such:Thing"}, "got 'no.such:Thing': No module named 'no'"),
        ({"metrics.reporter.x.class": "os:path"}, "'os:path' is no firesteel.metrics.MetricReporter"),
        ({"metrics.reporter.x.interval": "soon"}, "metrics.reporter.x.interval"),
        ({"metrics.reporter.x.interval": "0 s"}, "expected more than 0"),
        ({"metrics.reporter.x.filter.includes": "a:b:c:d"}, "expected 'scope:names:kinds'"),
        ({"metrics.reporter.x.scope.variables.additional": "env"}, "expected 'key:value', got 'env'"),
    ],
)
def test_mistakes_are_said(options: dict[str, str], problem: str) -> None:
    logged = {"metrics.reporter.x.class": "firesteel.metrics._reporters.logged:LoggingReporter"}
    with pytest.raises(InvalidOptionError, match=problem):
        settings(options if "metrics.reporters" in options else {**logged, **options})


def test_a_reporter_of_flink_that_is_not_there_is_answered_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert (
        settings(
            {"metrics.reporter.g.factory.class": "org.apache.flink.metrics.graphite.GraphiteReporterFactory"}
        )
        == []
    )
    assert (
        "there is no counterpart of org.apache.flink.metrics.graphite.GraphiteReporterFactory" in caplog.text
    )


@pytest.mark.parametrize(
    ("includes", "excludes", "left"),
    [
        ("*", "", 8),
        ("*:numRecords*", "", 2),
        ("*:*:meter,gauge", "", 4),
        ("*:*:histogram", "", 2),
        ("taskmanager.job.task.operator", "", 7),
        ("*.cache;*:up", "", 2),
        ("*", "*:numRecords*;*:*:gauge", 3),
        ("jobmanager*", "", 0),
    ],
)
def test_filters_go_by_scope_name_and_kind(includes: str, excludes: str, left: int) -> None:
    own = {
        "filter.includes": includes,
        "filter.excludes": excludes,
        "class": "firesteel.metrics._reporters.logged:LoggingReporter",
    }
    [found] = settings({f"metrics.reporter.x.{key}": value for key, value in own.items() if value})
    assert sum(found.filter.passes(each) for each in METRICS) == left
