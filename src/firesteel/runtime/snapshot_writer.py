"""Writes the pieces of a subtask's snapshot into one file, says where they are, and reads them back.

Writing runs beside the task's loop: in a thread of Spark's shell, as steps of its own in the simulator. Pieces come as
they are serialised; nothing is kept in memory but what is being written. Every segment is one run of blocks, so
pieces of one operator and kind follow each other::

    header, lists of operator 0, lists of operator 1, ..., keyed state of operator 0, keyed state of operator 1, ...

Without a checkpoint directory there is no file: the segments travel inside the acknowledgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from firesteel.checkpoint.blocks import SegmentWriter, StateFileWriter, read_segment
from firesteel.checkpoint.storage import Output, Storage
from firesteel.common.errors import CheckpointError
from firesteel.plan.messages import SnapshotAcknowledged, SnapshotDeclined
from firesteel.plan.state_handles import OperatorHandle, Segment
from firesteel.runtime.restore import SegmentReader
from firesteel.runtime.subtask_snapshot import OperatorPart, Piece, SubtaskSnapshot

#: How much state of a subtask may travel to the job master's memory.
INLINE_LIMIT = 5 * 1024 * 1024


class StorageServices(Protocol):
    """What is needed of the shell."""

    attempt: int

    def now(self) -> float:
        """Time in seconds since the epoch."""
        ...

    def storage(self, root: str) -> Storage:
        """The directory below which the files of a checkpoint are."""
        ...


class SnapshotFile:
    """The file of one subtask's part of one checkpoint; made with its first piece, none when there is no state."""

    def __init__(self, snapshot: SubtaskSnapshot, services: StorageServices, compress: bool = False) -> None:
        order = snapshot.order
        self._snapshot = snapshot
        self._services = services
        self._inline = not order.root
        name = f"{snapshot.vertex}-{snapshot.subtask}-{services.attempt}-{order.id}"
        self._path = f"{order.directory}/{name}" if order.directory else name
        self._output: Output | None = None
        self._writer = StateFileWriter(self._write, self._path, compress)
        self._segment: SegmentWriter | None = None
        self._place: tuple[int, bool] | None = None  # operator and kind of the segment that is being written
        self._segments: dict[tuple[int, bool], Segment] = {}
        self._bytes = 0

    def write(self, pieces: Iterable[Piece]) -> None:
        """Append pieces; raises when that is not possible."""
        for piece in pieces:
            place = piece.operator, piece.is_keyed
            if place != self._place:
                self._end_segment()
                self._place = place
                self._segment = SegmentWriter() if self._inline else self._writer.segment()
            assert self._segment is not None
            self._segment.add(piece.payload)
            self._check_inline()

    def finish(self) -> SnapshotAcknowledged:
        """Make everything durable; what to tell the job master. Raises what made the snapshot fail."""
        if self._snapshot.failure is not None:
            raise self._snapshot.failure
        self._end_segment()
        if self._output is not None:
            self._output.close()
        snapshot = self._snapshot
        handles = tuple(self._handle(index, part) for index, part in enumerate(snapshot.parts))
        snapshot.handles = handles
        return SnapshotAcknowledged(
            snapshot.order.id,
            snapshot.vertex,
            snapshot.subtask,
            tuple(handle for handle in handles if handle.segments or handle.states),
            self._bytes,
            snapshot.alignment_ms,
            snapshot.pause_ms,
            (self._services.now() - snapshot.began) * 1000,
        )

    def abort(self) -> None:
        """Nobody needs the file."""
        if self._output is not None:
            self._output.abort()

    def _write(self, data: bytes) -> None:
        if self._output is None:
            self._output = self._services.storage(self._snapshot.order.root).create(self._path)
        self._output.write(data)

    def _end_segment(self) -> None:
        if self._segment is not None and self._place is not None:
            segment = self._segments[self._place] = self._segment.finish()
            self._bytes += segment.length
        self._segment = self._place = None

    def _check_inline(self) -> None:
        if self._inline and self._segment is not None and self._bytes + self._segment.length > INLINE_LIMIT:
            raise CheckpointError(
                f"the state of this subtask is larger than the {INLINE_LIMIT >> 20} MB that the job master keeps in "
                "its memory; set execution.checkpointing.dir to a directory that all workers can reach"
            )

    def _handle(self, index: int, part: OperatorPart) -> OperatorHandle:
        keyed = self._segments.get((index, True))
        chain = part.base if keyed is None else (*part.base, keyed)
        return OperatorHandle(
            part.operator_id, self._snapshot.subtask, chain, self._segments.get((index, False)), part.states
        )


def declined(snapshot: SubtaskSnapshot, error: BaseException) -> SnapshotDeclined:
    """What to tell the job master when a snapshot cannot be written."""
    reason = f"{type(error).__name__}: {error}"
    return SnapshotDeclined(snapshot.order.id, snapshot.vertex, snapshot.subtask, reason)


def segment_reader(root: str, services: StorageServices) -> SegmentReader:
    """Reads segments whose files are below ``root``."""

    def read(segment: Segment) -> Iterator[bytes]:
        return read_segment(services.storage(root) if segment.file else None, segment)

    return read
