"""An object store in memory, as the file sink sees one: no folders, no appending, no renaming.

An object is there, whole and for ever, when its upload was completed; everybody sees that at once. To give an object another name
is to copy it and to remove the old one, two requests with room for a crash between them. A request may fail before it
was done, or after: whoever asked does not know which. An upload that nobody completes in order may still turn into an
object with what was sent so far, because clients complete it when they are collected.

>>> from random import Random
>>> files = SimulatedObjects(Random(1))
>>> file = files.create("/a/b")
>>> _ = file.append(b"some text")
>>> files.names("/a"), file.sync(), files.names("/a")
([], None, ['b'])
"""

from __future__ import annotations

import errno
import itertools
import weakref
from collections.abc import Callable
from random import Random

from firesteel.common._override import override
from firesteel.connectors.files.file_system import FileStatus, FileSystem, OpenFile

__all__ = ["SimulatedObjects"]

#: For pickle: a sink travels to its tasks, the store stays.
_all: weakref.WeakValueDictionary[int, SimulatedObjects] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def _recall(number: int) -> SimulatedObjects:
    return _all[number]


class SimulatedObjects(FileSystem):
    """The store. ``trouble``, when it is set, is called before and after every request, with what it is, and may raise."""

    resumes = False

    def __init__(self, random: Random) -> None:
        self.random = random
        self.objects: dict[str, bytes] = {}
        self.trouble: Callable[[str], None] | None = None
        self.syncs: set[str] = set()
        self.broken_syncs: frozenset[str] = frozenset()
        self.epoch = 0
        self._id = next(_numbers)
        _all[self._id] = self

    @override
    def __reduce__(self) -> tuple[Callable[[int], SimulatedObjects], tuple[int]]:
        return _recall, (self._id,)

    def lose_power(self, kept: float) -> None:
        """The machines of the job are off; the store is elsewhere."""
        self.epoch += 1

    def sync_for_certain(self, path: str) -> None:
        """There is nothing to do."""

    def step(self, what: str) -> None:
        """Something is about to happen, or has just happened."""
        if self.trouble is not None:
            self.trouble(what)

    def put(self, path: str, data: bytes) -> None:
        """One request: the object is there."""
        self.step("change")
        self.objects[path] = data
        self.step("sync")

    # What the sink does ---------------------------------------------------------------------------------

    @override
    def create(self, path: str) -> OpenFile:
        self.step("change")
        assert path not in self.objects, "names are unique"
        return _Upload(self, path)

    @override
    def open(self, path: str) -> OpenFile:
        raise AssertionError("objects cannot be appended to")

    @override
    def read(self, path: str) -> bytes:
        self.step("open")
        if path not in self.objects:
            raise FileNotFoundError(errno.ENOENT, "no such object", path)
        return self.objects[path]

    @override
    def status_of(self, path: str) -> FileStatus | None:
        self.step("look")
        if path in self.objects:
            return FileStatus(len(self.objects[path]), (0, 0))
        return FileStatus(0, (0, 0)) if any(each.startswith(f"{path}/") for each in self.objects) else None

    @override
    def names(self, folder: str) -> list[str]:
        self.step("look")
        start = f"{folder.rstrip('/')}/"
        below = [path.removeprefix(start) for path in self.objects if path.startswith(start)]
        return list(dict.fromkeys(path.partition("/")[0] for path in below))

    @override
    def rename(self, old: str, new: str) -> None:
        """Two requests."""
        self.put(new, self.read(old))
        self.remove(old)

    @override
    def replace(self, path: str, content: bytes) -> None:
        self.put(path, content)

    @override
    def remove(self, path: str) -> None:
        """Fine when there is none, as everywhere in such stores."""
        self.step("change")
        self.objects.pop(path, None)
        self.step("change")

    @override
    def make_folder(self, path: str) -> None:
        raise AssertionError("there are no folders")

    @override
    def sync_folder(self, path: str) -> None:
        """There is nothing to do."""


class _Upload(OpenFile):
    """An object that is not there yet."""

    def __init__(self, store: SimulatedObjects, path: str) -> None:
        self._store = store
        self._path = path
        self._data = b""
        self._epoch = store.epoch
        self._is_over = False

    @override
    def lock(self) -> bool:
        return True

    @override
    def size(self) -> int:
        return len(self._data)

    @override
    def append(self, data: bytes | memoryview) -> int:
        self._store.step("write")
        if self._is_over or self._epoch != self._store.epoch:
            raise OSError(errno.EBADF, "the upload is over", self._path)
        self._data += bytes(data)
        return len(data)

    @override
    def read(self, size: int, position: int) -> bytes:
        raise AssertionError("uploads cannot be read")

    @override
    def truncate(self, size: int) -> None:
        raise AssertionError("uploads cannot be shortened")

    @override
    def sync(self) -> None:
        """Complete the upload."""
        assert not self._is_over, "an upload is completed once"
        if self._epoch != self._store.epoch:
            raise OSError(errno.EBADF, "the upload is over", self._path)
        self._is_over = True
        self._store.put(self._path, self._data)

    @override
    def close(self) -> None:
        """What was not completed may be left over."""
        if not self._is_over and self._epoch == self._store.epoch and self._store.random.random() < 0.5:
            self._store.objects[self._path] = self._data
        self._is_over = True
