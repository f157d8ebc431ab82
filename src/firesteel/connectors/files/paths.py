"""Which files a path means: a file, a directory with all below it, or a pattern.

A path is one of this machine, absolute, or a URI of a store: ``s3://bucket/folder/file``. What follows the bucket of a URI is
taken as it is: there are no escapes and no query in it. Here are local paths; those of stores are in `arrow_files`.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from firesteel.checkpoint.object_stores import STORE_SCHEMES, without_secrets
from firesteel.common.errors import ProgramError

#: Names that Hadoop has for its different clients of one store.
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was when it was found; ``modified`` in nanoseconds since the epoch."""

    path: str
    size: int
    modified: int


class NothingYet(FileNotFoundError):
    """There are no files, but the place where they would be is there: in a store a folder without files is none."""


#: Is told when a look does not work.
Trouble = Callable[[OSError], None]

_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def raise_trouble(error: OSError) -> None:
    """What to do about trouble when nothing may be left out."""
    raise error


def local_path(path: str | os.PathLike[str], what: str) -> str:
    """The path of a local file, absolute because tasks may run in another directory; ``what`` is for the error."""
    text = os.fspath(path)
    if urlsplit(text).scheme != "file" and "://" in text:
        raise ProgramError(
            f"{what} use paths of this machine's file system, got {without_secrets(text)!r}; use FileSource or FileSink, which "
            "read and write object stores, mount the storage, or copy the files first"
        )
    return place(text, what)


def place(path: str | os.PathLike[str], what: str) -> str:
    """A path that means the same in every process: an absolute one of this machine, or the URI of a store.

    >>> place("s3a://bucket/a//b/../c/", "files")
    's3://bucket/a/c'
    """
    text = os.fspath(path)
    if "://" not in text:
        return os.path.abspath(text)
    scheme, _, rest = text.partition("://")
    scheme = _SAME_SCHEMES.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        return os.path.abspath(unquote(urlsplit(text).path))
    host, _, inner = rest.partition("/")
    if scheme not in STORE_SCHEMES:
        raise ProgramError(
            f"{what} can be at paths of this machine and in stores with s3, gs, hdfs or abfs, got "
            f"{without_secrets(text)!r}; mount the storage or copy the files first"
        )
    if "@" in host and scheme not in ("abfs", "abfss"):  # there it is container@account
        raise ProgramError(
            f"{what} do not take keys in a URI, because it is printed; write {without_secrets(text)!r} and give the keys by "
            "'s3.access-key' and 's3.secret-key' or in the environment"
        )
    if not host and scheme not in ("hdfs", "viewfs"):
        raise ProgramError(
            f"{what} in a store need the name of a bucket: {scheme}://bucket/path, got {text!r}"
        )
    return _uri(scheme, host, inner)


def is_uri(path: str) -> bool:
    """Whether what `place` has made is in a store."""
    return "://" in path


def parent(path: str) -> str:
    """The folder that something is in; the topmost one is in itself.

    >>> parent("/a/b"), parent("s3://bucket/a"), parent("s3://bucket")
    ('/a', 's3://bucket', 's3://bucket')
    """
    if not is_uri(path):
        return os.path.dirname(path)
    start = path.index("://") + 3
    host, slash, inner = path[start:].partition("/")
    return f"{path[:start]}{host}{slash}{inner.rpartition('/')[0]}".rstrip("/") if inner else path


def joined(folder: str, below: str) -> str:
    """What is below a folder, by a relative path.

    >>> joined("/a", "b/../c"), joined("s3://bucket", "b/c"), joined("s3://bucket/a", "")
    ('/a/c', 's3://bucket/b/c', 's3://bucket/a')
    """
    if not is_uri(folder):
        return os.path.normpath(os.path.join(folder, below))
    scheme, _, rest = folder.partition("://")
    host, _, inner = rest.partition("/")
    return _uri(scheme, host, f"{inner}/{below}")


def _uri(scheme: str, host: str, inner: str) -> str:
    """Without ``.`` and ``..``, and without slashes that mean nothing; what is above the bucket is the bucket."""
    clean = os.path.normpath(f"/{inner}").strip("/")
    return f"{scheme}://{host}/{clean}".rstrip("/") if host or clean else f"{scheme}:///"


