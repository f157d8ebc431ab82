"""Which jobs run on this machine: a small file for each, under ``$FIRESTEEL_HOME/jobs`` (``~/.firesteel/jobs``).

A driver writes the file when it has a job and removes it when the job is over. It says where the driver listens and
the secret that proves who may talk to it, so only its owner may read it. A driver that dies leaves its file behind;
whoever looks next sees that the process is gone, removes it, and notes the loss in the history of ended jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

from firesteel.common._home import home_directory
from firesteel.jobmaster.remote.history import LOST, remember
from firesteel.jobmaster.remote.registry_entry import RegistryEntry

__all__ = ["RegistryEntry", "entries", "forget_lost", "register", "registry_directory", "unregister"]


def registry_directory() -> Path:
    """Where the files are."""
    return home_directory() / "jobs"


def register(entry: RegistryEntry) -> None:
    """Make a job known; takes the place of what a dead driver of the same job has left."""
    directory = registry_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = directory / f".{entry.job_id}-{secrets.token_hex(4)}.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(entry), file, indent=1)
    partial.replace(_file(entry.job_id))


def unregister(entry: RegistryEntry) -> bool:
    """Forget a job, unless another driver runs it by now; whether it was known until now."""
    path = _file(entry.job_id)
    if _read(path) != entry:
        return False
    try:
        path.unlink()
    except FileNotFoundError:  # somebody else was faster
        return False
    return True


def forget_lost(entry: RegistryEntry) -> None:
    """The driver of a job is gone without a word: forget the job, and remember that it was lost."""
    if unregister(entry):
        with contextlib.suppress(OSError):  # whoever looks for jobs that run need not be able to write
            remember(entry, LOST, f"its process, {entry.pid}, has ended without a word")


def entries() -> list[RegistryEntry]:
    """The jobs whose drivers live on this machine, oldest first; files of dead ones are removed."""
    entries = []
    for path in registry_directory().glob("*.json"):
        entry = _read(path)
        if entry is None or entry.machine != socket.gethostname():
            continue  # somebody is writing it, or the home directory is shared with another machine
        if _is_alive(entry.pid):
            entries.append(entry)
        else:
            forget_lost(entry)
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
