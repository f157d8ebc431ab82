"""Files and directories that Firesteel makes for itself: for their owner only, unless the owner shares them.

A directory that its group may write is a shared one: nobody gets such a directory by accident, it takes a ``chmod
g+w``. What is made inside is for the group, too. So drivers and executors that run as different users share their
checkpoints through a directory of a common group (``chmod 2770``), and everybody else keeps theirs to themselves.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

__all__ = [
    "create_private",
    "create_secret",
    "current_umask",
    "make_private_directories",
    "make_private_directory",
    "open_private_log",
    "who_else_reads",
]

_OWNER = 0o700
_GROUP = 0o070
_FILE = 0o666


def create_private(path: str) -> BinaryIO:
    """A new file to write; raises FileExistsError when there is one already."""
    mode = _mode_inside(os.path.dirname(path)) & _FILE
    return open(path, "xb", opener=lambda name, flags: _open(name, flags, mode))


def create_secret(path: str) -> BinaryIO:
    """A new file for its owner alone, whoever shares the directory; raises FileExistsError when there is one already."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def open_private_log(path: str) -> BinaryIO:
    """A file to append to, with the directories above it; one that is there already keeps its mode."""
    make_private_directories(os.path.dirname(os.path.abspath(path)))
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def _open(name: str, flags: int, mode: int) -> int:
    descriptor = os.open(name, flags, 0o600)
    if mode != 0o600:
        os.fchmod(descriptor, mode)  # the umask would take the group's right to write
    return descriptor


def make_private_directories(path: str) -> None:
    """Make a directory and those above it that are missing; those that are there stay as they are."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path, above = os.path.dirname(path), path
        if path == above:
            break
    for directory in reversed(missing):
        try:
            make_private_directory(directory)
        except FileExistsError:
            if not os.path.isdir(directory):  # otherwise somebody else was faster
                raise


def make_private_directory(path: str) -> None:
    """Make one directory; raises FileExistsError when there is something of that name."""
    mode = _mode_inside(os.path.dirname(path))
    os.mkdir(path, _OWNER)
    if mode != _OWNER:
        os.chmod(path, mode)  # the umask would take the group's right to write


def _mode_inside(directory: str) -> int:
    """What a directory inside of this one is for."""
    try:
        mode = os.stat(directory or ".").st_mode
    except FileNotFoundError:
        return _OWNER
    shared = mode & stat.S_IWGRP and not mode & stat.S_IWOTH
    return _OWNER | _GROUP | (mode & stat.S_ISGID) if shared else _OWNER


def who_else_reads(path: str) -> str | None:
    """Who beside the owner can read a secret file, or could have written it, as a sentence; None when nobody can.

    A file of root's may be for a group: that is how secrets are mounted into containers.
    """
    status = os.stat(path)
    if status.st_uid not in (0, os.geteuid()):
        return f"{path!r} belongs to user {status.st_uid}, who is not you"
    allowed = 0o740 if status.st_uid == 0 else 0o700
    if stat.S_IMODE(status.st_mode) & ~allowed & 0o777:
        return f"{path!r} has mode {stat.S_IMODE(status.st_mode):o}, so others than its owner can read or write it"
    return None


def current_umask() -> int:
    """The mask of this process; there is no way to read it without setting it for a moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
