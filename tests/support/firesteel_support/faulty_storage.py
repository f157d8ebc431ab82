"""Checkpoint storage that fails when a simulation wants it to: before a step, after it, or in the middle of it.

All storages of a simulated job share one `SimulatedVolume`, to which more can happen than a failing step:

- it is **away** for some operations: every file seems not to exist, and what is written is not there later, as with
  the empty directory that a volume is mounted on;
- the machine loses its **power**: what was not forced to disk may be lost, any part of it. Closing and publishing force
  a file to disk, unless they fail; deleting does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.storage import OutputFile, Storage
from firesteel.common.errors import FileMissingError, StorageError

__all__ = ["FaultyStorage", "SimulatedVolume", "StorageFault"]

#: Asked before and after every durable step, as in ``fault("close", "after")``; ``torn`` is asked only for writing, ``look``
#: before a look, ``lie`` before a list, and ``unforced`` when a step has failed after it took effect.
StorageFault = Callable[[str, str], bool]


class SimulatedVolume:
    """The files of a `MemoryStorage`, and what would be lost of them."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        #: How many operations will find that it is not there.
        self.operations_away = 0
        #: What a power loss may bring back: for each path that was changed and not forced to disk, what it was before.
        self._unforced: dict[str, bytes | None] = {}
        self._elsewhere: dict[str, bytes] = {}

    def take_away(self, operations: int) -> None:
        """From now on it is not there."""
        self.operations_away = operations
        self._elsewhere = {}

    def operate(self) -> dict[str, bytes] | None:
        """One operation on it takes place; if it is away, on the files given here."""
        if not self.operations_away:
            return None
        self.operations_away -= 1
        return self._elsewhere

    def changed(self, path: str, before: bytes | None) -> None:
        """A file was changed, and that is not on disk."""
        self._unforced.setdefault(path, before)

    def forced(self, directory: str) -> None:
        """The names in a directory are on disk."""
        for path in [path for path in self._unforced if path.rpartition("/")[0] == directory]:
            del self._unforced[path]

    def lose_power(self, rng: random.Random) -> None:
        """Lose any part of what is not on disk."""
        for path, before in self._unforced.items():
            if rng.random() < 0.5:
                continue
            if before is None:
                self.files.pop(path, None)
            else:
                self.files[path] = before
        self._unforced = {}


class FaultyStorage:
    """See `firesteel.checkpoint.storage.Storage`; the files are those of a `MemoryStorage`."""

    def __init__(
        self, inner: MemoryStorage, fault: StorageFault, volume: SimulatedVolume | None = None
    ) -> None:
        self._inner = inner
        self._fault = fault
        self._volume = SimulatedVolume(inner.files) if volume is None else volume

    @property
    def uri(self) -> str:
        """See `Storage.uri`."""
        return self._inner.uri

    def at(self, directory: str) -> Storage:
        """See `Storage.at`."""
        return FaultyStorage(self._inner.at(directory), self._fault, self._volume)

    def create(self, path: str) -> OutputFile:
        """See `Storage.create`."""
        self._maybe("create", "before")
        return _FaultyOutput(self, path, self._fault)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        self._maybe("read", "before")
        self._maybe("read", "look")
        target = self._target()
        try:
            return target.read(path, offset, length)
        except FileMissingError as error:
            if target is self._inner:
                raise
            raise FileMissingError(f"simulated: {error}") from error

    def publish(self, path: str, content: bytes) -> None:
        """See `Storage.publish`; never torn, because that is what publishing promises."""
        self._maybe("publish", "before")
        self.appear(path, content)
        self.complete("publish", path)

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        self._maybe("exists", "look")
        return self._target().exists(path)

    def size(self, path: str) -> int | None:
        """See `Storage.size`."""
        self._maybe("size", "look")
        return self._target().size(path)

    def list(self, directory: str = "") -> list[str]:
        """See `Storage.list`; it may lie."""
        self._maybe("list", "look")
        names = self._target().list(directory)
        return [] if self._fault("list", "lie") else names

    def directory_id(self) -> str | None:
        """See `Storage.directory_id`."""
        self._maybe("place", "look")
        return "volume" if self._target() is self._inner else "mount point"

    def sync(self, directory: str = "") -> None:
        """See `Storage.sync`."""
        self._maybe("sync", "before")
        if self._target() is self._inner:
            self._volume.forced(self._full(directory))

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        self._maybe("delete", "before")
        target = self._target()
        if target is self._inner:
            self._note_deletion(self._full(path))
        target.delete(path)
        self._maybe("delete", "after")

    def delete_directory(self, directory: str = "") -> None:
        """See `Storage.delete_directory`."""
        self._maybe("delete", "before")
        target = self._target()
        if target is self._inner:
            inside = f"{self._full(directory)}/"
            for path in [path for path in self._inner.files if path.startswith(inside)]:
                self._note_deletion(path)
        target.delete_directory(directory)
        self._maybe("delete", "after")

    def make_directory(self, directory: str = "") -> None:
        """See `Storage.make_directory`."""
        self._inner.make_directory(directory)

    def appear(self, path: str, content: bytes) -> None:
        """Let a file appear, which is not on disk yet."""
        target = self._target()
        target.publish(path, content)
        if target is self._inner:
            self._volume.changed(self._full(path), None)

    def complete(self, step: str, path: str) -> None:
        """Force a file to disk, or fail before or after that."""
        if self._fault(step, "unforced"):
            raise StorageError(f"simulated: the storage failed after {step}, before anything was on disk")
        self._volume.forced(self._full(path).rpartition("/")[0])
        self._maybe(step, "after")

    def _note_deletion(self, path: str) -> None:
        if path in self._inner.files:
            self._volume.changed(path, self._inner.files[path])

    def _target(self) -> MemoryStorage:
        elsewhere = self._volume.operate()
        if elsewhere is None:
            return self._inner
        return MemoryStorage(elsewhere, self._inner.directory, self._inner.uri)

    def _full(self, path: str) -> str:
        return f"{self._inner.directory}{path}".rstrip("/")

    def _maybe(self, step: str, when: str) -> None:
        if self._fault(step, when):
            raise StorageError(f"simulated: the storage failed {when} {step}")


class _FaultyOutput:
    """A file of which a crash may leave a part behind."""

    def __init__(self, storage: FaultyStorage, path: str, fault: StorageFault) -> None:
        self._storage = storage
        self._path = path
        self._fault = fault
        self._data = b""

    def write(self, data: bytes) -> None:
        self._data += data

    def close(self) -> None:
        if self._fault("close", "torn"):
            self._storage.appear(self._path, self._data[: len(self._data) // 2])
            raise StorageError("simulated: the storage failed while a file was written")
        if self._fault("close", "before"):
            raise StorageError("simulated: the storage failed before a file was complete")
        self._storage.appear(self._path, self._data)
        self._storage.complete("close", self._path)

    def abort(self) -> None:
        self._storage.delete(self._path)
