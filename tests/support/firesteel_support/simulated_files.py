"""A file system in memory that forgets, when the power fails, whatever was not synced.

Processes see every change at once. On disk a change is for certain only after a sync: of the file, for its bytes; of
the folder, for names in it. A power loss keeps any of the other changes and drops the rest, each by itself; a folder
whose name is dropped takes with it all that was below. Files can be renamed, in one step as everywhere, and not linked.

>>> from random import Random
>>> files = SimulatedFiles(Random(1))
>>> file = files.create("/a")
>>> _ = file.append(b"some text")
>>> file.sync()
>>> files.lose_power(kept=0.0)
>>> files.names("/")
[]
"""

from __future__ import annotations

import errno
import itertools
import sys
import weakref
from collections.abc import Callable
from random import Random
from types import FrameType

from firesteel.common._override import override
from firesteel.connectors.files.file_system import FileStatus, FileSystem, OpenFile

__all__ = ["PowerLoss", "SimulatedFiles"]

#: For pickle: a sink travels to its tasks, the file system stays.
_all: weakref.WeakValueDictionary[int, SimulatedFiles] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def _recall(number: int) -> SimulatedFiles:
    return _all[number]


class PowerLoss(BaseException):
    """The machine is off: nobody handles this, everybody is dead."""


class _File:
    """Bytes as processes see them, as they are on disk, and what lies between: pieces at positions, and cuts."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.data = b""
        self.on_disk = b""
        self.changes: list[tuple[int, bytes | None]] = []
        self.locked_by: object = None

    def change(self, position: int, piece: bytes | None) -> None:
        self.data = _changed(self.data, position, piece)
        self.changes.append((position, piece))

    def sync(self) -> None:
        self.on_disk, self.changes = self.data, []

    def lose_power(self, random: Random, kept: float) -> None:
        for position, piece in self.changes:
            if random.random() < kept:
                self.on_disk = _changed(self.on_disk, position, piece)
            elif piece and random.random() < 0.5:
                self.on_disk = _changed(self.on_disk, position, piece[: random.randrange(len(piece))])
        self.data, self.changes, self.locked_by = self.on_disk, [], None


def _changed(data: bytes, position: int, piece: bytes | None) -> bytes:
    """A piece may come to lie behind the end: what is missing between is zeros."""
    if piece is None:
        return data[:position]
    return data[:position].ljust(position, b"\0") + piece + data[position + len(piece) :]


class _Folder:
    """Names as processes see them, as they are on disk, and what lies between: one name less, one name more."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.names: dict[str, _File | _Folder] = {}
        self.on_disk: dict[str, _File | _Folder] = {}
        self.changes: list[tuple[str | None, str | None, _File | _Folder]] = []

    def change(self, old: str | None, new: str | None, node: _File | _Folder) -> None:
        _rename(self.names, old, new, node)
        self.changes.append((old, new, node))

    def sync(self) -> None:
        self.on_disk, self.changes = dict(self.names), []

    def lose_power(self, random: Random, kept: float) -> None:
        for change in self.changes:
            if random.random() < kept:
                _rename(self.on_disk, *change)
        self.names, self.changes = dict(self.on_disk), []
        for node in self.names.values():
            node.lose_power(random, kept)


def _rename(
    names: dict[str, _File | _Folder], old: str | None, new: str | None, node: _File | _Folder
) -> None:
    if old is not None and names.get(old) is node:
        del names[old]
    if new is not None:
        names[new] = node


