"""The file sink's file system in stores of ``pyarrow.fs``.

In an object store a file appears, whole, when it is closed, and is durable then. It is written under its hidden name. To finish it
is to copy it, by the store itself, to its final name, and to remove the hidden one. Who is interrupted between the two has both
files, of the same length; no other file ever has these names (`part_file`), so the next one knows that the copy is done.
"""

from __future__ import annotations

import contextlib
import errno
from typing import Any, BinaryIO

from firesteel.common._override import override
from firesteel.connectors.files import arrow_files
from firesteel.connectors.files.arrow_files import attempt, info_of, infos_below, is_object_store, located
from firesteel.connectors.files.file_system import FileStatus, FileSystem, OpenFile
from firesteel.connectors.files.paths import parent


class ArrowFile(OpenFile):
    """An object being written; it is there when it was synced."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._files, self._path = located(uri)
        if not is_object_store(uri):
            folder = located(parent(uri))[1]
            attempt(uri, lambda: self._files.create_dir(folder, recursive=True))
        self._stream: Any = attempt(uri, lambda: self._files.open_output_stream(self._path))
        self._size = 0

    @override
    def lock(self) -> bool:
        """Nobody else has its name."""
        return True

    @override
    def size(self) -> int:
        return self._size

    @override
    def append(self, data: bytes | memoryview) -> int:
        attempt(self._uri, lambda: self._stream.write(data))
        self._size += len(data)
        return len(data)

    @override
    def read(self, size: int, position: int) -> bytes:
        raise OSError(errno.ENOTSUP, "a file of a store cannot be read before it is complete", self._uri)

    @override
    def truncate(self, size: int) -> None:
        raise OSError(errno.ENOTSUP, "a file of a store cannot be shortened", self._uri)

    @override
    def sync(self) -> None:
        """Complete the file."""
        stream, self._stream = self._stream, None
        if stream is not None:
            attempt(self._uri, stream.close)

    @override
    def close(self) -> None:
        """What was not completed is of no use: closing is the only way to be rid of it, and then it is removed.

        If that does not work, it stays, hidden as it is.
        """
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                attempt(self._uri, stream.close)
                attempt(self._uri, lambda: self._files.delete_file(self._path))


class ArrowFileSystem(FileSystem):
    """All stores that ``pyarrow.fs`` knows, by URI."""

    resumes = False
    requests_at_once = 16

    @override
    def check_base(self, base_path: str) -> None:
        """Whether there is the bucket."""
        arrow_files.check_bucket(base_path, "write to")

    @override
    def create(self, path: str) -> OpenFile:
        """Names are unique, so nobody looks whether there is one: that would be one more request."""
        return ArrowFile(path)

    @override
    def open(self, path: str) -> OpenFile:
        raise OSError(errno.ENOTSUP, "a file of a store cannot be appended to", path)

    @override
    def open_input(self, path: str) -> BinaryIO:
        return arrow_files.open_input(path)

    @override
    def read(self, path: str) -> bytes:
        with arrow_files.open_input(path) as file:
            return file.read()

    @override
    def status_of(self, path: str) -> FileStatus | None:
        """Objects have no identity but their name and content: those of the same length, of a part file, are the same."""
        info = info_of(path)
        if info.type.name == "NotFound":
            return None
        return FileStatus(int(info.size) if info.is_file else 0, (0, 0))

    @override
    def names(self, folder: str) -> list[str]:
        return [info.base_name for info in infos_below(folder)]

    @override
    def rename(self, old: str, new: str) -> None:
        """Copy, then remove; in file systems that can rename, do that."""
        files, source = located(old)
        _, target = located(new)
        if not is_object_store(old):
            attempt(old, lambda: files.move(source, target))
            return
        self._copy(old, new)
        attempt(old, lambda: files.delete_file(source))

    def _copy(self, old: str, new: str) -> None:
        files, source = located(old)
        _, target = located(new)
        try:
            attempt(old, lambda: files.copy_file(source, target))
        except OSError:
            if self.status_of(old) is None:  # stores say so in different ways
                raise FileNotFoundError(errno.ENOENT, "there is no such file", old) from None
            raise

    @override
    def replace(self, path: str, content: bytes) -> None:
        """To write an object is to replace the one that was there, in one step."""
        if not is_object_store(path):
            super().replace(path, content)
            return
        file = ArrowFile(path)
        file.append(content)
        file.sync()

    @override
    def remove(self, path: str) -> None:
        files, inner = located(path)
        attempt(path, lambda: files.delete_file(inner))

    @override
    def make_folder(self, path: str) -> None:
        """There are none, or they come with the files."""

    @override
    def sync_folder(self, path: str) -> None:
        """Names survive once the store has answered."""


#: All stores.
STORES = ArrowFileSystem()
