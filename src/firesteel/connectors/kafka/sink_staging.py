"""Records that wait for their checkpoint: packed into chunks, which are the sink's committables and part of the checkpoint.

A chunk says who staged it and has a number there, so that it can be recognised by whoever commits it. Chunks are large enough
for the cost of one not to matter and small enough to be unpacked one by one. What a subtask has staged beyond some memory
waits in a temporary file without a name; in a checkpoint it is all bytes.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.connectors.kafka.sink_client import OutgoingRecord
from firesteel.connectors.number_ranges import Numbers

__all__ = ["Chunk", "Staging", "marker_numbers", "marker_text"]

_CHUNK_RECORDS = 10_000
_CHUNK_BYTES = 1 << 20
#: What a subtask keeps in memory before it uses a file.
_MEMORY_BYTES = 32 << 20


class _Spill:
    """A temporary file without a name, which is closed with the last chunk in it."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def append(self, payload: bytes) -> int:
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(payload)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)


class _InFile:
    """Bytes in a temporary file; pickled they are the bytes themselves."""

    def __init__(self, file: _Spill, offset: int, length: int) -> None:
        self._file = file
        self._offset = offset
        self._length = length

    def read(self) -> bytes:
        return self._file.read(self._offset, self._length)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (self.read(),)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records of one writer; with those of all other chunks of lower numbers they are in the order of writing.

    ``transactional_id`` is that of the writer who staged it: everybody who commits the chunk uses it. ``staged_at`` is in
    seconds. ``is_restored``: it comes from a checkpoint, and its writer is no more.
    """

    transactional_id: str
    number: int
    marker_topic: str
    staged_at: float
    size: int
    payload: bytes | _InFile
    is_restored: bool = False

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        place = (self.transactional_id, self.number, self.marker_topic, self.staged_at)
        return type(self), (*place, self.size, self.payload, True)

    def records(self) -> list[OutgoingRecord]:
        """The records, unpacked; they are read from the temporary file if they wait there."""
        payload = self.payload if isinstance(self.payload, bytes) else self.payload.read()
        return [OutgoingRecord(*fields) for fields in pickle.loads(payload)]

    @override
    def __repr__(self) -> str:
        return f"Chunk({self.transactional_id!r}, number={self.number}, {self.size} bytes)"


class Staging:
    """What one writer has staged since the last checkpoint."""

    def __init__(self, transactional_id: str, max_bytes: int, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._id = transactional_id
        self._max_bytes = max_bytes
        self._memory_bytes = memory_bytes
        self._marker_topic = ""
        self._next_number = 0
        self._records: list[OutgoingRecord] = []
        self._record_bytes = 0
        self._chunks: list[Chunk] = []
        self._in_memory = 0
        self._file: _Spill | None = None
        self.size = 0

    def add(self, records: Sequence[OutgoingRecord], now: float) -> None:
        """More records, behind all others."""
        for begin in range(0, len(records), _CHUNK_RECORDS):
            part = records[begin : begin + _CHUNK_RECORDS]
            self._records += part
            self._record_bytes += sum([len(r.value or b"") + len(r.key or b"") for r in part])
            if self._record_bytes >= _CHUNK_BYTES or len(self._records) >= _CHUNK_RECORDS:
                self._pack(now)

    def take(self, now: float) -> list[Chunk]:
        """Everything since the last time, as chunks."""
        self._pack(now)
        chunks, self._chunks = self._chunks, []
        self._file, self._in_memory, self.size = None, 0, 0
        return chunks

    def _pack(self, now: float) -> None:
        records, self._records, self._record_bytes = self._records, [], 0
        if not records:
            return
        self._marker_topic = self._marker_topic or records[0].topic
        payload = pickle.dumps([tuple(record) for record in records], protocol=5)
        self.size += len(payload)
        self._check_size()
        number, self._next_number = self._next_number, self._next_number + 1
        chunk = Chunk(self._id, number, self._marker_topic, now, len(payload), payload)
        self._chunks.append(self._kept(chunk, payload))

    def _kept(self, chunk: Chunk, payload: bytes) -> Chunk:
        """In memory, if there is enough of it."""
        if self._in_memory + len(payload) <= self._memory_bytes:
            self._in_memory += len(payload)
            return chunk
        if self._file is None:
            self._file = _Spill()
        return replace(chunk, payload=_InFile(self._file, self._file.append(payload), len(payload)))

    def _check_size(self) -> None:
        if self.size > self._max_bytes:
            raise ProgramError(
                f"one subtask of a Kafka sink has staged {self.size} bytes since the last checkpoint, more than the "
                f"{self._max_bytes} that are allowed: with EXACTLY_ONCE records are part of the checkpoint until they are "
                "written; take checkpoints more often (env.enable_checkpointing), use a higher parallelism, or "
                "set_property('firesteel.staged.max.bytes', ...)"
            )


# The marker -----------------------------------------------------------------------------------------------


def marker_text(numbers: Numbers) -> str:
    """The numbers of all chunks of a writer that were committed, as the text of its marker.

    >>> marker_text(Numbers([[0, 4], [6, 6]]))
    '0-4,6-6'
    """
    return ",".join([f"{first}-{last}" for first, last in numbers.ranges])


def marker_numbers(text: str) -> Numbers:
    """The numbers that a marker names.

    >>> marker_numbers("0-4,6-6").ranges
    [[0, 4], [6, 6]]
    """
    return Numbers(_ranges(text.split(",")) if text else [])


def _ranges(texts: Iterable[str]) -> list[list[int]]:
    return [[int(end) for end in text.split("-")] for text in texts]
