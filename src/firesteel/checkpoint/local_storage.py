"""Checkpoint files on a local (or mounted) file system, through the operating system, forced to disk.

**Who makes what durable.** A file needs three things on disk: its bytes, its name, and the names of the directories that
it lies in. `LocalOutput.close` forces the bytes and the name. Who makes a directory forces its name. But a
directory that is there already may have been made by somebody who died before that, so `LocalStorage.publish` and
`LocalStorage.sync` force the names of all directories up to and including that of the storage: what a published file
refers to lies below the same directory, and is on disk when it appears (tests/properties/test_power_loss.py).

**What a look may say.** Only "there is no such file" means no. Whatever else keeps the system from answering - no
permission, a device error, a stale handle of a network file system - is a `StorageError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar
from urllib.parse import unquote, urlsplit

from firesteel.checkpoint.storage_protocol import OutputFile, Storage
from firesteel.common._override import override
from firesteel.common._private_files import create_private, make_private_directory
from firesteel.common.errors import FileMissingError, StorageError

__all__ = ["LocalStorage"]

_T = TypeVar("_T")

_REMOVALS = 10  # attempts at removing a directory that others change meanwhile
#: What file systems say that do not let one force a directory to disk, or have no hard links.
_CANNOT = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_CANNOT_LINK = _CANNOT | {errno.EPERM, errno.EMLINK}


class LocalStorage(Storage):
    """A directory that the operating system knows, given as a path or a ``file`` URI.

    ``forced``: whether a file that was closed survives a crash of the machine.
    """

    def __init__(self, uri: str, *, forced: bool = True) -> None:
        self._root = os.path.abspath(_local_path(uri))
        self._forced = forced

    @property
    @override
    def uri(self) -> str:
        """The absolute path."""
        return self._root

    @override
    def at(self, directory: str) -> LocalStorage:
        return LocalStorage(self._full(directory), forced=self._forced)

    @override
    def create(self, path: str) -> LocalOutput:
        full = self._full(path)
        with _explained(full):
            _make_directories(os.path.dirname(full), self._forced)
            return LocalOutput(full, self._forced)

    @override
    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        full = self._full(path)
        with _explained(full), open(full, "rb", buffering=0) as file:
            file.seek(offset)
            return _read_fully(file, length)

    @override
    def publish(self, path: str, content: bytes) -> None:
        full = self._full(path)
        temporary = f"{full}.{uuid.uuid4().hex}.tmp"
        output = self.create(os.path.relpath(temporary, self._root))
        try:
            output.write(content)
            output.close(sync_directory=False)
            with _explained(full):
                _rename_to_new_name(temporary, full)
                self._sync_names(os.path.dirname(full))
        finally:
            output.abort()
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    @override
    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    @override
    def size(self, path: str) -> int | None:
        full = self._full(path)
        with _explained(full):
            info = self._look(lambda: os.stat(full))
        return info.st_size if info is not None and stat.S_ISREG(info.st_mode) else None

    @override
    def list(self, directory: str = "") -> list[str]:
        full = self._full(directory)
        with _explained(full):
            return sorted(self._look(lambda: os.listdir(full)) or ())

    @override
    def directory_id(self) -> str | None:
        """The device and the number of the directory."""
        with _explained(self._root):
            try:
                info = os.stat(self._root)
            except FileNotFoundError:
                return None
        return f"{info.st_dev}:{info.st_ino}"

    @override
    def sync(self, directory: str = "") -> None:
        full = self._full(directory)
        with _explained(full):
            self._sync_names(full)

    @override
    def delete(self, path: str) -> None:
        full = self._full(path)
        with _explained(full), contextlib.suppress(FileNotFoundError):
            os.unlink(full)

    @override
    def delete_directory(self, directory: str = "") -> None:
        full = self._full(directory)
        with _explained(full):
            _remove_tree(full)

    @override
    def make_directory(self, directory: str = "") -> None:
        full = self._full(directory)
        with _explained(full):
            _make_directories(full, self._forced)

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root

    def _look(self, look: Callable[[], _T]) -> _T | None:
        """The answer of the file system, None if what is looked for does not exist."""
        try:
            return look()
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            # Nothing lies below a file; but then the storage itself must be a directory.
            if stat.S_ISDIR(os.stat(self._root).st_mode):
                return None
            raise

    def _sync_names(self, directory: str) -> None:
        """Make the names in a directory durable, and those of the directories up to and including the storage's own."""
        if not self._forced:
            return
        _sync_directory(directory)
        while directory != self._root and directory != os.path.dirname(directory):
            directory = os.path.dirname(directory)
            _sync_directory(directory)
        # Where others than this user decide what the storage's directory is called, it is not for us to force.
        with contextlib.suppress(PermissionError):
            _sync_directory(os.path.dirname(self._root))


