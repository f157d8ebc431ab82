"""Records in the order of their keys and times, however many there are: sorted runs in a temporary file, merged.

An entry is a tuple that begins with what it is sorted by. No two entries are equal in that, so what follows - records,
which may be anything - is never compared. Entries are plain tuples, because there is one for every record.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from firesteel.runtime.inputs.temporary_files import TemporaryFiles
from firesteel.runtime.wire_format import pickle_values

__all__ = ["RecordSorter"]

_IN_MEMORY = 64 * 1024 * 1024
_BLOCK = 128  # entries of a run that are written and read together


class _Block(NamedTuple):
    begin: int
    length: int


class RecordSorter:
    """Takes entries in any order, then gives them back in theirs. About ``in_memory`` bytes are kept in memory."""

    def __init__(self, in_memory: int | None = None, files: TemporaryFiles | None = None) -> None:
        self._in_memory = _IN_MEMORY if in_memory is None else in_memory
        self._files = files or TemporaryFiles()
        self._entries: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._runs: list[list[_Block]] = []

    def add(self, entries: list[tuple[Any, ...]], size: int) -> None:
        """Some entries, of about ``size`` bytes."""
        self._entries += entries
        self._bytes += size
        if self._bytes > self._in_memory:
            self._spill()

    def _spill(self) -> None:
        """Write what is in memory as a run."""
        if self._file is None:
            self._file = self._files.open()
        entries, self._entries, self._bytes = self._entries, [], 0
        entries.sort()
        blocks = []
        for begin in range(0, len(entries), _BLOCK):
            blob = pickle_values(entries[begin : begin + _BLOCK])
            with self._files.explained():
                blocks.append(_Block(self._file.tell(), len(blob)))
                self._file.write(blob)
        self._runs.append(blocks)

    def in_order(self) -> Iterator[tuple[Any, ...]]:
        """All entries; nothing is added any more."""
        self._entries.sort()
        if not self._runs:
            return iter(self._entries)
        return heapq.merge(*map(self._read, self._runs), self._entries)

    def _read(self, run: list[_Block]) -> Iterator[tuple[Any, ...]]:
        assert self._file is not None
        for begin, length in run:
            self._file.seek(begin)  # every time: the runs share the file
            yield from pickle.loads(self._file.read(length))

    def close(self) -> None:
        """Forget all entries, and close the file when there is one."""
        self._entries, self._runs = [], []
        if self._file is not None:
            self._file.close()
            self._file = None