def is_pattern(path: str) -> bool:
    """Whether a path may stand for several files, or for none."""
    return glob.has_magic(path)


def find_files(path: str, trouble: Trouble = raise_trouble) -> list[str]:
    """The files that an absolute path means, by name; those whose names begin with ``.`` or ``_`` are left out.

    `FileNotFoundError` when there is nothing, neither a file nor a directory nor anything that matches. Only what is
    not there counts as such. When a look does not work, ``trouble`` is called, and may raise or have it left out.
    """
    try:
        status = os.stat(path)
    except _NOT_THERE:
        matches = set(_matching(path, trouble)) if is_pattern(path) else set()
        if matches:
            return sorted(matches)
        what = "no file matches the pattern" if is_pattern(path) else "there is no file or directory"
        raise FileNotFoundError(errno.ENOENT, f"{what} to read from", path) from None
    except OSError as error:
        trouble(error)
        return []
    return sorted(_files_below(path, trouble)) if stat.S_ISDIR(status.st_mode) else [path]


def stat_files(paths: list[str], trouble: Trouble = raise_trouble) -> list[FoundFile]:
    """Size and time of files, oldest first; one that is gone meanwhile is left out."""
    files = []
    for path in paths:
        try:
            status = os.stat(path)
        except _NOT_THERE:
            continue
        except OSError as error:
            trouble(error)
            continue
        files.append(FoundFile(path, status.st_size, status.st_mtime_ns))
    return sorted(files, key=lambda file: (file.modified, file.path))


def _matching(pattern: str, trouble: Trouble) -> Iterator[str]:
    """The files that a pattern means, also those in directories that match. Some come twice."""
    for match in _expanded("/", pattern.strip("/").split("/"), trouble):
        if _is_directory(match, trouble):
            yield from _files_below(match, trouble)
        else:
            yield match


def _expanded(folder: str, names: list[str], trouble: Trouble) -> Iterator[str]:
    """What is in a folder and matches the names of a pattern, as `glob.glob` sees it, which keeps quiet about trouble."""
    if not names:
        yield folder
    elif names[0] == "**":
        if len(names) > 1 or _is_directory(folder, trouble):
            yield from _expanded(folder, names[1:], trouble)
        for entry in _entries(folder, trouble):
            if not entry.name.startswith("."):
                if _is_folder(entry, trouble):
                    yield from _expanded(entry.path, names, trouble)
                elif len(names) == 1:
                    yield entry.path
    elif glob.has_magic(names[0]):
        for entry in _entries(folder, trouble):
            is_hidden = entry.name.startswith(".") and not names[0].startswith(".")
            if not is_hidden and fnmatch.fnmatchcase(entry.name, names[0]):
                yield from _expanded(entry.path, names[1:], trouble)
    elif (path := os.path.join(folder, names[0])) and _is_there(path, trouble):
        yield from _expanded(path, names[1:], trouble)


def _files_below(directory: str, trouble: Trouble) -> Iterator[str]:
    """Links to directories are not followed."""
    for entry in _entries(directory, trouble):
        if entry.name.startswith((".", "_")):
            continue
        if not _is_folder(entry, trouble):
            yield entry.path
        elif not entry.is_symlink():
            yield from _files_below(entry.path, trouble)


def _entries(folder: str, trouble: Trouble) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except _NOT_THERE:
        return []
    except OSError as error:
        trouble(error)
        return []


def _is_folder(entry: os.DirEntry[str], trouble: Trouble) -> bool:
    """As `_is_directory`; seldom needs a look of its own."""
    try:
        return entry.is_dir()
    except OSError as error:
        trouble(error)
        return False


def _is_directory(path: str, trouble: Trouble) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except _NOT_THERE:
        return False
    except OSError as error:
        trouble(error)
        return False


def _is_there(path: str, trouble: Trouble) -> bool:
    try:
        os.lstat(path)
    except _NOT_THERE:
        return False
    except OSError as error:
        trouble(error)
        return False
    return True
