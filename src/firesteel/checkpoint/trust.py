"""Whether what a job is to resume from was written by somebody who may run code as this user anyway.

State of the user's functions is pickled, and reading a pickle runs what it says. So a checkpoint or savepoint that
others can write is code of theirs that runs with this user's rights. On a file system of this machine that can be
seen: from who owns the files and directories, and who may write them. Who shares a directory with a group
(`firesteel.common._private_files`) trusts the group. Object stores have access rules of their own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from firesteel.checkpoint import layout
from firesteel.checkpoint.local_storage import LocalStorage
from firesteel.checkpoint.storage import open_storage
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.errors import FileMissingError, StateError, StorageError
from firesteel.common.options import TRUST_DIRECTORY

__all__ = ["refuse_untrusted"]


def refuse_untrusted(stored: StoredCheckpoint) -> None:
    """Raise `StateError` when users whom this one has no reason to trust can have written some of it.

    Raises `StorageError` when that cannot be found out; `FileMissingError` when some of it was deleted meanwhile.
    """
    for path in _paths(stored):
        try:
            reason = _reason_for_distrust(path)
        except FileNotFoundError as error:
            raise FileMissingError(f"{path} does not exist any more") from error
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from error
        if reason:
            raise StateError(
                f"this job does not resume from {stored.location}: {path} {reason}, and what is in there is code that "
                "this program would run; if that is as it should be, change owner or mode (chmod o-w), or set "
                f"'{TRUST_DIRECTORY.key}' to true"
            )


def _paths(stored: StoredCheckpoint) -> Iterator[str]:
    """Every local file that will be read, and the directories in which they lie."""
    location, root = _local(stored.location), _local(stored.root)
    if location is None or root is None:
        return
    files = [os.path.join(location, layout.METADATA), *(os.path.join(root, f) for f in stored.manifest.files)]
    yield from dict.fromkeys(os.path.dirname(file) for file in files)
    yield from files


def _local(uri: str) -> str | None:
    storage = open_storage(uri) if uri else None
    return storage.uri if isinstance(storage, LocalStorage) else None


def _reason_for_distrust(path: str) -> str:
    info = os.stat(path)
    if info.st_mode & stat.S_IWOTH:
        return "can be written by every user of this machine"
    if _is_trusted(path):
        return ""
    return f"belongs to another user ({info.st_uid}; this program runs as {os.geteuid()})"


def _is_trusted(path: str) -> bool:
    """Whether it is of this user or root, or of a member of the group with which one of them shares its directory."""
    info, above = os.stat(path), os.path.dirname(path)
    if info.st_uid in (os.geteuid(), 0):
        return True
    shared = os.stat(above)
    is_shared = shared.st_mode & stat.S_IWGRP and not shared.st_mode & stat.S_IWOTH
    return bool(is_shared) and info.st_gid == shared.st_gid and above != path and _is_trusted(above)
