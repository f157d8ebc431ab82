"""Starts the processes of drivers. A spare one has Spark ready and waits for a program, so that its first record comes soon.

A spare is told what to run by a line on its standard input. It ends when that closes: spares die with the service, and drivers,
which have let go of it by then, do not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from firesteel.common._private_files import make_private_directories, open_private_log
from firesteel.common.options import (
    EXECUTOR,
    PYTHON_CLIENT_EXECUTABLE,
    SPARK_MASTER,
    SPARK_SLOTS,
)
from firesteel.logs.rolled_output import forget_rolling
from firesteel.service.folder import JobFolder
from firesteel.service.processes import mark_of
from firesteel.service.records import ProcessMark, SubmittedProgram

__all__ = ["DRIVER_MODULE", "Drivers"]

_LOG = logging.getLogger(__name__)

#: What the process of a driver runs.
DRIVER_MODULE = "firesteel.cli.service_driver"
#: Written by a spare, in its folder, when Spark is ready.
READY = "ready"
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Spare:
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    @property
    def is_ready(self) -> bool:
        """Whether Spark is started: the process says so by a file in its folder."""
        return (self.folder / READY).exists()


class Drivers:
    """Those of one service; may be used from any thread."""

    def __init__(self, work: Path, spares: Path, wanted_spares: int) -> None:
        self._work = work
        self._spares_folder = spares
        self._wanted = wanted_spares
        self._lock = threading.Lock()
        self._spares: list[_Spare] = []
        self._children: list[subprocess.Popen[bytes]] = []
        self._counter = 0

    def start(self, folder: JobFolder, submission: SubmittedProgram) -> ProcessMark:
        """Start the driver of a submission; a spare one becomes it, if there is one that suits."""
        _set_earlier_log_aside(folder)
        spare = self._take_spare() if _suits(submission) else None
        if spare is not None and _tell(spare, folder):
            return mark_of(spare.process.pid)
        interpreter = str(submission.options.get(PYTHON_CLIENT_EXECUTABLE.key) or sys.executable)
        with open_private_log(str(folder.log)) as log:
            process = subprocess.Popen(
                [interpreter, "-m", DRIVER_MODULE, "--job", str(folder.path)],
                cwd=self._work,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )
        with self._lock:
            self._children.append(process)
        return mark_of(process.pid)

    def reap(self) -> None:
        """Take note of those that have ended."""
        with self._lock:
            self._children = [each for each in self._children if each.poll() is None]
            for spare in [each for each in self._spares if each.process.poll() is not None]:
                _LOG.warning("a spare driver has ended by itself; its log is %s", spare.log)
                self._spares.remove(spare)
                self._wanted = 0  # whatever it is, the next one would do the same

    def keep_spares(self) -> None:
        """Start those that are missing."""
        with self._lock:
            missing = self._wanted - len(self._spares)
            for _ in range(missing):
                self._spares.append(self._new_spare())

    def close(self) -> None:
        """End the spares; drivers live on."""
        with self._lock:
            spares, self._spares, self._wanted = self._spares, [], 0
            for child in self._children:
                if child.poll() is None:
                    child.returncode = (
                        0  # it runs on without us: Popen need not warn that nobody waited for it
                    )
        for spare in spares:
            assert spare.process.stdin is not None
            if not spare.is_ready:
                spare.process.kill()  # it would start Spark to its end before it hears anything
            with contextlib.suppress(OSError):
                spare.process.stdin.close()
        for spare in spares:
            try:
                spare.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                spare.process.kill()
                spare.process.wait()

    def _new_spare(self) -> _Spare:
        self._counter += 1
        folder = self._spares_folder / f"{os.getpid()}-{self._counter}"
        make_private_directories(str(folder))
        with open_private_log(str(folder / "driver.log")) as log:
            process = subprocess.Popen(
                [sys.executable, "-m", DRIVER_MODULE, "--spare", str(folder)],
                cwd=self._work,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )
        return _Spare(process, folder)

    def _take_spare(self) -> _Spare | None:
        with self._lock:
            living = [each for each in self._spares if each.process.poll() is None]
            if not living:
                return None
            # One that is not ready yet is still further than a new process would be.
            ready = [each for each in living if each.is_ready]
            spare = (ready or living)[0]
            self._spares.remove(spare)
            self._children.append(spare.process)
            return spare


def _suits(submission: SubmittedProgram) -> bool:
    """Whether a driver that has started Spark with the settings of the service will do.

    Settings that a program makes in its own code are compared by the driver itself.
    """
    own = (EXECUTOR.key, PYTHON_CLIENT_EXECUTABLE.key, SPARK_MASTER.key, SPARK_SLOTS.key)
    return not any(key.startswith("spark.") or key in own for key in submission.options)


def _tell(spare: _Spare, folder: JobFolder) -> bool:
    """Let a spare run a submission; False when it has just died."""
    spare.log.replace(folder.log)  # what it writes to the open file goes there from now on
    assert spare.process.stdin is not None
    try:
        with spare.process.stdin as channel:
            channel.write(f"{folder.path}\n".encode())
    except OSError:
        return False
    for each in spare.folder.iterdir():
        each.unlink()
    spare.folder.rmdir()
    return True


def _set_earlier_log_aside(folder: JobFolder) -> None:
    if folder.log.exists():
        count = len(list(folder.path.glob("driver.*.log"))) + 1
        folder.log.replace(folder.path / f"driver.{count}.log")
        forget_rolling(folder.log)


def _environment() -> dict[str, str]:
    # Jobs of a service are found at the service, and by nobody else.
    return {**os.environ, "PYTHONUNBUFFERED": "1", "FIRESTEEL_PROGRESS": "0"}
