"""Where checkpoints are kept: files below one directory, on this machine's disks or in an object store.

`open_storage` takes a path or a URI. Local directories go through the operating system, because only there can
a file be forced to disk; every other scheme (``s3``, ``gs``, ``hdfs``, ``abfs``) goes through ``pyarrow.fs``, by the
same code for all. ``memory://name`` is kept by this process and serves tests.

The contract of `Storage` holds for all of them (tests/unit/checkpoint/test_storage.py). Paths are relative to the
directory, with ``/`` between their names. Two promises carry everything else: a file is complete once its
`OutputFile` was closed, and `Storage.publish` makes a file appear whole or not at all, never in place of another.
Object stores cannot refuse the second of two writers that publish the same name in the same instant; local
directories and HDFS can.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from firesteel.checkpoint.local_storage import LocalStorage
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.object_stores import (
    OBJECT_STORES,
    open_file_system,
    reason_of,
    scheme_of,
    without_secrets,
)
from firesteel.checkpoint.storage_protocol import OutputFile, Storage
from firesteel.common._override import override
from firesteel.common.errors import FileMissingError, StorageError

__all__ = [
    "ArrowStorage",
    "MemoryStorage",
    "OutputFile",
    "Storage",
    "absolute",
    "check_writable",
    "join_uri",
    "open_storage",
    "parent_uri",
    "shown",
]

_T = TypeVar("_T")


def open_storage(uri: str) -> Storage:
    """The storage of a directory, given as path or URI; the directory need not exist yet."""
    scheme = scheme_of(uri)
    if scheme in ("", "file"):
        return LocalStorage(uri)
    if scheme == "memory":
        return MemoryStorage.shared(uri)
    return _open_arrow(uri)


def check_writable(uri: str, purpose: str = "checkpoint directory", option: str = "") -> None:
    """Make the directory and write to it, or say at once why that is not possible and what to do.

    ``purpose`` and ``option`` name what the directory is for and the setting that chose it.
    """
    probe = f".writable-{uuid.uuid4().hex}"
    try:
        storage = open_storage(uri)
        storage.make_directory()
        storage.publish(probe, b"firesteel")
        storage.delete(probe)
    except StorageError as error:
        setting = f" with {option}" if option else ""
        raise StorageError(
            f"the {purpose} {shown(uri)} cannot be written: {error}; give the user of this process permission to "
            f"write there, or choose another directory{setting}"
        ) from error


def join_uri(uri: str, *names: str) -> str:
    """The URI or path of something below a directory; a query at the end of a URI stays at the end.

    >>> join_uri("/data/checkpoints/", "chk-1", "_metadata")
    '/data/checkpoints/chk-1/_metadata'
    >>> join_uri("s3://bucket/a?region=x", "b")
    's3://bucket/a/b?region=x'
    """
    if not scheme_of(uri):
        return "/".join([uri.rstrip("/") or "", *names])
    split = urlsplit(uri)
    return urlunsplit(split._replace(path="/".join([split.path.rstrip("/"), *names])))


def parent_uri(uri: str) -> str:
    """The directory that something lies in.

    >>> parent_uri("/data/checkpoints/chk-1"), parent_uri("s3://bucket/a/b?region=x")
    ('/data/checkpoints', 's3://bucket/a?region=x')
    """
    if not scheme_of(uri):
        return uri.rstrip("/").rpartition("/")[0] or "/"
    split = urlsplit(uri)
    return urlunsplit(split._replace(path=split.path.rstrip("/").rpartition("/")[0]))


def shown(uri: str) -> str:
    """A URI for people: without the user and password that it may contain.

    >>> shown("s3://key:secret@bucket/path")
    's3://bucket/path'
    """
    return without_secrets(uri)


def _open_arrow(uri: str) -> ArrowStorage:
    file_system, path = open_file_system(uri)
    return ArrowStorage(file_system, path, uri)


class ArrowStorage(Storage):
    """A directory in a file system of ``pyarrow.fs``."""

    def __init__(self, file_system: Any, path: str, uri: str) -> None:
        self._fs = file_system
        self._path = path.rstrip("/")
        self._uri = uri
        self._renames = file_system.type_name not in OBJECT_STORES

    @property
    @override
    def uri(self) -> str:
        return self._uri

    @override
    def at(self, directory: str) -> ArrowStorage:
        return ArrowStorage(self._fs, self._full(directory), join_uri(self._uri, directory))

    @override
    def create(self, path: str) -> OutputFile:
        if self.exists(path):
            raise StorageError(f"{self._shown(path)} exists already")
        full = self._full(path)
        self._try(path, lambda: self._fs.create_dir(full.rpartition("/")[0], recursive=True))
        stream = self._try(path, lambda: self._fs.open_output_stream(full))
        return _ArrowOutput(self, path, stream)

    @override
    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._try(path, lambda: self._read(self._full(path), offset, length))

    @override
    def publish(self, path: str, content: bytes) -> None:
        temporary = f"{path}.{uuid.uuid4().hex}.tmp" if self._renames else path
        output = self.create(temporary)
        try:
            output.write(content)
        except StorageError:
            output.abort()
            raise
        output.close()
        if self._renames:
            self._rename(temporary, path)

    @override
    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    @override
    def size(self, path: str) -> int | None:
        info = self._info(path)
        return int(info.size) if info.is_file else None

    @override
    def list(self, directory: str = "") -> list[str]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(self._full(directory), allow_not_found=True)
        infos = self._try(directory, lambda: self._fs.get_file_info(selector))
        return sorted(info.base_name for info in infos)

    @override
    def directory_id(self) -> str | None:
        """Nothing is mounted here."""
        return ""

    @override
    def sync(self, directory: str = "") -> None:
        """Such stores have done it when they answer."""

    @override
    def delete(self, path: str) -> None:
        if self.exists(path):
            self._try(path, lambda: self._fs.delete_file(self._full(path)))

    @override
    def delete_directory(self, directory: str = "") -> None:
        info = self._info(directory)
        if not info.is_file and info.type.name != "NotFound":
            self._try(directory, lambda: self._fs.delete_dir(self._full(directory)))

    @override
    def make_directory(self, directory: str = "") -> None:
        self._try(directory, lambda: self._fs.create_dir(self._full(directory), recursive=True))

    def _info(self, path: str) -> Any:
        info = self._try(path, lambda: self._fs.get_file_info(self._full(path)))
        if info.type.name == "Unknown":
            raise StorageError(f"{self._shown(path)}: the store does not say whether there is such a file")
        return info

    def _read(self, full: str, offset: int, length: int | None) -> bytes:
        with self._fs.open_input_file(full) as file:
            size = file.size()
            count = max(0, size - offset if length is None else min(length, size - offset))
            return bytes(file.read_at(count, offset)) if count else b""

    def _rename(self, temporary: str, path: str) -> None:
        try:
            if self.exists(path):
                raise StorageError(f"{self._shown(path)} exists already")
            self._try(path, lambda: self._fs.move(self._full(temporary), self._full(path)))
        except StorageError:
            self.delete(temporary)
            raise

    def _full(self, path: str) -> str:
        return f"{self._path}/{path}" if path else self._path

    def _shown(self, path: str) -> str:
        return shown(join_uri(self._uri, path) if path else self._uri)

    def _try(self, path: str, action: Callable[[], _T]) -> _T:
        try:
            return action()
        except FileNotFoundError as error:
            raise FileMissingError(f"{self._shown(path)} does not exist") from error
        except Exception as error:  # clients of object stores raise all kinds of errors
            raise StorageError(f"{self._shown(path)}: {reason_of(error)}") from error


class _ArrowOutput(OutputFile):
    """A file being written through ``pyarrow.fs``."""

    def __init__(self, storage: ArrowStorage, path: str, stream: Any) -> None:
        self._storage = storage
        self._path = path
        self._stream: Any = stream

    @override
    def write(self, data: bytes) -> None:
        self._storage._try(self._path, lambda: self._stream.write(data))

    @override
    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._storage._try(self._path, stream.close)

    @override
    def abort(self) -> None:
        if self._stream is not None:
            self.close()
            self._storage.delete(self._path)


def absolute(uri: str) -> str:
    """A directory in a form that means the same in every process: relative paths become absolute ones."""
    return uri if scheme_of(uri) not in ("", "file") else os.path.abspath(LocalStorage(uri).uri)
