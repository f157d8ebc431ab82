"""The operating system's calls as a disk sees them that loses its power: which changes of a directory tree may be lost.

`RecordedCalls` stands in for the module ``os`` under `firesteel.checkpoint.local_storage`: it does what it is told on the
real file system and writes down what was changed and what was forced to disk. `RecordedCalls.after_power_loss` is a
tree that the disk may hold after a crash: everything that was forced, and of everything else any part, in any order.

POSIX promises no more than that. What a file system does beyond it (keeping the order of renames, say) is not relied upon.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import IO, Any

__all__ = ["ProcessDied", "RecordedCalls"]


class ProcessDied(BaseException):
    """The process that made the calls is no more; the machine goes on."""


class _Node:
    """A file or a directory: what is in it now, and what of it is on disk."""

    def __init__(self, is_directory: bool) -> None:
        self.is_directory = is_directory
        self.names: dict[str, _Node] = {}
        self.durable_names: dict[str, _Node] = {}
        self.data = b""
        self.durable_data = b""
        #: Changes of names since it was last forced to disk: each name with what it meant after the change.
        self.changes: list[tuple[str, _Node | None]] = []

    def set(self, name: str, node: _Node | None) -> None:
        if node is None:
            self.names.pop(name, None)
        else:
            self.names[name] = node
        self.changes.append((name, node))

    def force(self) -> None:
        self.durable_names = dict(self.names)
        self.durable_data = self.data
        self.changes = []


class RecordedCalls:
    """See the module. ``root`` is where the tree begins; what lies above it is on disk.

    ``forgets``: what is not forced to disk although the code asks for it, ``file`` or ``directory``, to see who notices.
    """

    def __init__(self, root: str, forgets: str = "") -> None:
        #: After so many calls the process is killed: `ProcessDied`.
        self.calls_left: int | None = None
        self._forgets = forgets
        self._root = root
        self._tree = _Node(is_directory=True)
        self._descriptors: dict[int, str] = {}
        self._files: list[IO[bytes]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    # Calls --------------------------------------------------------------------------------------------

    def _live(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise ProcessDied

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        self._live()
        os.mkdir(path)
        self._name(path, _Node(is_directory=True))

    def rmdir(self, path: str, **more: Any) -> None:
        """Remove an empty directory."""
        self._live()
        os.rmdir(path, **more)
        self._name(path, None)

    def unlink(self, path: str, **more: Any) -> None:
        """Remove a name."""
        self._live()
        os.unlink(path, **more)
        self._name(path, None)

    def link(self, source: str, target: str) -> None:
        """Give a file another name."""
        self._live()
        os.link(source, target)
        self._name(target, self._find(source))

    def rename(self, source: str, target: str) -> None:
        """Move a name."""
        self._live()
        os.rename(source, target)
        self._name(target, self._find(source))
        self._name(source, None)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """Open a file or directory."""
        descriptor = os.open(path, flags, mode)
        self._descriptors[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)
        self._descriptors.pop(descriptor, None)

    def create(self, path: str) -> Any:
        """A new file to write."""
        self._live()
        file = open(path, "xb")  # noqa: SIM115 - for the caller
        self._name(path, _Node(is_directory=False))
        self._files.append(file)
        return _RecordedFile(file, path, self)

    def fsync(self, descriptor: int) -> None:
        """Force a file, or the names in a directory, to disk."""
        self._live()
        path = self._descriptors[descriptor]
        if path == self._root or path.startswith(f"{self._root}/"):
            node = self._find(path)
            if self._forgets != ("directory" if node.is_directory else "file"):
                node.force()

    def end(self) -> None:
        """Close what dead processes have left open."""
        for file in self._files:
            file.close()

    # What the disk holds ------------------------------------------------------------------------------

    def after_power_loss(self, rng: random.Random) -> dict[str, bytes | None]:
        """Files by their paths below the root, with None for directories."""
        return dict(_survivors(self._tree, "", rng))

    def now(self) -> dict[str, bytes | None]:
        """What a process sees."""
        return dict(_seen(self._tree, ""))

    def written(self, path: str, data: bytes) -> None:
        """Bytes were appended to a file."""
        self._find(path).data += data

    def opened(self, path: str, descriptor: int) -> None:
        """A file has a descriptor."""
        self._descriptors[descriptor] = path

    def _name(self, path: str, node: _Node | None) -> None:
        parent, name = os.path.split(path)
        self._find(parent).set(name, node)

    def _find(self, path: str) -> _Node:
        node = self._tree
        for part in filter(None, os.path.relpath(path, self._root).split("/")):
            if part != ".":
                node = node.names[part]
        return node


class _RecordedFile:
    def __init__(self, file: IO[bytes], path: str, calls: RecordedCalls) -> None:
        self._file = file
        self._path = path
        self._calls = calls
        calls.opened(path, file.fileno())

    def write(self, data: bytes) -> int:
        self._calls.written(self._path, data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


def _survivors(node: _Node, path: str, rng: random.Random) -> Iterator[tuple[str, bytes | None]]:
    names = dict(node.durable_names)
    for name, meant in node.changes:  # of several changes of one name the disk may know any one
        if rng.random() < 0.5:
            if meant is None:
                names.pop(name, None)
            else:
                names[name] = meant
    for name, child in sorted(names.items()):
        inner = f"{path}/{name}" if path else name
        if child.is_directory:
            yield inner, None
            yield from _survivors(child, inner, rng)
        else:
            lost = child.data != child.durable_data and rng.random() < 0.5
            kept = child.durable_data + child.data[len(child.durable_data) : rng.randint(0, len(child.data))]
            yield inner, kept if lost else child.data


def _seen(node: _Node, path: str) -> Iterator[tuple[str, bytes | None]]:
    for name, child in sorted(node.names.items()):
        inner = f"{path}/{name}" if path else name
        yield inner, None if child.is_directory else child.data
        yield from _seen(child, inner)
