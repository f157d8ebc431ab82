"""Which jobs have ended on this machine, how and when: lines of a file, ``$FIRESTEEL_HOME/ended_jobs.jsonl``.

The process of a job adds a line when the job is over. For one that died without a word, whoever finds its entry in the
registry does. Only the owner may read the file, because errors may quote data. The newest jobs are kept, and none for
ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from firesteel.common._home import home_directory
from firesteel.common._private_files import make_private_directories
from firesteel.common.time import to_millis
from firesteel.jobmaster.remote.registry_entry import RegistryEntry

__all__ = ["KEPT_DAYS", "KEPT_JOBS", "LOST", "HistoryEntry", "ended_jobs", "history_file", "remember"]

#: The state of a job whose process has ended before the job had.
LOST = "LOST"
KEPT_JOBS = 100
KEPT_DAYS = 30

_DAY_MS = 86_400_000
_MOST_REASON = 300
_TRIES, _RETRY_SECONDS = 20, 0.02


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One job that is over. ``started`` and ``ended`` are in milliseconds; ``reason`` is empty where there is none."""

    job_id: str
    name: str
    pid: int
    machine: str
    started: int
    ended: int
    status: str
    reason: str = ""

    @property
    def seconds(self) -> float:
        """How long it ran; 0 when the clock says that it ended before it began."""
        return max(0, self.ended - self.started) / 1000


def history_file() -> Path:
    """Where the lines are; nothing is there before the first job has ended."""
    return home_directory() / "ended_jobs.jsonl"


def remember(entry: RegistryEntry, status: str, reason: str = "") -> None:
    """Note that the job of a registry's entry is over; raises OSError when that cannot be written."""
    lines = reason.strip().splitlines()
    text = lines[0][:_MOST_REASON] if lines else ""
    now = to_millis(time.time())
    job = HistoryEntry(entry.job_id, entry.name, entry.pid, entry.machine, entry.started, now, status, text)
    path = history_file()
    make_private_directories(str(path.parent))
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b") as file:
        is_alone = _lock(file)  # until it is closed
        file.write(_line(job))
        file.flush()
        file.seek(0)
        lines_there = file.readlines()
        if is_alone and len(lines_there) >= 2 * KEPT_JOBS:  # seldom: most jobs only add a line
            _shorten(file, lines_there, now)


def _lock(file: BinaryIO) -> bool:
    """Keep others from shortening the file; False when somebody does not let go of it: the end of a job does not wait."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_RETRY_SECONDS)
        else:
            return True
    return False


def _shorten(file: BinaryIO, lines: list[bytes], now: int) -> None:
    kept = _kept([job for line in lines if (job := _read(line)) is not None], now)
    file.truncate(0)
    file.write(b"".join(map(_line, kept)))


def ended_jobs() -> list[HistoryEntry]:
    """The newest ones that are known, in the order in which they have ended."""
    try:
        lines = history_file().read_bytes().splitlines()
    except OSError:
        return []
    jobs = [job for line in lines if (job := _read(line)) is not None]
    return _kept(jobs, to_millis(time.time()))


def _kept(jobs: list[HistoryEntry], now: int) -> list[HistoryEntry]:
    return [job for job in jobs if now - job.ended < KEPT_DAYS * _DAY_MS][-KEPT_JOBS:]


def _line(job: HistoryEntry) -> bytes:
    return json.dumps(asdict(job)).encode() + b"\n"


def _read(line: bytes) -> HistoryEntry | None:
    with contextlib.suppress(ValueError, TypeError):  # half a line of a machine that lost its power
        fields: dict[str, Any] = json.loads(line)
        return HistoryEntry(**fields)
    return None
