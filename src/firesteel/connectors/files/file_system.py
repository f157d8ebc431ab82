"""File systems: what sources need of them (`list_files`, `open_input`) and what the file sink needs (`FileSystem`).

The sink needs names, appending, and ways to make both survive a power loss.

Two things have to be made durable one by one, and neither implies the other: the bytes of a file (`OpenFile.sync`)
and the names in a folder (`FileSystem.sync_folder`), which are changed by creating, renaming and removing. What was
not synced may be there after a crash or not, each change by itself.

A question is answered by "it is not there" only when the system says so. Whatever else goes wrong raises.

An object store has neither: an object is there when it is complete, and for ever. But it cannot be appended to, and to rename it
is to copy and then to remove it; `FileSystem.resumes` is False there.
"""

from __future__ import annotations

import fcntl
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from firesteel.common._folder_sync import sync_folder
from firesteel.common._override import override
from firesteel.connectors.files.paths import (
    FoundFile,
    Trouble,
    find_files,
    is_uri,
    raise_trouble,
    stat_files,
)

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What is under a name; those with the same ``identity`` are the same file."""

    size: int
    identity: tuple[int, int]


class OpenFile(ABC):
    """A file that can be appended to."""

    @abstractmethod
    def lock(self) -> bool:
        """Keep all others from locking it until it is closed; False when somebody else has locked it."""

    @abstractmethod
    def size(self) -> int:
        """How many bytes the file has, with all that was appended."""

    @abstractmethod
    def append(self, data: bytes | memoryview) -> int:
        """Write at the end; how much was written, at least one byte."""

    @abstractmethod
    def read(self, size: int, position: int) -> bytes:
        """At most ``size`` bytes from a position on."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Forget everything behind a position."""

    @abstractmethod
    def sync(self) -> None:
        """Return when everything that was written will survive; of the file's name that says nothing."""

    @abstractmethod
    def close(self) -> None:
        """Give it back."""


class FileSystem(ABC):
    """Absolute paths; errors are `OSError`, as those of the operating system."""

    #: Whether a file that is there can be opened again and appended to, and is given another name in one step. If not, there
    #: are no folders to be made, and `OpenFile.sync` is the end of a file: it appears, and nothing more can be written.
    resumes = True
    #: How many requests are worth while at the same time: with a store most of the time is waiting.
    requests_at_once = 1

    def for_each(self, act: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do something with many files, several at the same time where that helps; the results in order."""
        threads = min(self.requests_at_once, len(items))
        if threads < 2:
            return [act(item) for item in items]
        with ThreadPoolExecutor(threads, "firesteel-files") as pool:
            return list(pool.map(act, items))

    def check_base(self, base_path: str) -> None:
        """Raise when nothing can be written below a path, as far as that is known before."""

    def open_input(self, path: str) -> BinaryIO:
        """Open a file that must exist, to read from it."""
        return io.BytesIO(self.read(path))

    def replace(self, path: str, content: bytes) -> None:
        """Put a small file in place of another, or of nothing, in one step; it survives when this returns."""
        temporary = f"{path}.new"
        file = self.create(temporary)
        try:
            data = memoryview(content)
            while data:
                data = data[file.append(data) :]
            file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_folder(os.path.dirname(path))

    @abstractmethod
    def create(self, path: str) -> OpenFile:
        """Make a file that must not exist, in a folder that must."""

    @abstractmethod
    def open(self, path: str) -> OpenFile:
        """Open a file that must exist."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """All of a file that must exist."""

    @abstractmethod
    def status_of(self, path: str) -> FileStatus | None:
        """What is there; None when there is nothing."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """What a folder holds; nothing when there is no folder."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Give a file another name in the same folder, in one step; what had that name before is gone.

        In an object store there may be a time, or an end, in which it has both names.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file."""

    @abstractmethod
    def make_folder(self, path: str) -> None:
        """Make one folder; fine when there is one."""

    @abstractmethod
    def sync_folder(self, path: str) -> None:
        """Return when the names in a folder will survive."""


class LocalFile(OpenFile):
    """A file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @override
    def lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @override
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    @override
    def append(self, data: bytes | memoryview) -> int:
        """Hand over to the system what it accepts."""
        return os.write(self._descriptor, data)

    @override
    def read(self, size: int, position: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    @override
    def truncate(self, size: int) -> None:
        os.truncate(self._descriptor, size)

    @override
    def sync(self) -> None:
        os.fsync(self._descriptor)

    @override
    def close(self) -> None:
        os.close(self._descriptor)


class LocalFileSystem(FileSystem):
    """The operating system's; all that is mounted."""

    @override
    def create(self, path: str) -> OpenFile:
        """Readable for everybody whom the process's umask does not shut out."""
        return LocalFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644))

    @override
    def open(self, path: str) -> OpenFile:
        return LocalFile(os.open(path, os.O_RDWR | os.O_APPEND))

    @override
    def open_input(self, path: str) -> BinaryIO:
        return open(path, "rb")

    @override
    def read(self, path: str) -> bytes:
        """From the beginning to the end."""
        with open(path, "rb") as file:
            return file.read()

    @override
    def status_of(self, path: str) -> FileStatus | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStatus(status.st_size, (status.st_dev, status.st_ino))

    @override
    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []

    @override
    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    @override
    def remove(self, path: str) -> None:
        os.unlink(path)

    @override
    def make_folder(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    @override
    def sync_folder(self, path: str) -> None:
        sync_folder(path)


# Reading --------------------------------------------------------------------------------------------------


def list_files(path: str, trouble: Trouble = raise_trouble) -> list[FoundFile]:
    """The files that a path means, with sizes and times, oldest first; a path as `paths.place` makes it.

    `FileNotFoundError` when there is nothing. ``trouble`` is told of looks that do not work, and may raise.
    """
    if not is_uri(path):
        return stat_files(find_files(path, trouble), trouble)
    from firesteel.connectors.files import arrow_files

    return sorted(arrow_files.find(path, trouble), key=lambda file: (file.modified, file.path))


def open_input(path: str) -> BinaryIO:
    """A file to read from, at any position, wherever it is; buffered, with ``read``, ``readline`` and ``seek``."""
    if not is_uri(path):
        return open(path, "rb")
    from firesteel.connectors.files import arrow_files

    return arrow_files.open_input(path)


#: The operating system's.
LOCAL = LocalFileSystem()


def file_system_of(path: str) -> FileSystem:
    """The file system that a path is in."""
    if not is_uri(path):
        return LOCAL
    from firesteel.connectors.files.arrow_file_system import STORES

    return STORES


def make_folders(files: FileSystem, path: str) -> None:
    """Make a folder and those above it that are missing, each of them durable before anything is put into it.

    A folder that is there need not be durable: who made it may have been killed before he had synced. Those above
    it are, because he did not make it before.
    """
    if not files.resumes:
        return
    missing = []
    while files.status_of(path) is None:
        missing.append(path)
        path = os.path.dirname(path)
    files.sync_folder(os.path.dirname(path))
    for folder in reversed(missing):
        files.make_folder(folder)
        files.sync_folder(os.path.dirname(folder))
