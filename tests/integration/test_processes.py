"""Whatever is killed, the job ends at once with a reason, and no process stays behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PROGRAMS, Driver, is_jvm, is_python_worker, until

pytestmark = pytest.mark.spark

Start = Callable[..., Driver]


def start_endless(driver: Start, *arguments: str) -> Driver:
    """A job that runs for ever in a process of its own; returns when it runs."""
    run = driver(str(PROGRAMS / "endless.py"), *arguments)
    run.await_output("running")
    return run


def worker_pids(run: Driver) -> list[int]:
    """The processes of tasks, as the program printed them."""
    lines = [line for line in run.stdout().splitlines() if line.startswith("task ")]
    return [int(line.split()[-1]) for line in lines]


def test_killed_worker_and_killed_jvm_end_the_job_with_a_reason_and_the_next_one_runs(driver: Start) -> None:
    run = start_endless(driver, "--again", "--again")
    pid = until(lambda: worker_pids(run))[0]
    os.kill(pid, signal.SIGKILL)
    run.await_output("over after")
    text = run.stdout()
    assert "TaskLostError" in text
    assert f"process {pid}" in text
    assert os.uname().nodename in text
    run.await_output("again 0: [2, 4, 6]")
    until(lambda: run.stdout().splitlines().count("running") == 2, "the second job without end")
    assert run.stderr() == ""

    jvm = next(p for p in run.family() if is_jvm(p))
    os.kill(jvm.pid, signal.SIGKILL)
    until(lambda: run.stdout().count("over after") == 2, "the end of the second job")
    assert "TaskLostError" in run.stdout().rpartition("over after")[2]
    run.await_output("again 1: [2, 4, 6]")
    assert run.wait() == 0
    until(lambda: not run.family(), "everything is gone")


def test_killed_driver_leaves_no_process_behind(driver: Start) -> None:
    run = start_endless(driver)
    until(lambda: worker_pids(run))
    family = run.family()
    assert any(is_jvm(p) for p in family)
    assert any(is_python_worker(p) for p in family)
    os.kill(run.popen.pid, signal.SIGKILL)
    run.wait()
    until(lambda: not run.family(), "everything is gone")


def test_interrupt_cancels_the_job_cleanly(driver: Start) -> None:
    run = driver("-m", "firesteel.cli.main", "run", str(PROGRAMS / "endless.py"))
    run.await_output("running")
    os.killpg(run.popen.pid, signal.SIGINT)
    assert run.wait() == 130
    assert "was cancelled" in run.stderr()
    assert "Traceback" not in run.stderr()
    until(lambda: not run.family(), "everything is gone")


def test_interrupt_while_spark_starts(driver: Start) -> None:
    run = driver("-m", "firesteel.cli.main", "run", str(PROGRAMS / "endless.py"))
    until(lambda: any(is_jvm(p) for p in run.family()))
    os.killpg(run.popen.pid, signal.SIGINT)
    assert run.wait() == 130
    until(lambda: not run.family(), "everything is gone")


def test_polite_kill_cancels_the_job_cleanly(driver: Start) -> None:
    run = driver("-m", "firesteel.cli.main", "run", str(PROGRAMS / "endless.py"))
    run.await_output("running")
    os.kill(run.popen.pid, signal.SIGTERM)
    assert run.wait() == 143
    until(lambda: not run.family(), "everything is gone")


def test_hanging_function_does_not_block_cancelling(driver: Start) -> None:
    run = start_endless(driver, "--hang")
    until(lambda: worker_pids(run))
    os.killpg(run.popen.pid, signal.SIGINT)
    run.wait()  # two seconds of grace, then the kill; the function would hang for much longer than anybody waits here
    until(lambda: not run.family(), "everything is gone")


def test_program_that_ends_while_its_job_runs_leaves_nothing_behind(driver: Start, tmp_path: Path) -> None:
    run = driver(str(PROGRAMS / "endless.py"), "--leave")
    run.await_output("running")
    run.wait()
    until(lambda: not run.family(), "everything is gone")
    assert run.stderr() == ""
