"""A temporary directory that lives as long as this process, whatever becomes of it.

It is removed when the process ends. One that is killed cannot do that, so whoever makes such a directory looks at those
of others first and removes the ones whose owner is gone: every owner holds a lock on a file in its directory, which
the kernel takes away from a dead process.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import time
from pathlib import Path

__all__ = ["process_directory"]

_PREFIX = "firesteel-process-"
_OWNER = "owner"
_YOUNG_SECONDS = 60.0  # its owner may be about to acquire the lock


def process_directory(kind: str) -> Path:
    """The subdirectory for ``kind`` of things; nobody else may enter it."""
    path = _directory(os.getpid()) / kind
    path.mkdir(mode=0o700, exist_ok=True)
    return path


@functools.cache
def _directory(process: int) -> Path:
    """By process: one that was forked has a directory of its own."""
    remove_abandoned()
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(path / _OWNER, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # held until the process ends
    atexit.register(_remove, path, process)
    return path


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the directories of processes that are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or somebody else removes it just now
            if time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    descriptor = os.open(path / _OWNER, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
