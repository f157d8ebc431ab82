"""Runs the reporters of jobs, each in a thread of its own; jobs of one driver with the same settings share them.

Whatever a reporter does, no job is harmed: it is waited for a moment at the end of a job and no longer, and what it raises
is logged, once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from firesteel.jobmaster.metric_registry import MetricRegistry
from firesteel.metrics._reported import MetricReporter, ReportedMetric
from firesteel.metrics._reporter_settings import ReporterSettings

__all__ = ["JobReporting", "start_reporting"]

_LOG = logging.getLogger("firesteel.metrics")
#: How long the end of a job waits for its last report.
_LAST_REPORT_SECONDS = 2.0

_lock = threading.Lock()
_running: dict[tuple[object, ...], RunningReporter] = {}


class RunningReporter:
    """A reporter with its thread, and the jobs that it reports."""

    def __init__(self, settings: ReporterSettings, reporter: MetricReporter) -> None:
        self._settings = settings
        self._reporter = reporter
        self._lock = threading.Lock()
        self._registries: list[MetricRegistry] = []
        #: How many jobs have it; changed under the lock of this module.
        self.jobs = 0
        self._wake = threading.Event()
        self._over = False
        self._has_failed = False
        reporter._collect = self.collect
        name = f"firesteel-reporter-{settings.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, registry: MetricRegistry) -> None:
        """A job begins: its metrics are reported until `remove`."""
        with self._lock:
            self._registries.append(registry)

    def remove(self, registry: MetricRegistry) -> None:
        """A job has ended: no later report has its metrics."""
        with self._lock:
            self._registries.remove(registry)

    def end(self) -> None:
        """Report for the last time, while the job is still there, and close; waits for a moment."""
        self._over = True
        self._wake.set()
        self._thread.join(_LAST_REPORT_SECONDS)

    def collect(self) -> list[ReportedMetric]:
        """All metrics of all jobs that pass the filter. Processes are told once, though several jobs know them."""
        with self._lock:
            registries = list(self._registries)
        try:
            metrics = [metric for registry in registries for metric in registry]
            if len(registries) > 1:
                metrics = _without_repetitions(metrics)
            return [self._shown(metric) for metric in metrics if self._settings.filter.passes(metric)]
        except Exception as error:  # noqa: BLE001 - whoever asks is in no position to handle it
            self._say("cannot read the metrics of its jobs", error)
            return []

    def _shown(self, metric: ReportedMetric) -> ReportedMetric:
        settings = self._settings
        excluded, additional = settings.excluded_variables, settings.additional_variables
        if excluded or additional:
            kept = {key: value for key, value in metric.variables.items() if key not in excluded}
            return replace(metric, variables={**kept, **additional}, delimiter=settings.delimiter)
        if metric.delimiter != settings.delimiter:
            return replace(metric, delimiter=settings.delimiter)
        return metric

    # The thread.

    def _run(self) -> None:
        if not self._try("cannot be started, so nothing is reported there", self._open):
            return
        is_last = False
        while not is_last:
            self._wake.wait(self._settings.interval_seconds)
            is_last = self._over
            if self._reporter.is_scheduled:
                self._try("could not report; it is tried again, and this is not said again", self._report)
        self._try("could not be closed", self._reporter.close)

    def _open(self) -> None:
        self._reporter.open(self._settings.own)

    def _report(self) -> None:
        self._reporter.report(self.collect())

    def _try(self, problem: str, action: Callable[[], None]) -> bool:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - it may be anybody's code, and must harm no job
            self._say(problem, error)
            return False
        return True

    def _say(self, problem: str, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            name, kind = self._settings.name, type(error).__name__
            _LOG.warning("metric reporter '%s' %s: %s: %s", name, problem, kind, error)


def _without_repetitions(metrics: Sequence[ReportedMetric]) -> list[ReportedMetric]:
    seen: dict[tuple[object, ...], ReportedMetric] = {}
    for metric in metrics:
        place = tuple(sorted(metric.variables.items()))
        seen.setdefault((metric.logical_scope, metric.name, metric.kind, place), metric)
    return list(seen.values())


class JobReporting:
    """The reporters of one job; `end` when it is over."""

    def __init__(
        self, registry: MetricRegistry, reporters: dict[tuple[object, ...], RunningReporter]
    ) -> None:
        self._registry = registry
        self._reporters = reporters

    def end(self) -> None:
        """Let them report for the last time, those that no other job has."""
        for identity, reporter in self._reporters.items():
            with _lock:  # a job that starts now waits, so that it finds the port of this one free
                reporter.jobs -= 1
                if not reporter.jobs:
                    del _running[identity]
                    reporter.end()
            reporter.remove(self._registry)


def start_reporting(settings: Sequence[ReporterSettings], registry: MetricRegistry) -> JobReporting:
    """Begin to report a job."""
    reporters = {}
    for each in settings:
        with _lock:
            running = _running.get(each.identity)
            if running is None:
                running = _running[each.identity] = RunningReporter(each, each.reporter_class())
            running.jobs += 1
            running.add(registry)
        reporters[each.identity] = running
    return JobReporting(registry, reporters)