class LocalOutput(OutputFile):
    """A file being written, which has its name from the beginning; an aborted one is removed."""

    def __init__(self, full: str, forced: bool = True) -> None:
        self._path = full
        self._forced = forced
        self._file: BinaryIO | None = _new_file(full)  # closed by close or abort

    @override
    def write(self, data: bytes) -> None:
        assert self._file is not None, "written after close"
        with _explained(self._path):
            self._file.write(data)

    @override
    def close(self, sync_directory: bool = True) -> None:
        """Without ``sync_directory`` the name may get lost in a crash, for a rename follows."""
        if self._file is None:
            return
        with _explained(self._path):
            self._file.flush()
            if self._forced:
                os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            if sync_directory and self._forced:
                _sync_directory(os.path.dirname(self._path))

    @override
    def abort(self) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):  # closing flushes, which may fail for the reason of the abort
            self._file.close()
        self._file = None
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def _local_path(uri: str) -> str:
    """The path of a ``file`` URI; anything else is a path already."""
    if not uri.lower().startswith("file:/"):
        return uri
    split = urlsplit(uri)
    if split.netloc not in ("", "localhost"):
        raise StorageError(
            f"{uri} names a file on the machine {split.netloc!r}; write file:///path for a directory of this machine"
        )
    return unquote(split.path)


def _remove_tree(full: str) -> None:
    """Remove a directory into which a task of an earlier attempt may still write, and from which others may delete.

    What keeps coming is left lying, as it would be when it came a moment later.
    """
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(full)
            return
        except FileNotFoundError:  # all of it, or something in it that was there a moment ago
            try:
                os.lstat(full)
            except FileNotFoundError:
                return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _read_fully(file: BinaryIO, length: int | None) -> bytes:
    """One call of read may return less than there is."""
    data = file.read() if length is None else file.read(length)
    while length is not None and len(data) < length and (more := file.read(length - len(data))):
        data += more
    return data


def _rename_to_new_name(temporary: str, full: str) -> None:
    """Rename, atomically refusing to replace: a hard link fails when its name exists."""
    try:
        os.link(temporary, full)
    except OSError as error:
        if isinstance(error, FileExistsError) or error.errno in _CANNOT_LINK:
            _refuse_existing(full)
        if error.errno not in _CANNOT_LINK:
            raise
        os.rename(temporary, full)


def _refuse_existing(full: str) -> None:
    try:
        os.lstat(full)
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), full)


def _make_directories(full: str, forced: bool) -> None:
    """Make a directory and those above it that are missing, and make their names durable, from the top down."""
    try:
        is_new = _make_directory(full)
    except FileNotFoundError:
        if (parent := os.path.dirname(full)) == full:
            raise
        _make_directories(parent, forced)
        is_new = _make_directory(full)
    if is_new and forced:
        _sync_directory(os.path.dirname(full))


def _new_file(full: str) -> BinaryIO:
    return create_private(full)


def _new_directory(full: str) -> None:
    make_private_directory(full)


def _make_directory(full: str) -> bool:
    """Whether it is new."""
    try:
        _new_directory(full)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(full).st_mode):
            raise
        return False
    return True


def _sync_directory(directory: str) -> None:
    """Make the names in a directory durable; not every file system lets one do that."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(full: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissingError(f"{full} does not exist") from error
    except FileExistsError as error:
        existing = error.filename or full
        raise StorageError(f"{existing} exists already{_what_is_there(existing)}") from error
    except NotADirectoryError as error:
        raise StorageError(f"{full}: a file is in the place of one of its directories") from error
    except OSError as error:
        raise StorageError(f"{full}: {error.strerror or error}") from error


def _what_is_there(path: str) -> str:
    return " as a file" if os.path.isfile(path) else ""
