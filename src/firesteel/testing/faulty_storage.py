"""Checkpoint storage that fails when a simulation wants it to: before a step, after it, or in the middle of it."""

from __future__ import annotations

from collections.abc import Callable

from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.storage import Output, Storage
from firesteel.common.errors import StorageError

__all__ = ["FaultyStorage", "StorageFault"]

#: Asked before and after every durable step, as in ``fault("close", "after")``; ``torn`` is asked only for writing.
StorageFault = Callable[[str, str], bool]


class FaultyStorage:
    """See `firesteel.checkpoint.storage.Storage`; the files are those of a `MemoryStorage`."""

    def __init__(self, inner: MemoryStorage, fault: StorageFault) -> None:
        self._inner = inner
        self._fault = fault

    @property
    def uri(self) -> str:
        """See `Storage.uri`."""
        return self._inner.uri

    def at(self, directory: str) -> Storage:
        """See `Storage.at`."""
        return FaultyStorage(self._inner.at(directory), self._fault)

    def create(self, path: str) -> Output:
        """See `Storage.create`."""
        self._maybe("create", "before")
        return _FaultyOutput(self._inner, path, self._fault)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        self._maybe("read", "before")
        return self._inner.read(path, offset, length)

    def publish(self, path: str, content: bytes) -> None:
        """See `Storage.publish`; never torn, because that is what publishing promises."""
        self._maybe("publish", "before")
        self._inner.publish(path, content)
        self._maybe("publish", "after")

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        return self._inner.exists(path)

    def size(self, path: str) -> int | None:
        """See `Storage.size`."""
        return self._inner.size(path)

    def list(self, directory: str = "") -> list[str]:
        """See `Storage.list`."""
        return self._inner.list(directory)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        self._maybe("delete", "before")
        self._inner.delete(path)
        self._maybe("delete", "after")

    def delete_directory(self, directory: str = "") -> None:
        """See `Storage.delete_directory`."""
        self._maybe("delete", "before")
        self._inner.delete_directory(directory)
        self._maybe("delete", "after")

    def make_directory(self, directory: str = "") -> None:
        """See `Storage.make_directory`."""
        self._inner.make_directory(directory)

    def _maybe(self, step: str, when: str) -> None:
        if self._fault(step, when):
            raise StorageError(f"simulated: the storage failed {when} {step}")


class _FaultyOutput:
    """A file of which a crash may leave a part behind."""

    def __init__(self, storage: MemoryStorage, path: str, fault: StorageFault) -> None:
        self._storage = storage
        self._path = path
        self._fault = fault
        self._data = b""

    def write(self, data: bytes) -> None:
        self._data += data

    def close(self) -> None:
        if self._fault("close", "torn"):
            self._storage.publish(self._path, self._data[: len(self._data) // 2])
            raise StorageError("simulated: the storage failed while a file was written")
        if self._fault("close", "before"):
            raise StorageError("simulated: the storage failed before a file was complete")
        self._storage.publish(self._path, self._data)
        if self._fault("close", "after"):
            raise StorageError("simulated: the storage failed after a file was complete")

    def abort(self) -> None:
        self._storage.delete(self._path)
