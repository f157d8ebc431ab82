"""Processes that are stopped instead of killed: noticed, named, ended; and when they wake up, they do no harm."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from recovery_job import OPTIONS, TaskProcess, check, shown, task_processes, tell_to_end
from support import PROGRAMS, Driver, is_jvm, processes, until

Start = Callable[..., Driver]

#: Long enough that a busy machine is not taken for a stopped process.
HEARTBEAT = {"heartbeat.interval": "500 ms", "heartbeat.timeout": "8 s"}
#: A cancel takes 10 seconds at most; machines may be slow.
SLOW = 6.0


def run_endless(driver: Start, *arguments: str, heartbeat: Any = HEARTBEAT, **variables: str) -> Driver:
    settings = [word for key, value in heartbeat.items() for word in ("-D", f"{key}={value}")]
    command = ["-m", "firesteel.cli.main", "run", *settings, str(PROGRAMS / "endless.py"), *arguments]
    run = driver(*command, **variables)
    run.await_output("running")
    return run


def task_pids(run: Driver) -> list[int]:
    """The processes of tasks, as the program printed them."""
    return [int(line.split()[-1]) for line in run.stdout().splitlines() if line.startswith("task ")]


def jvm_of(run: Driver) -> int:
    return next(process.pid for process in run.family() if is_jvm(process))


@pytest.mark.spark
def test_stopped_worker_and_stopped_jvm_end_the_job_with_a_reason_and_the_next_one_runs(
    driver: Start,
) -> None:
    run = run_endless(driver, "--again", "--again")
    stopped = until(lambda: task_pids(run))[0]
    os.kill(stopped, signal.SIGSTOP)
    run.await_output("over after")
    text = run.stdout()
    assert "HeartbeatError" in text
    assert f"on {os.uname().nodename}, process {stopped}: no sign of life" in text
    assert f"process {stopped}: no sign of life" in run.stderr(), "it is said in the log, too"
    run.await_output("again 0: [2, 4, 6]")
    until(lambda: stopped not in processes(), "the stopped worker is gone")

    until(lambda: run.stdout().splitlines().count("running") == 2, "the second job without end")
    os.kill(jvm_of(run), signal.SIGSTOP)
    until(lambda: run.stdout().count("over after") == 2, "the end of the second job")
    last = run.stdout().rpartition("over after")[2]
    assert "HeartbeatError: Spark's driver process has not answered" in last
    run.await_output("again 1: [2, 4, 6]")
    assert run.wait() == 0
    until(lambda: not run.family(), "everything is gone")


@pytest.mark.spark
def test_cancel_and_termination_come_through_when_spark_is_stopped(driver: Start, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    patient = {"heartbeat.timeout": "1 h"}  # nothing but the cancel ends the job
    run = run_endless(driver, heartbeat=patient, FIRESTEEL_HOME=home)
    (job_id,) = (path.stem for path in Path(home, "jobs").iterdir())
    os.kill(jvm_of(run), signal.SIGSTOP)
    began = time.monotonic()
    cancel = driver("-m", "firesteel.cli.main", "cancel", job_id, FIRESTEEL_HOME=home)
    assert cancel.wait() == 0, cancel.stderr()
    assert "Cancelled job" in cancel.stdout()
    assert time.monotonic() - began < 10.0 * SLOW
    run.wait()
    assert "JobCancelledError" in run.stdout()
    until(lambda: not run.family(), "everything is gone")

    run = run_endless(driver, heartbeat=patient, FIRESTEEL_HOME=home)
    os.kill(jvm_of(run), signal.SIGSTOP)
    began = time.monotonic()
    os.kill(run.popen.pid, signal.SIGTERM)
    assert run.wait() == 143
    assert time.monotonic() - began < 10.0 * SLOW
    until(lambda: not run.family(), "everything is gone")


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        wake(*pids)


def wake(*pids: int) -> None:
    for pid in pids:
        if pid in processes():
            os.kill(pid, signal.SIGCONT)


@pytest.mark.cluster
@pytest.mark.slow
def test_task_that_wakes_up_after_it_was_given_up_changes_nothing(
    driver: Start, cluster: Cluster, tmp_path: Path
) -> None:
    """The daemon that would kill the task is stopped, too, so that the task wakes up in the middle of the restart."""
    options = {**OPTIONS, **HEARTBEAT, "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    settings = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    command = ["-m", "firesteel.cli.main", "run", "-m", cluster.url, "-p", "2", *settings]
    run = driver(*command, str(PROGRAMS / "recovering.py"), str(tmp_path), "1000", **cluster.environment)

    def await_more(than: int) -> int:
        def more() -> int:
            assert run.popen.poll() is None, run.stderr()
            return len(shown(tmp_path)) if len(shown(tmp_path)) > than else 0

        return until(more, "output")

    await_more(0)
    sleeper = until(lambda: _keyed_task(tmp_path))
    daemon = processes()[sleeper.pid].parent
    with stopped(daemon, sleeper.pid):
        until(lambda: f"process {sleeper.pid}: no sign of life" in run.stderr(), "it is noticed")
        until(lambda: "failed, the next one starts" in run.stderr(), "its attempt is over")
        before = len(shown(tmp_path))
        wake(sleeper.pid)
        until(lambda: sleeper.pid not in processes(), "it ends itself, because nobody counts on it")
    seen = await_more(before)
    tell_to_end(tmp_path)
    assert run.wait() == 0, run.stderr()
    assert check(tmp_path) >= seen


def _keyed_task(output: Path) -> TaskProcess | None:
    return next((task for task in task_processes(output) if task.role == "keyed"), None)
