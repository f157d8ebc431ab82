"""The directories of this machine in which the local copies of a job's state lie, and which of them may go.

::

    <root>/firesteel-local-<user id>/<job id>/     for every root of taskmanager.state.local.root-dirs
        lock                                         every task of the job that lives holds it, shared
        ...                                          see `firesteel.checkpoint.local_copies`

A directory of one user, closed to others: state is unpickled, so nobody else may put anything there.

A job that ends removes its directory. One that is killed, or fails for good, cannot; so every task that starts
looks at the directories of other jobs and removes those that no process holds and in which nothing has been written
for an hour. A job that is started again after that reads its state from storage.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time

from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.local_storage import LocalStorage
from firesteel.common.configuration import Configuration
from firesteel.common.errors import StorageError
from firesteel.common.options import LOCAL_RECOVERY, LOCAL_STATE_DIRS, TMP_DIRS

__all__ = ["open_local_copies"]

_LOG = logging.getLogger(__name__)
_LOCK = "lock"
_ABANDONED_SECONDS = 3600.0


def open_local_copies(configuration: Configuration, job_id: str, attempt: int) -> LocalCopies | None:
    """The local copies of a job for one of its tasks; None when it keeps none, or cannot (then with a warning)."""
    if not configuration.get(LOCAL_RECOVERY):
        return None
    locks: list[int] = []
    directories = []
    for root in _roots(configuration):
        try:
            ours = _private_directory(root)
            directory = os.path.join(ours, job_id)
            os.makedirs(directory, exist_ok=True)
            locks.append(_hold(directory))
        except (OSError, StorageError) as error:
            _LOG.warning(
                "no local copies of state can be kept in %s, a restart reads the checkpoint storage instead: %s",
                root,
                error,
            )
            continue
        directories.append(LocalStorage(directory, forced=False))
        with contextlib.suppress(OSError):  # what is left over does no harm
            _remove_abandoned(ours, but=job_id)
    return LocalCopies(directories, attempt, release=lambda: _release(locks)) if directories else None


def _roots(configuration: Configuration) -> list[str]:
    for option in (LOCAL_STATE_DIRS, TMP_DIRS):
        listed = [root.strip() for root in (configuration.get(option) or "").split(",")]
        if roots := [root for root in listed if root]:
            return roots
    return [tempfile.gettempdir()]


def _private_directory(root: str) -> str:
    path = os.path.join(os.path.abspath(root), f"firesteel-local-{os.getuid()}")
    os.makedirs(root, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise StorageError(
            f"{path} must be a directory that belongs to user {os.getuid()} and that nobody else can enter (mode 700); "
            "remove it, or choose another directory with taskmanager.state.local.root-dirs"
        )
    return path


def _hold(directory: str) -> int:
    """Hold the lock of a job, as long as this process lives or until the descriptor is closed."""
    descriptor = os.open(os.path.join(directory, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(
        OSError
    ):  # a file system without locks, or somebody is just removing the directory
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return descriptor


def _release(locks: list[int]) -> None:
    while locks:
        os.close(locks.pop())


def _remove_abandoned(ours: str, but: str) -> None:
    for job_id in os.listdir(ours):
        directory = os.path.join(ours, job_id)
        with contextlib.suppress(OSError):  # a task of another job may be doing the same
            if job_id != but and time.time() - os.stat(directory).st_mtime > _ABANDONED_SECONDS:
                _remove_if_free(directory)


def _remove_if_free(directory: str) -> None:
    """Remove the directory of a job, unless one of its tasks lives."""
    descriptor = os.open(os.path.join(directory, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _LOG.debug("removing the local state of a job that is gone: %s", directory)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(descriptor)
