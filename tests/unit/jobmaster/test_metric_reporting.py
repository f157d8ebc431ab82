"""Reporters run beside jobs, are shared by them, and harm none."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from firesteel.common.configuration import Configuration
from firesteel.jobmaster.metric_registry import MetricRegistry
from firesteel.jobmaster.metric_reporting import start_reporting
from firesteel.jobmaster.statistics import ReportBook
from firesteel.metrics import MetricReporter, ReportedMetric
from firesteel.metrics._reporter_settings import ReporterSettings, read_reporters
from firesteel_support.flow import Flow

PATIENCE = 600.0


class Noted(MetricReporter):
    """Remembers what it was told, for the test, which is in the same process."""

    opened: list[Mapping[str, str]] = []
    reports: list[Sequence[ReportedMetric]] = []
    closed = 0
    told = threading.Semaphore(0)

    def open(self, settings: Mapping[str, str]) -> None:
        Noted.opened.append(settings)

    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        Noted.reports.append(metrics)
        Noted.told.release()

    def close(self) -> None:
        Noted.closed += 1


class Broken(MetricReporter):
    tries = threading.Semaphore(0)

    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        Broken.tries.release()
        raise OSError("nobody there")


class Closed(MetricReporter):
    def open(self, settings: Mapping[str, str]) -> None:
        raise OSError("no port is free")

    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        raise AssertionError("it is not open")


@pytest.fixture(autouse=True)
def forgotten() -> None:
    Noted.opened, Noted.reports, Noted.closed = [], [], 0
    Noted.told = threading.Semaphore(0)


def settings(reporter: type[MetricReporter], **options: str) -> list[ReporterSettings]:
    own = {"class": "firesteel.metrics._reporters.logged:LoggingReporter", "interval": "1 ms", **options}
    [found] = read_reporters(
        Configuration.from_dict({f"metrics.reporter.x.{key}": value for key, value in own.items()})
    )
    return [replace(found, reporter_class=reporter)]


def registry(name: str = "job") -> MetricRegistry:
    flow = Flow()
    flow.collect(flow.source([1]), "out")
    plan = flow.plan()
    return MetricRegistry(name, ReportBook(plan), lambda: {"uptime": 1})


def test_a_reporter_is_opened_told_again_and_again_and_closed() -> None:
    job = start_reporting(settings(Noted, port="7"), registry())
    for _ in range(3):
        assert Noted.told.acquire(timeout=PATIENCE)
    job.end()
    assert Noted.opened[0]["port"] == "7"
    assert (len(Noted.opened), Noted.closed) == (1, 1)
    assert "uptime" in {metric.name for metric in Noted.reports[-1]}


def test_jobs_with_the_same_settings_share_a_reporter() -> None:
    first = start_reporting(settings(Noted), registry("a"))
    second = start_reporting(settings(Noted), registry("b"))
    first.end()
    assert (len(Noted.opened), Noted.closed) in ((0, 0), (1, 0)), "its thread may not have begun yet"
    second.end()
    assert (len(Noted.opened), Noted.closed) == (1, 1)
    of_jobs = [metric for metric in Noted.reports[-1] if metric.name == "uptime"]
    assert [metric.variables["job_id"] for metric in of_jobs] == ["b"]


def test_processes_that_several_jobs_know_are_told_once() -> None:
    first = start_reporting(settings(Noted), registry("a"))
    second = start_reporting(settings(Noted), registry("b"))
    while not any(len([m for m in report if m.name == "uptime"]) == 2 for report in list(Noted.reports)):
        assert Noted.told.acquire(timeout=PATIENCE)
    both = next(r for r in Noted.reports if len([m for m in r if m.name == "uptime"]) == 2)
    assert len([metric for metric in both if metric.name == "numRunningJobs"]) == 1
    first.end()
    second.end()


def test_filters_and_variables_are_applied() -> None:
    own = {
        "filter.includes": "jobmanager.job",
        "scope.variables.excludes": "job_id",
        "scope.variables.additional": "env:test",
        "scope.delimiter": "/",
    }
    start_reporting(settings(Noted, **own), registry()).end()
    [uptime] = Noted.reports[-1]
    assert (uptime.variables["env"], "job_id" in uptime.variables) == ("test", False)
    assert uptime.identifier.endswith("/uptime")


def test_a_reporter_that_fails_is_tried_again_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    job = start_reporting(settings(Broken), registry())
    for _ in range(3):
        assert Broken.tries.acquire(timeout=PATIENCE)
    job.end()
    assert len(caplog.records) == 1
    assert "metric reporter 'x' could not report" in caplog.text
    assert "OSError: nobody there" in caplog.text


def test_a_reporter_that_cannot_be_opened_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    start_reporting(settings(Closed), registry()).end()
    assert (
        "metric reporter 'x' cannot be started, so nothing is reported there: OSError: no port" in caplog.text
    )
