"""Payloads that have to wait, in order: in memory while they are few, in a temporary file when they are many."""

from __future__ import annotations

from collections import deque
from typing import IO

from firesteel.runtime.inputs.temporary_files import TemporaryFiles

__all__ = ["PayloadQueue", "PayloadSpace"]

_IN_MEMORY = 64 * 1024 * 1024

#: A payload in memory, or where it begins and how long it is in the file.
Stored = bytes | tuple[int, int]


class PayloadSpace:
    """The room for all that waits at one subtask: so much memory, and beyond it a file while there is something in it."""

    def __init__(self, in_memory: int | None = None, files: TemporaryFiles | None = None) -> None:
        self._in_memory = _IN_MEMORY if in_memory is None else in_memory
        self._files = files or TemporaryFiles()
        self._memory_bytes = 0
        self._file: IO[bytes] | None = None
        self._in_file = 0
        #: How many bytes wait in all queues.
        self.size = 0

    def store(self, payload: bytes | memoryview) -> Stored:
        """Keep a payload; a copy, because the memory behind it may not be ours."""
        length = len(payload)
        self.size += length
        if self._memory_bytes + length <= self._in_memory:
            self._memory_bytes += length
            return bytes(payload)
        if self._file is None:
            self._file = self._files.open()
        with self._files.explained():
            begin = self._file.seek(0, 2)
            self._file.write(payload)
        self._in_file += 1
        return begin, length

    def load(self, stored: Stored) -> bytes:
        """A payload that is kept, for the last time."""
        if isinstance(stored, bytes):
            payload = stored
        else:
            assert self._file is not None
            begin, length = stored
            with self._files.explained():
                self._file.seek(begin)
                payload = self._file.read(length)
        self.forget(stored)
        return payload

    def forget(self, stored: Stored) -> None:
        """A payload is kept no longer."""
        if isinstance(stored, bytes):
            self.size -= len(stored)
            self._memory_bytes -= len(stored)
            return
        self.size -= stored[1]
        self._in_file -= 1
        if not self._in_file and self._file is not None:
            self._file.close()
            self._file = None


class PayloadQueue:
    """First in, first out; in a space of its own, or one that it shares with others."""

    __slots__ = ("_space", "_stored")

    def __init__(self, space: PayloadSpace | None = None) -> None:
        self._space = PayloadSpace() if space is None else space
        self._stored: deque[Stored] = deque()

    def __len__(self) -> int:
        return len(self._stored)

    def add(self, payload: bytes | memoryview) -> None:
        """Keep a payload, behind all others."""
        self._stored.append(self._space.store(payload))

    def take(self) -> bytes:
        """The next payload; there must be one."""
        return self._space.load(self._stored.popleft())

    def close(self) -> None:
        """Forget what still waits."""
        while self._stored:
            self._space.forget(self._stored.popleft())
