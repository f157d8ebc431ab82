"""A task that waits for its receivers cannot report: a thread does it, with the time that it has waited."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator

import pytest

from firesteel.plan.messages import TaskReport
from firesteel.spark.memory_watch import MemoryLimit
from firesteel.spark.process_statistics import ProcessMeter
from firesteel.spark.task_reports import TaskReports

SOON = 0.001
NEVER = 3600.0
PATIENCE = 600.0

Sent = queue.Queue[TaskReport]


def numbered(n: int) -> TaskReport:
    return TaskReport((), {"n": n})


@pytest.fixture
def sent() -> Sent:
    return queue.Queue()


@pytest.fixture
def reports(sent: Sent) -> Iterator[TaskReports]:
    made = TaskReports(sent.put, SOON)
    yield made
    made.close()


def share(report: TaskReport) -> float:
    assert report.back_pressure is not None
    return report.back_pressure


def test_a_task_that_works_reports_by_itself_only(sent: Sent) -> None:
    reports = TaskReports(sent.put, NEVER)
    reports.report(numbered(1))
    assert (sent.get(timeout=PATIENCE).accumulators, sent.empty()) == ({"n": 1}, True)
    reports.close()


def test_a_task_that_waits_is_reported_as_it_is_now(reports: TaskReports, sent: Sent) -> None:
    reports.report(numbered(7))
    assert share(sent.get(timeout=PATIENCE)) == 0.0
    reports.begin_to_wait(lambda: numbered(8))
    while_waiting = [sent.get(timeout=PATIENCE) for _ in range(3)]
    assert [report.accumulators for report in while_waiting] == [{"n": 8}] * 3
    assert [share(report) for report in while_waiting[1:]] == [1.0, 1.0]
    reports.end_to_wait()


def test_a_task_goes_on_when_the_report_about_it_is_made(reports: TaskReports, sent: Sent) -> None:
    begun, going_on, too_early = threading.Event(), threading.Event(), list[bool]()

    def make() -> TaskReport:
        begun.set()
        too_early.append(going_on.wait(0.02))  # time for a task that does not wait for this thread
        return numbered(1)

    for _ in range(5):
        begun.clear()
        going_on.clear()
        reports.begin_to_wait(make)
        assert begun.wait(PATIENCE)
        reports.end_to_wait()
        going_on.set()
    assert not any(too_early)
    assert sent.get(timeout=PATIENCE).accumulators == {"n": 1}


def test_a_report_that_fails_while_a_task_waits_is_told(
    reports: TaskReports, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()

    def fail() -> TaskReport:
        failed.set()
        raise ValueError("no report")

    reports.begin_to_wait(fail)
    assert failed.wait(PATIENCE)
    reports.end_to_wait()
    reports.report(numbered(2))
    assert sent.get(timeout=PATIENCE).accumulators == {"n": 2}
    assert "no report" in caplog.text


def test_what_was_waited_counts_in_the_next_report_and_only_there(sent: Sent) -> None:
    reports = TaskReports(sent.put, NEVER)
    reports.report(numbered(1))
    reports.begin_to_wait(lambda: numbered(1))
    reports.end_to_wait()
    reports.report(numbered(2))
    reports.report(numbered(3))
    first, second, third = (sent.get(timeout=PATIENCE) for _ in range(3))
    assert 0.0 == share(first) == share(third) < share(second) <= 1.0
    reports.close()


def test_nothing_is_reported_by_itself_after_a_task_has_waited(reports: TaskReports, sent: Sent) -> None:
    reports.report(numbered(1))
    reports.begin_to_wait(lambda: numbered(1))
    sent.get(timeout=PATIENCE)
    reports.end_to_wait()
    while not sent.empty():
        sent.get_nowait()
    reports.report(numbered(2))
    assert (sent.get(timeout=PATIENCE).accumulators, sent.empty()) == ({"n": 2}, True)


def test_a_task_is_busy_rests_or_waits(sent: Sent) -> None:
    reports = TaskReports(sent.put, NEVER, clock=lambda: 7.0)
    reports.rested(since=time.monotonic() - 5)
    reports.report(numbered(1))
    reports.begin_to_wait(lambda: numbered(1))
    first, waits_since = sent.get(timeout=PATIENCE), time.monotonic()
    while time.monotonic() == waits_since:
        pass
    reports.end_to_wait()
    reports.report(numbered(2))
    second = sent.get(timeout=PATIENCE)
    reports.close()
    assert first.times is not None
    assert second.times is not None
    assert (first.times.back_pressured_ms, second.at) == (0.0, 7.0)
    assert second.times.idle_ms == first.times.idle_ms >= 5000
    assert second.times.back_pressured_ms > 0
    spent = second.times.busy_ms + second.times.idle_ms + second.times.back_pressured_ms
    assert spent == pytest.approx(7000), "the clock of the task says that it is seven seconds old"


def test_busy_is_what_is_left(sent: Sent) -> None:
    reports = TaskReports(sent.put, NEVER, clock=lambda: 2.0)
    reports.report(numbered(1))
    times = sent.get(timeout=PATIENCE).times
    reports.close()
    assert times is not None
    assert (times.busy_ms, times.idle_ms, times.back_pressured_ms) == (2000.0, 0.0, 0.0)


def test_the_process_of_a_task_is_measured_with_its_reports(sent: Sent) -> None:
    meter = ProcessMeter(MemoryLimit(10**9, "test"))
    reports = TaskReports(sent.put, NEVER, meter.read)
    reports.report(numbered(1))
    process = sent.get(timeout=PATIENCE).process
    reports.close()
    assert process is not None
    assert process.pid == os.getpid()
    assert (process.resident_bytes > 10**6, process.threads >= 1, process.memory_limit) == (True, True, 10**9)
    assert 0 <= process.cpu_load <= 1
    assert process.cpu_seconds > 0
