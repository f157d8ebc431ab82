"""What the integration tests share: waiting, looking at processes, running drivers, results through files."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from firesteel.datastream import RuntimeContext, SinkFunction

T = TypeVar("T")

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
MARK_VARIABLE = "FIRESTEEL_TEST_MARK"


#: How long anything may take. Only what will never happen takes so long, on however slow a machine.
PATIENCE = 600.0


def until(condition: Callable[[], T], what: str = "", seconds: float = PATIENCE) -> T:
    """Wait until the condition is true and return its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.02)


def until_stuck(condition: Callable[[], T], progress: Callable[[], object], still: float, what: str) -> T:
    """Wait until the condition is true, however long that takes, as long as progress is made.

    ``progress`` is anything that changes when there is some; ``still`` is how long it may stay the same.
    """
    reached, since = progress(), time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        now = progress()
        if now != reached:
            reached, since = now, time.monotonic()
        if time.monotonic() - since > still:
            raise AssertionError(f"no progress for {still} s, and still not: {what}; stuck at {reached}")
        time.sleep(0.05)


def settled(read: Callable[[], int], still: float = 3.0) -> int:
    """Wait until a number has not changed for so long, and return it."""
    value, since = read(), time.monotonic()

    def unchanged() -> bool:
        nonlocal value, since
        now = read()
        if now != value:
            value, since = now, time.monotonic()
        return time.monotonic() - since >= still

    until(unchanged, "the number goes on changing")
    return value


# Results ------------------------------------------------------------------------------------------------


class FileSink(SinkFunction):
    """Pickles every record to a file of its own subtask, so that any process can read what arrived, in order."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = str(directory)

    def open(self, runtime_context: RuntimeContext) -> None:
        os.makedirs(self._directory, exist_ok=True)
        name = f"{runtime_context.get_index_of_this_subtask()}-{os.getpid()}"
        self._file = open(os.path.join(self._directory, name), "wb")  # noqa: SIM115 - closed in close()

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pickle.dump(value, self._file)

    def close(self) -> None:
        self._file.close()


def records_by_subtask(directory: str | Path) -> dict[int, list[Any]]:
    """What a `FileSink` wrote, in order, by subtask."""
    found: dict[int, list[Any]] = {}
    for path in sorted(Path(directory).iterdir()):
        found[int(path.name.partition("-")[0])] = list(_unpickled(path))
    return found


def records(directory: str | Path) -> list[Any]:
    """Everything a `FileSink` wrote, sorted: several subtasks have no order among them."""
    everything = [record for part in records_by_subtask(directory).values() for record in part]
    return sorted(everything, key=repr)


def _unpickled(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return


# Archives -----------------------------------------------------------------------------------------------


def archived_interpreter(path: Path, word: str) -> None:
    """An archive with ``bin/python``: this interpreter, with a variable that says where it came from."""
    script = f"#!/bin/sh\nexport FIRESTEEL_TEST_INTERPRETER='{word}'\nexec {sys.executable} \"$@\"\n".encode()
    entry = tarfile.TarInfo("bin/python")
    entry.mode, entry.size = 0o755, len(script)
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(entry, io.BytesIO(script))


# Processes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: str

    @property
    def rss(self) -> int:
        """Resident memory in bytes, 0 when it has gone."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        except (OSError, IndexError):
            return 0


def processes() -> dict[int, Process]:
    """All processes that live; a zombie does not."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := _process(entry)) is not None:
            found[process.pid] = process
    return found


def _process(entry: Path) -> Process | None:
    try:
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return None if state == "Z" else Process(int(entry.name), int(parent), command)


def marked(mark: str) -> list[Process]:
    """The processes with this mark in their environment: a driver's JVM, daemons and workers inherit it."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    found = []
    for process in processes().values():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(process)
    return found


def is_jvm(process: Process) -> bool:
    return "PythonGatewayServer" in process.command or "org.apache.spark.deploy" in process.command


def is_python_worker(process: Process) -> bool:
    """A forked worker or the daemon it comes from."""
    return "daemon" in process.command and "pyspark" in process.command


class NotPermittedError(Exception):
    """This machine, or this user, cannot do what a test wants."""


def run_as_root(*command: str) -> None:
    """Run a command that only root may run; raises `NotPermittedError` when it fails."""
    if os.geteuid() != 0:
        raise NotPermittedError(f"only root may run '{' '.join(command)}'")
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NotPermittedError(f"'{command[0]}' is not installed") from error
    if done.returncode:
        raise NotPermittedError(f"'{' '.join(command)}' failed: {done.stderr.strip()}")


# Drivers ------------------------------------------------------------------------------------------------


@dataclass
class Driver:
    """A program in a process of its own, with everything it starts."""

    popen: subprocess.Popen[str]
    mark: str
    directory: Path

    def family(self) -> list[Process]:
        """Everything that lives of it now."""
        return marked(self.mark)

    def stdout(self) -> str:
        return (self.directory / "stdout").read_text()

    def stderr(self) -> str:
        return (self.directory / "stderr").read_text()

    def wait(self) -> int:
        return self.popen.wait(PATIENCE)

    def await_output(self, text: str) -> None:
        """Wait until the program has printed this."""

        def printed() -> bool:
            assert text in self.stdout() or self.popen.poll() is None, self.stderr()
            return text in self.stdout()

        until(printed, f"{text!r} on the standard output")

    def kill_family(self) -> None:
        for process in self.family():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if self.popen.poll() is None:
            self.popen.wait()


def start_driver(
    directory: Path,
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    on: Callable[..., list[str]] = lambda *words: list(words),
    **environment: str,
) -> Driver:
    """Start ``python command...`` with its output in files and a mark in its environment.

    ``on``: what makes a command one that runs on another machine.
    """
    mark = uuid.uuid4().hex
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "stdout").open("w") as out, (directory / "stderr").open("w") as err:
        popen = subprocess.Popen(
            on(sys.executable, *command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            cwd=cwd or directory,
            start_new_session=True,  # its own process group: a signal to it is what Ctrl-C is in a terminal
            env={
                **os.environ,
                MARK_VARIABLE: mark,
                "PYTHONUNBUFFERED": "1",
                "FIRESTEEL_HOME": str(directory / "home"),
                **environment,
            },
        )
    return Driver(popen, mark, directory)
