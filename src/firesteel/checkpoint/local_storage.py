"""Checkpoint files on a local (or mounted) file system, through the operating system, forced to disk."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from firesteel.common.errors import FileMissingError, StorageError

__all__ = ["LocalStorage"]

_REMOVALS = 10  # attempts at removing a directory that others change meanwhile


class LocalStorage:
    """See `firesteel.checkpoint.storage.Storage`; takes a path or a ``file`` URI.

    ``forced``: whether a file that was closed survives a crash of the machine.
    """

    def __init__(self, uri: str, *, forced: bool = True) -> None:
        self._root = os.path.abspath(_local_path(uri))
        self._forced = forced

    @property
    def uri(self) -> str:
        """The absolute path."""
        return self._root

    def at(self, directory: str) -> LocalStorage:
        """See `Storage.at`."""
        return LocalStorage(self._full(directory), forced=self._forced)

    def create(self, path: str) -> LocalOutput:
        """See `Storage.create`."""
        full = self._full(path)
        with _explained(full):
            os.makedirs(os.path.dirname(full), exist_ok=True)
            return LocalOutput(full, self._forced)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        full = self._full(path)
        with _explained(full), open(full, "rb", buffering=0) as file:
            file.seek(offset)
            return _read_fully(file, length)

    def publish(self, path: str, content: bytes) -> None:
        """See `Storage.publish`."""
        full = self._full(path)
        temporary = f"{full}.{uuid.uuid4().hex}.tmp"
        output = self.create(os.path.relpath(temporary, self._root))
        try:
            output.write(content)
            output.close(sync_directory=False)
            with _explained(full):
                _rename_to_new_name(temporary, full)
                _sync_directory(os.path.dirname(full))
        finally:
            output.abort()
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        return os.path.isfile(self._full(path))

    def size(self, path: str) -> int | None:
        """See `Storage.size`."""
        full = self._full(path)
        return os.path.getsize(full) if os.path.isfile(full) else None

    def list(self, directory: str = "") -> list[str]:
        """See `Storage.list`."""
        full = self._full(directory)
        with _explained(full):
            return sorted(os.listdir(full)) if os.path.isdir(full) else []

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        full = self._full(path)
        with _explained(full), contextlib.suppress(FileNotFoundError):
            os.unlink(full)

    def delete_directory(self, directory: str = "") -> None:
        """See `Storage.delete_directory`."""
        full = self._full(directory)
        with _explained(full):
            _remove_tree(full)

    def make_directory(self, directory: str = "") -> None:
        """See `Storage.make_directory`."""
        full = self._full(directory)
        with _explained(full):
            os.makedirs(full, exist_ok=True)

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root


class LocalOutput:
    """A file being written; see `firesteel.checkpoint.storage.Output`."""

    def __init__(self, full: str, forced: bool = True) -> None:
        self._path = full
        self._forced = forced
        self._file: BinaryIO | None = open(full, "xb")  # noqa: SIM115 - closed by close or abort

    def write(self, data: bytes) -> None:
        """See `Output.write`."""
        assert self._file is not None, "written after close"
        with _explained(self._path):
            self._file.write(data)

    def close(self, sync_directory: bool = True) -> None:
        """See `Output.close`; without ``sync_directory`` the name may get lost in a crash, for a rename follows."""
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

    def abort(self) -> None:
        """See `Output.abort`."""
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
            if not os.path.lexists(full):
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
    """Rename, atomically refusing to replace: a hard link fails when its name is taken."""
    try:
        os.link(temporary, full)
    except OSError:  # taken, or a file system without hard links
        if os.path.exists(full):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), full) from None
        os.rename(temporary, full)


def _sync_directory(directory: str) -> None:
    """Make the names in a directory durable; not every file system lets one do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _explained(full: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissingError(f"{full} does not exist") from error
    except FileExistsError as error:
        taken = error.filename or full
        raise StorageError(f"{taken} exists already{_what_is_there(taken)}") from error
    except NotADirectoryError as error:
        raise StorageError(f"{full}: a file is in the place of one of its directories") from error
    except OSError as error:
        raise StorageError(f"{full}: {error.strerror or error}") from error


def _what_is_there(path: str) -> str:
    return " as a file" if os.path.isfile(path) else ""
