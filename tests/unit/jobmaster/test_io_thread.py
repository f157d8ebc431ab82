"""The thread for slow things."""

from __future__ import annotations

import threading

import pytest

from firesteel.jobmaster.job_master import IoThread


def test_work_is_done_in_order_and_to_the_end() -> None:
    thread, done = IoThread("io"), []
    for number in range(100):
        thread.do(lambda number=number: done.append(number))
    assert thread.close(10.0)
    assert done == list(range(100))


def test_failure_is_logged_and_the_next_work_is_done(caplog: pytest.LogCaptureFixture) -> None:
    thread, done = IoThread("io"), []
    thread.do(lambda: 1 // 0)
    thread.do(lambda: done.append(1))
    assert thread.close(10.0)
    assert done == [1]
    assert "work in thread io failed" in caplog.text


def test_there_is_no_thread_without_work() -> None:
    before = threading.active_count()
    thread = IoThread("io")
    assert threading.active_count() == before
    assert thread.close(0.0)


def test_work_that_takes_too_long_is_not_waited_for() -> None:
    thread, release = IoThread("io"), threading.Event()
    thread.do(release.wait)
    assert not thread.close(0.01)
    release.set()
    assert thread.close(10.0)
