"""The state of a subtask at a barrier, on its way into a file, and how it is read back: hop 8 of a checkpoint's life.

What is small - the list states of the operators - is serialised at the barrier itself. Keyed state is serialised in
slices, by `SubtaskSnapshot.step`, while processing goes on; the backends see to it that it is the state of the barrier.

The pieces are written by a `SnapshotFile`, beside the task's loop: in a thread of Spark's shell, as steps of its own in
the simulator. They come as they are serialised; nothing is kept in memory but what is being written. Every segment is one
run of blocks, so pieces of one operator and kind follow each other::

    header, lists of operator 0, lists of operator 1, ..., keyed state of operator 0, keyed state of operator 1, ...

When the last piece is durable, its handles are left in the snapshot: the next delta builds on them once the checkpoint is
completed. Without a checkpoint directory there is no file: the segments travel inside the acknowledgement. With local
recovery the keyed state of a checkpoint, not of a savepoint, is written to this machine's disks as well, and read from
there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from firesteel.checkpoint.blocks import SegmentWriter, StateFileWriter, file_header, read_segment
from firesteel.checkpoint.local_copies import LocalCopies, SegmentCopy
from firesteel.checkpoint.storage import OutputFile, Storage, join_uri, shown
from firesteel.common.errors import CheckpointError, CorruptStateError
from firesteel.common.options import CHECKPOINTING_MEMORY_LIMIT
from firesteel.plan.messages import SnapshotAcknowledged, SnapshotDeclined
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder, OperatorHandle, Segment, StateMeta
from firesteel.runtime.restore import SegmentReader

if TYPE_CHECKING:
    from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot


# What is written --------------------------------------------------------------------------------------


@dataclass(slots=True)
class OperatorSection:
    """One operator's share. ``base`` are the segments that a delta builds on."""

    operator_id: str
    lists: list[bytes]
    keyed: KeyedSnapshot | None
    base: tuple[Segment, ...] = ()
    states: tuple[StateMeta, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A serialised block and where it belongs: an operator of the chain, its keyed state or its lists."""

    operator: int
    is_keyed: bool
    payload: bytes


class SubtaskSnapshot:
    """What one subtask writes for one checkpoint: a section for each operator of its chain."""

    def __init__(
        self,
        order: CheckpointOrder,
        vertex: int,
        subtask: int,
        sections: Sequence[OperatorSection],
        *,
        began: float,
        alignment_ms: float,
        pause_ms: float,
    ) -> None:
        self.order = order
        self.vertex = vertex
        self.subtask = subtask
        self.sections = sections
        self.began = began
        self.alignment_ms = alignment_ms
        self.pause_ms = pause_ms
        #: Why it cannot be completed: a value that cannot be serialised fails the checkpoint, not the job.
        self.failure: Exception | None = None
        #: Set by the writer when everything is durable.
        self.handles: tuple[OperatorHandle, ...] | None = None
        self._pieces = deque(
            Piece(index, False, payload)
            for index, section in enumerate(sections)
            for payload in section.lists
        )
        self._open = deque(index for index, section in enumerate(sections) if section.keyed is not None)

    @property
    def is_serialised(self) -> bool:
        """Whether `step` has nothing left to do."""
        return not self._open

    def step(self, entries: int) -> None:
        """Serialise about so many more ``entries``; an error is kept for whoever writes the snapshot."""
        if not self._open:
            return
        index = self._open[0]
        keyed = self.sections[index].keyed
        assert keyed is not None
        try:
            self._pieces.extend(Piece(index, True, payload) for payload in keyed.step(entries))
        except Exception as error:  # noqa: BLE001 - raised again by whoever writes the snapshot
            self.failure = error
            self._open.clear()
            return
        if keyed.done:
            self._open.popleft()

    def drain(self) -> list[Piece]:
        """The pieces since the last time; of one operator, those of one kind come in order."""
        pieces = list(self._pieces)
        self._pieces.clear()
        return pieces


# Writing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotForm:
    """How the program wants its snapshots: compressed, and how much of a subtask the master's memory may take."""

    compress: bool = False
    inline_limit: int = CHECKPOINTING_MEMORY_LIMIT.default


#: Not compressed, with the usual limit.
AS_IT_IS = SnapshotForm()


class StorageServices(Protocol):
    """What is needed of the shell."""

    attempt: int

    def now(self) -> float:
        """Time in seconds since the epoch."""
        ...

    def storage(self, root: str) -> Storage:
        """The directory below which the files of a checkpoint are."""
        ...

    @property
    def local_copies(self) -> LocalCopies | None:
        """The copies of keyed state on this machine; None when the job keeps none."""
        ...


class SnapshotFile:
    """The file of one subtask's snapshot for one checkpoint; made with its first piece, none when there is no state."""

    def __init__(
        self, snapshot: SubtaskSnapshot, services: StorageServices, form: SnapshotForm = AS_IT_IS
    ) -> None:
        order = snapshot.order
        self._snapshot = snapshot
        self._services = services
        self._inline = not order.root
        name = f"{snapshot.vertex}-{snapshot.subtask}-{services.attempt}-{order.id}"
        self._path = f"{order.directory}/{name}" if order.directory else name
        self._output: OutputFile | None = None
        self._writer = StateFileWriter(self._path, form.compress)
        self._inline_limit = form.inline_limit
        self._segment: SegmentWriter | None = None
        self._owner: tuple[int, bool] | None = None  # operator and kind of the segment that is being written
        self._segments: dict[tuple[int, bool], Segment] = {}
        self._bytes = 0
        keeps_copies = order.root and order.kind is CheckpointKind.CHECKPOINT
        self._local = services.local_copies if keeps_copies else None
        self._copy: SegmentCopy | None = None  # of the segment that is being written
        self._copies: list[SegmentCopy] = []

    def write(self, pieces: Iterable[Piece]) -> None:
        """Append pieces; raises when that is not possible."""
        for piece in pieces:
            owner = piece.operator, piece.is_keyed
            if owner != self._owner:
                self._end_segment()
                self._begin_segment(owner)
            assert self._segment is not None
            block = self._segment.add(piece.payload)
            if self._inline:
                self._check_limit(self._segment)
            else:
                self._write(block)

    def finish(self) -> SnapshotAcknowledged:
        """Make everything durable; what to tell the job master. Raises what made the snapshot fail."""
        if self._snapshot.failure is not None:
            raise self._snapshot.failure
        self._end_segment()
        if self._output is not None:
            self._output.close()
        snapshot = self._snapshot
        handles = tuple(self._handle(index, section) for index, section in enumerate(snapshot.sections))
        snapshot.handles = handles
        if self._local is not None:
            order, keyed = snapshot.order, (segment for handle in handles for segment in handle.keyed)
            self._local.acknowledge(order.id, snapshot.vertex, snapshot.subtask, order.root, keyed)
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
        for copy in self._copies:
            copy.discard()
        if self._output is not None:
            self._output.abort()

    def _write(self, block: bytes) -> None:
        if self._output is None:
            self._output = self._services.storage(self._snapshot.order.root).create(self._path)
            self._output.write(file_header())
        self._output.write(block)
        if self._copy is not None:
            self._copy.write(block)

    def _begin_segment(self, owner: tuple[int, bool]) -> None:
        self._owner = owner
        self._segment = SegmentWriter() if self._inline else self._writer.segment()
        _, is_keyed = owner
        if self._local is not None and is_keyed:
            self._copy = self._local.begin(self._snapshot.order.root, self._path, self._writer.length)
            self._copies.append(self._copy)

    def _end_segment(self) -> None:
        if self._segment is not None and self._owner is not None:
            segment = self._segments[self._owner] = self._segment.finish()
            self._bytes += segment.length
        if self._copy is not None:
            self._copy.close()
        self._segment = self._owner = self._copy = None

    def _check_limit(self, segment: SegmentWriter) -> None:
        if self._bytes + segment.length > self._inline_limit:
            raise CheckpointError(
                f"the state of this subtask is larger than the {self._inline_limit:,} bytes that the job master "
                "keeps in its memory; set execution.checkpointing.dir to a directory that all workers can reach, or "
                f"raise {CHECKPOINTING_MEMORY_LIMIT.key}"
            )

    def _handle(self, index: int, section: OperatorSection) -> OperatorHandle:
        keyed = self._segments.get((index, True))
        chain = section.base if keyed is None else (*section.base, keyed)
        return OperatorHandle(
            section.operator_id,
            self._snapshot.subtask,
            chain,
            self._segments.get((index, False)),
            section.states,
        )


def declined(snapshot: SubtaskSnapshot, error: BaseException) -> SnapshotDeclined:
    """What to tell the job master when a snapshot cannot be written."""
    # Notes say which state, or whose store it is.
    reason = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    return SnapshotDeclined(snapshot.order.id, snapshot.vertex, snapshot.subtask, reason)


# Reading ----------------------------------------------------------------------------------------------


def segment_reader(root: str, services: StorageServices) -> SegmentReader:
    """Reads segments whose files are below ``root``, from their local copies where there are some."""
    copies = services.local_copies

    def durable(segment: Segment) -> Iterator[bytes]:
        try:
            return read_segment(services.storage(root) if segment.file else None, segment)
        except CorruptStateError as error:
            if not error.file:
                raise
            where = shown(join_uri(root, error.file))  # people have to find it
            raise CorruptStateError(error.reason, file=where, position=error.position) from error

    def read(segment: Segment) -> Iterator[bytes]:
        if copies is None or not segment.file:
            return durable(segment)
        return copies.read(root, segment, partial(durable, segment))

    return read
