"""Whatever is killed, the job ends at once with a reason, and no process stays behind."""

from __future__ import annotations

import os
import signal
import time
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


def test_killed_python_worker_ends_the_job_with_its_name_pid_and_host(driver: Start) -> None:
    run = start_endless(driver, "--again")
    pid = until(lambda: worker_pids(run))[0]
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    run.await_output("over after")
    assert time.monotonic() - killed < 5
    text = run.stdout()
    assert "TaskLostError" in text
    assert f"process {pid}" in text
    assert os.uname().nodename in text
    run.await_output("again: [2, 4, 6]")
    assert run.wait() == 0
    assert run.stderr() == ""
    until(lambda: not run.family(), 10, "everything is gone")


def test_killed_driver_leaves_no_process_behind(driver: Start) -> None:
    run = start_endless(driver)
    until(lambda: worker_pids(run))
    family = run.family()
    assert any(is_jvm(p) for p in family)
    assert any(is_python_worker(p) for p in family)
    os.kill(run.popen.pid, signal.SIGKILL)
    run.wait()
    until(lambda: not run.family(), 10, "everything is gone")


def test_killed_jvm_ends_the_job_and_the_next_one_starts_another(driver: Start) -> None:
    run = start_endless(driver, "--again")
    until(lambda: worker_pids(run))
    jvm = next(p for p in run.family() if is_jvm(p))
    os.kill(jvm.pid, signal.SIGKILL)
    run.await_output("over after")
    assert "TaskLostError" in run.stdout()
    run.await_output("again: [2, 4, 6]")
    assert run.wait() == 0


def test_interrupt_cancels_the_job_cleanly(driver: Start) -> None:
    run = driver("-m", "firesteel.cli.main", "run", str(PROGRAMS / "endless.py"))
    run.await_output("running")
    os.killpg(run.popen.pid, signal.SIGINT)
    assert run.wait(20) == 130
    assert "was cancelled" in run.stderr()
    assert "Traceback" not in run.stderr()
    until(lambda: not run.family(), 10, "everything is gone")


def test_interrupt_while_spark_starts(driver: Start) -> None:
    run = driver("-m", "firesteel.cli.main", "run", str(PROGRAMS / "endless.py"))
    until(lambda: any(is_jvm(p) for p in run.family()))
    os.killpg(run.popen.pid, signal.SIGINT)
    assert run.wait(60) == 130
    until(lambda: not run.family(), 10, "everything is gone")


def test_polite_kill_cancels_the_job_cleanly(driver: Start) -> None:
    run = driver("-m", "firesteel.cli.main", "run", str(PROGRAMS / "endless.py"))
    run.await_output("running")
    os.kill(run.popen.pid, signal.SIGTERM)
    assert run.wait(20) == 143
    until(lambda: not run.family(), 10, "everything is gone")


def test_hanging_function_does_not_block_cancelling(driver: Start) -> None:
    run = start_endless(driver, "--hang")
    until(lambda: worker_pids(run))
    os.killpg(run.popen.pid, signal.SIGINT)
    began = time.monotonic()
    run.wait(30)
    assert time.monotonic() - began < 10  # two seconds of grace, then the kill
    until(lambda: not run.family(), 10, "everything is gone")


def test_program_that_ends_while_its_job_runs_leaves_nothing_behind(driver: Start, tmp_path: Path) -> None:
    run = driver(str(PROGRAMS / "endless.py"), "--leave")
    run.await_output("running")
    run.wait(30)
    until(lambda: not run.family(), 10, "everything is gone")
    assert run.stderr() == ""