class SimulatedFiles(FileSystem):
    """The file system.

    ``trouble``, when it is set, is called before every step, with what it is, and may raise. ``syncs`` are the places in the program from
    which something was synced; a sync from one of those in ``broken_syncs`` does nothing.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._root = _Folder()
        self._epoch = 0
        self.trouble: Callable[[str], None] | None = None
        self.syncs: set[str] = set()
        self.broken_syncs: frozenset[str] = frozenset()
        self._id = next(_numbers)
        _all[self._id] = self

    @override
    def __reduce__(self) -> tuple[Callable[[int], SimulatedFiles], tuple[int]]:
        return _recall, (self._id,)

    def lose_power(self, kept: float) -> None:
        """Drop changes that were not synced, apart from this share of them; files that are open are so no more."""
        self._epoch += 1
        self._root.lose_power(self._random, kept)

    def sync_for_certain(self, path: str) -> None:
        """Sync a folder on behalf of somebody who is not part of the program."""
        node = self._node(path)
        assert isinstance(node, _Folder)
        node.sync()

    # What the sink does ---------------------------------------------------------------------------------

    @override
    def create(self, path: str) -> OpenFile:
        folder, name = self._place(path)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        node = _File()
        folder.change(None, name, node)
        return _Handle(self, node)

    @override
    def open(self, path: str) -> OpenFile:
        """A file that is there."""
        return _Handle(self, self._file(path))

    @override
    def read(self, path: str) -> bytes:
        return self._file(path).data

    @override
    def status_of(self, path: str) -> FileStatus | None:
        """What there is, also of folders."""
        self.step("look")
        node = self._node(path)
        if node is None:
            return None
        return FileStatus(len(node.data) if isinstance(node, _File) else 0, (0, node.number))

    @override
    def names(self, folder: str) -> list[str]:
        """All names in a folder."""
        self.step("look")
        node = self._node(folder)
        return list(node.names) if isinstance(node, _Folder) else []

    @override
    def rename(self, old: str, new: str) -> None:
        folder, name = self._place(old)
        target, new_name = self._place(new)
        assert folder is target, "files are renamed within their folder only"
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        folder.change(name, new_name, folder.names[name])

    @override
    def remove(self, path: str) -> None:
        folder, name = self._place(path)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        folder.change(name, None, folder.names[name])

    @override
    def make_folder(self, path: str) -> None:
        folder, name = self._place(path)
        if name not in folder.names:
            folder.change(None, name, _Folder())

    @override
    def sync_folder(self, path: str) -> None:
        """Its names are on disk."""
        self.step("sync")
        node = self._node(path)
        if not isinstance(node, _Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        self.sync(node)

    # What is behind it ----------------------------------------------------------------------------------

    def step(self, what: str) -> None:
        """Something is about to happen."""
        if self.trouble is not None:
            self.trouble(what)

    def check(self, epoch: int) -> None:
        """Whether files that were opened in an epoch are still open."""
        if epoch != self._epoch:
            raise OSError(errno.EBADF, "the file was open when the power failed")

    @property
    def epoch(self) -> int:
        """How often the power has failed."""
        return self._epoch

    def sync(self, node: _File | _Folder) -> None:
        """Make the changes of a file or folder durable, unless the program is to be without this sync."""
        place = _place_of_caller()
        self.syncs.add(place)
        if place not in self.broken_syncs:
            node.sync()

    def _file(self, path: str) -> _File:
        self.step("open")
        node = self._node(path)
        if not isinstance(node, _File):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _place(self, path: str) -> tuple[_Folder, str]:
        self.step("change")
        folder, _, name = path.rpartition("/")
        node = self._node(folder)
        if not isinstance(node, _Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        return node, name

    def _node(self, path: str) -> _File | _Folder | None:
        node: _File | _Folder | None = self._root
        for name in path.split("/"):
            if name:
                node = node.names.get(name) if isinstance(node, _Folder) else None
        return node


class _Handle(OpenFile):
    """An open file."""

    def __init__(self, files: SimulatedFiles, file: _File) -> None:
        self._files = files
        self._file = file
        self._epoch = files.epoch

    def _step(self, what: str) -> None:
        self._files.step(what)
        self._files.check(self._epoch)

    @override
    def lock(self) -> bool:
        """Only one handle has it."""
        self._step("lock")
        if self._file.locked_by not in (None, self):
            return False
        self._file.locked_by = self
        return True

    @override
    def size(self) -> int:
        return len(self._file.data)

    @override
    def append(self, data: bytes | memoryview) -> int:
        self._step("write")
        self._file.change(len(self._file.data), bytes(data))
        return len(data)

    @override
    def read(self, size: int, position: int) -> bytes:
        self._step("read")
        return self._file.data[position : position + size]

    @override
    def truncate(self, size: int) -> None:
        self._step("write")
        self._file.change(size, None)

    @override
    def sync(self) -> None:
        """All changes are on disk."""
        self._step("sync")
        self._files.sync(self._file)

    @override
    def close(self) -> None:
        """Also gives the lock back; the only step that cannot fail."""
        if self._file.locked_by is self:
            self._file.locked_by = None


def _place_of_caller() -> str:
    """The statement that asked for a sync."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None
    return f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
