"""Processes as the operating system sees them: who started whom, and how those end that do not answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from firesteel.spark.engine_process import answers, descendants, end_processes, end_workers

TIMEOUT = 300.0

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_descendants_are_found_and_end_although_they_are_stopped() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    child = int(parent.stdout.readline())
    try:
        found = descendants(os.getpid())
        assert found.index(parent.pid) < found.index(child), "nearest first"
        assert descendants(parent.pid) == [child]
        os.kill(child, signal.SIGSTOP)
        os.kill(parent.pid, signal.SIGSTOP)
    finally:
        assert end_processes([parent.pid, child]) == [parent.pid, child]
    assert parent.wait(TIMEOUT) == -signal.SIGKILL
    parent.stdout.close()
    parent.stdin.close()


def test_only_workers_that_spark_has_started_are_ended() -> None:
    """There is no Spark here, so this process is nobody's worker, whatever number it claims to have."""
    assert end_workers([os.getpid()]) == []


def test_process_that_has_gone_is_no_trouble() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(TIMEOUT)
    assert end_processes([gone.pid]) == []


def test_who_raises_answers_and_who_hangs_does_not() -> None:
    may_end = threading.Event()

    def refuse() -> None:
        raise ConnectionError("no")

    assert answers(refuse, TIMEOUT)
    assert not answers(lambda: may_end.wait(TIMEOUT), 0.05)
    may_end.set()
