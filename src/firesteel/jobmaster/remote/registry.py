"""Which jobs run on this machine: a small file for each, under ``$FIRESTEEL_HOME/jobs`` (``~/.firesteel/jobs``).

A driver writes the file when it has a job and removes it when the job is over. It says where the REST interface of the driver
is, if there is one. The driver holds a lock on the file, which the system takes away when the process ends: so a driver that
died is told from a process that has got its number since. Whoever looks next removes the file that it has left behind, and
notes the loss in the history of ended jobs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from firesteel.common._home import home_directory
from firesteel.jobmaster.remote.history import LOST, remember
from firesteel.jobmaster.remote.registry_entry import RegistryEntry

__all__ = ["Registration", "RegistryEntry", "entries", "register", "registry_directory"]


class Registration:
    """A job of this process that others can find, until it is withdrawn or the process ends."""

    def __init__(self, entry: RegistryEntry, locked_file: TextIO) -> None:
        self.entry = entry
        self._file = locked_file

    def withdraw(self) -> None:
        """Nobody shall find the job any more."""
        with contextlib.suppress(OSError):
            _unregister(self.entry)
        self._file.close()


def registry_directory() -> Path:
    """Where the files are; `register` makes the directory."""
    return home_directory() / "jobs"


def register(entry: RegistryEntry) -> Registration:
    """Make a job known; takes the place of what a dead driver of the same job has left."""
    directory = registry_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = directory / f".{entry.job_id}-{secrets.token_hex(4)}.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    file = open(descriptor, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the job runs
    try:
        with contextlib.suppress(
            OSError
        ):  # a file system without locks; then the number of the process has to do
            fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(asdict(entry), file, indent=1)
        file.flush()
        partial.replace(_file(entry.job_id))
    except BaseException:
        file.close()
        partial.unlink(missing_ok=True)
        raise
    return Registration(entry, file)


def _unregister(entry: RegistryEntry) -> bool:
    """Forget a job, unless another driver runs it by now; whether it was known until now."""
    path = _file(entry.job_id)
    if _read(path) != entry:
        return False
    try:
        path.unlink()
    except FileNotFoundError:  # somebody else was faster
        return False
    return True


def _forget_lost(entry: RegistryEntry) -> None:
    """The driver of a job is gone without a word: forget the job, and remember that it was lost."""
    if _unregister(entry):
        with contextlib.suppress(OSError):  # whoever looks for jobs that run need not be able to write
            remember(entry, LOST, f"its process, {entry.pid}, has ended without a word")


def entries() -> list[RegistryEntry]:
    """The jobs whose drivers live on this machine, oldest first; files of dead ones are removed."""
    entries = []
    for path in registry_directory().glob("*.json"):
        entry = _read(path)
        if entry is None or entry.machine != socket.gethostname():
            continue  # somebody is writing it, or the home directory is shared with another machine
        if _is_alive(entry.pid) and _is_held(path):
            entries.append(entry)
        else:
            _forget_lost(entry)
    return sorted(entries, key=lambda entry: (entry.started, entry.job_id))


def _file(job_id: str) -> Path:
    return registry_directory() / f"{job_id}.json"


def _read(path: Path) -> RegistryEntry | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return RegistryEntry(**fields)
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_held(path: Path) -> bool:
    """Whether somebody has the lock of a file. A child that a driver has forked may have it, too: so this is not enough."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # it is held, or nobody can tell
        return True
    return False
