"""Payloads that have to wait, in order: in memory while they are few, in a temporary file when they are many."""

from __future__ import annotations

import struct
import tempfile
from collections import deque
from typing import IO

_IN_MEMORY = 64 * 1024 * 1024
_LENGTH = struct.Struct("<I")


class PayloadQueue:
    """First in, first out. Once the file has been needed, it is used until everything has been taken."""

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._memory: deque[bytes] = deque()
        self._memory_bytes = 0
        self._file: IO[bytes] | None = None
        self._in_file = 0
        self._read_at = 0

    def __len__(self) -> int:
        return len(self._memory) + self._in_file

    def add(self, payload: bytes | memoryview) -> None:
        """Keep a payload; a copy, because the memory behind it may not be ours."""
        if self._file is None and self._memory_bytes + len(payload) <= self._in_memory:
            self._memory.append(bytes(payload))
            self._memory_bytes += len(payload)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="firesteel-")  # noqa: SIM115 - lives as long as the queue
        self._file.seek(0, 2)
        self._file.write(_LENGTH.pack(len(payload)))
        self._file.write(payload)
        self._in_file += 1

    def take(self) -> bytes:
        """The next payload; there must be one."""
        if self._memory:
            payload = self._memory.popleft()
            self._memory_bytes -= len(payload)
            return payload
        assert self._file is not None, "nothing waits"
        self._file.seek(self._read_at)
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        payload = self._file.read(length)
        self._read_at = self._file.tell()
        self._in_file -= 1
        if not self._in_file:
            self.close()
        return payload

    def close(self) -> None:
        """Forget what still waits."""
        self._memory.clear()
        self._memory_bytes = self._in_file = self._read_at = 0
        if self._file is not None:
            self._file.close()
            self._file = None
