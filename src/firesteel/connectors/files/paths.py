"""Which files a path means: a file, a directory with all below it, or a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from firesteel.common.errors import ProgramError


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was when it was found; ``modified`` in nanoseconds since the epoch."""

    path: str
    size: int
    modified: int


def local_path(path: str | os.PathLike[str], what: str) -> str:
    """The path of a local file, absolute because tasks may run in another directory; ``what`` is for the error."""
    text = os.fspath(path)
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = unquote(parts.path)
    elif "://" in text:
        raise ProgramError(
            f"{what} use paths of this machine's file system, got {text!r}; mount the storage or copy the files first"
        )
    return os.path.abspath(text)


def find_files(path: str) -> list[str]:
    """The files that an absolute path means, by name; those whose names begin with ``.`` or ``_`` are left out."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        return sorted(_files_below(path))
    found = [name for match in glob.glob(path, recursive=True) for name in _matched(match)]
    if not found:
        what = "no file matches the pattern" if glob.has_magic(path) else "there is no file or directory"
        raise ProgramError(f"{what} {path!r} to read from")
    return sorted(set(found))


def look_at(paths: list[str]) -> list[FoundFile]:
    """Size and time of files, oldest first; one that is gone meanwhile is left out."""
    found = []
    for path in paths:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            continue
        found.append(FoundFile(path, status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda file: (file.modified, file.path))


def _matched(match: str) -> list[str]:
    return list(_files_below(match)) if os.path.isdir(match) else [match]


def _files_below(directory: str) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        yield from (os.path.join(folder, name) for name in names if not name.startswith((".", "_")))
