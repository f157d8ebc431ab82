"""``firesteel run -d``: the same command in a session of its own, and how it tells what becomes of its job.

It returns as soon as the job runs, has failed, stands by, or waits for an engine that has to be started. Before that comes
everything that can be wrong without an engine: the program, its options, its savepoint, the master that it names.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from firesteel.common._home import home_directory
from firesteel.common._private_files import open_private_log

#: What a driver says of its job when another driver runs it.
STANDBY = "STANDBY"
#: What it says of a job that waits for its engine: nothing that can be known before was wrong with it.
STARTING = "STARTING"
_POLL_SECONDS = 0.05
_SHOWN_LINES = 30


def default_log_file(program_name: str) -> Path:
    """A new log file under ``$FIRESTEEL_HOME/logs``, by default ``~/.firesteel/logs``."""
    return home_directory() / "logs" / f"{program_name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def write_status(path: Path, job_id: str, status: str) -> None:
    """Say what became of the job; whoever reads the file sees all of it or nothing."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"job_id": job_id, "status": status}), encoding="utf-8")
    partial.replace(path)


def start(arguments: Sequence[str], log_file: Path) -> int:
    """Start ``firesteel run`` with ``arguments`` in the background, wait for its job; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="firesteel-") as directory:
        status_file = Path(directory) / "status.json"
        process = _spawn(["--status-file", str(status_file), *arguments], log_file)
        try:
            status = _await_status(process, status_file)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if status is not None:
        click.echo(f"Job has been submitted with JobID {status['job_id']}")
    if status is None or status["status"] == "FAILED":
        return _report_failure(process, status, log_file)
    process.returncode = 0  # it runs on without us: Popen need not warn that nobody waited for it
    what = "stands by for it" if status["status"] == STANDBY else "runs it"
    click.echo(f"Process {process.pid} {what}, with output to {log_file}.")
    if status["status"] == STARTING:
        click.echo("Spark is starting; 'firesteel list' shows when the job runs.")
    click.echo(f"'firesteel cancel {status['job_id']}' cancels it.")
    return 0


def _spawn(arguments: Sequence[str], log_file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "firesteel.cli.main", "run", "--no-progress", *arguments]
    with open_private_log(str(log_file)) as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def _await_status(process: subprocess.Popen[bytes], status_file: Path) -> dict[str, Any] | None:
    """What the process says of its first job, None when it ended without one."""
    ended = False
    while True:
        if status_file.exists():
            status: dict[str, Any] = json.loads(status_file.read_text(encoding="utf-8"))
            return status
        if ended:
            return None
        # Asked before the file is looked for again: it may say something and end between two looks.
        ended = process.poll() is not None
        if not ended:
            time.sleep(_POLL_SECONDS)


def _report_failure(process: subprocess.Popen[bytes], status: dict[str, Any] | None, log_file: Path) -> int:
    code = process.wait()
    if status is None and code == 0:
        click.echo("the program ended without running a job", err=True)
    lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:]
    click.echo("\n".join([*lines, f"the whole log: {log_file}"]), err=True)
    return code
