"""A stream in files, exactly once: part files in buckets, finished when their checkpoint is complete."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from firesteel.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from firesteel.common.time import to_millis
from firesteel.common.typeinfo import Types
from firesteel.connectors.files import part_file
from firesteel.connectors.files.bucket_assigners import BucketAssigner, DateTimeBucketAssigner
from firesteel.connectors.files.bulk_batches import in_batches
from firesteel.connectors.files.part_file import InProgressPart, PartName, PartStream, PendingPart
from firesteel.connectors.files.rolling import DefaultRollingPolicy, OutputFileConfig, RollingPolicy
from firesteel.contracts.sink import CommitRequest, Committer, Sink, SinkContext, SinkFunction, SinkWriter
from firesteel.contracts.state import ListState, ListStateDescriptor

#: The highest number that a part file of any subtask has; every subtask goes on behind it.
_COUNTER = "\0part-counter"


@dataclass(frozen=True)
class FileSink(Sink):
    """Writes below an absolute ``base_path``. Made by the builders of the public API.

    ``encoder`` is an `Encoder`, for records one by one, or a `BulkWriterFactory`. ``check_interval`` (milliseconds)
    is how often the policy is asked whether time has come for a file. ``ends_files``: at the end of the input all
    files are finished, with checkpoints or without.

    A file of a bulk format cannot go on at a length, because it can only be read as a whole. So it is closed at every
    checkpoint, whatever the policy says, and never part of one while it is in progress.
    """

    base_path: str
    encoder: Encoder | BulkWriterFactory
    bucket_assigner: BucketAssigner = field(default_factory=DateTimeBucketAssigner)
    rolling_policy: RollingPolicy = field(default_factory=DefaultRollingPolicy)
    file_config: OutputFileConfig = field(default_factory=OutputFileConfig)
    check_interval: int = 60 * 1000
    ends_files: bool = True

    def create_writer(self, context: SinkContext) -> SinkWriter:
        """The writer of one subtask."""
        return FileWriter(self, context, ())

    def restore_writer(self, context: SinkContext, states: Sequence[InProgressPart]) -> SinkWriter:
        """The writer of one subtask, which goes on with files in progress."""
        return FileWriter(self, context, states)

    def create_committer(self, context: SinkContext) -> Committer:
        """What finishes files."""
        return FileCommitter()


class FileCommitter(Committer):
    """Finishes pending files."""

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Give every file its final name."""
        for request in requests:
            if not part_file.finish(request.get_committable()):
                request.signal_already_committed()


class OpenPart:
    """A part file in progress and the bucket it is in; times in milliseconds."""

    def __init__(
        self,
        bucket_id: str,
        name: PartName,
        stream: PartStream,
        encoder: Encoder | BulkWriterFactory,
        created: int,
    ) -> None:
        self.bucket_id = bucket_id
        self.created = self.updated = created
        self._name = name
        self._stream = stream
        self._bulk: BulkWriter | None = None
        self.write = self._writing(encoder)

    def _writing(self, encoder: Encoder | BulkWriterFactory) -> Callable[[Any], None]:
        stream = cast(BinaryIO, self._stream)
        if isinstance(encoder, Encoder):
            encode = encoder.encode
            return lambda element: encode(element, stream)
        self._bulk = in_batches(encoder.create(stream))
        return self._bulk.add_element

    @property
    def is_bulk(self) -> bool:
        """Whether it can only be read as a whole."""
        return self._bulk is not None

    @property
    def size(self) -> int:
        """How many bytes were written."""
        return self._stream.size

    def roll(self) -> PendingPart:
        """Close it; it waits for the next checkpoint."""
        if self._bulk is not None:
            self._bulk.flush()
            self._bulk.finish()
        return part_file.roll(self._name, self._stream)

    def persist(self) -> InProgressPart:
        """Make sure that what was written survives, and say how to go on behind it."""
        self._stream.persist()
        return InProgressPart(self.bucket_id, self._name, self.size, self.created, self.updated)

    def abandon(self) -> None:
        """Leave the file as it is."""
        self._stream.abandon()

    def throw_away(self) -> None:
        """Remove the file, of which no checkpoint knows; if that does not work, it stays, hidden as it is."""
        self._stream.abandon()
        with contextlib.suppress(OSError):
            os.unlink(self._name.in_progress)


class FileWriter(SinkWriter):
    """Writes the records of one subtask, one file in progress for each bucket."""

    def __init__(self, sink: FileSink, context: SinkContext, states: Sequence[InProgressPart]) -> None:
        self._sink = sink
        self._context = context
        self._encoder = sink.encoder
        if isinstance(sink.encoder, Encoder):
            self._encoder = sink.encoder.bind(context.input_type)
        self._bucket_of = sink.bucket_assigner.get_bucket_id
        self._should_roll = sink.rolling_policy.should_roll_on_event
        self._open: dict[str, OpenPart] = {}
        self._pending: list[PendingPart] = []
        self._ended = False
        self._check_at = math.inf
        self._next_number, self._counter = self._restored_counter()
        for state in states:
            self._resume(state)

    def _restored_counter(self) -> tuple[int, ListState[int]]:
        descriptor = ListStateDescriptor(_COUNTER, Types.LONG())
        state = self._context.states.get_union_list_state(descriptor)
        return max(state.get(), default=-1) + 1, state

    def _resume(self, state: InProgressPart) -> None:
        found = part_file.resume(state)
        if found is None:
            return
        if isinstance(self._encoder, BulkWriterFactory):
            # The program wrote rows before: that file is as complete as it will ever be.
            self._pending.append(part_file.roll(*found))
            return
        part = OpenPart(state.bucket_id, *found, self._encoder, state.created)
        part.updated = state.updated
        if state.bucket_id in self._open:  # of a subtask that is no more
            self._pending.append(part.roll())
        else:
            self._keep(part)

    # Records ------------------------------------------------------------------------------------------

    def write(self, value: Any, context: SinkFunction.Context) -> None:
        """Write a record into its bucket."""
        bucket_id = self._bucket_of(value, context)
        part = self._open.get(bucket_id)
        if part is None:
            part = self._begin(bucket_id)
        elif self._should_roll(part, value):
            self._roll(part)
            part = self._begin(bucket_id)
        part.write(value)
        part.updated = context.current_processing_time()

    def _begin(self, bucket_id: str) -> OpenPart:
        now = to_millis(self._context.now())
        name = self._new_name(os.path.normpath(os.path.join(self._sink.base_path, bucket_id)))
        part = OpenPart(bucket_id, name, PartStream.create(name.in_progress), self._encoder, now)
        self._keep(part)
        return part

    def _keep(self, part: OpenPart) -> None:
        self._open[part.bucket_id] = part
        self._check_at = min(self._check_at, self._context.now() + self._sink.check_interval / 1000)

    def _new_name(self, folder: str) -> PartName:
        """A name that no part file of this job or of an earlier one has."""
        config = self._sink.file_config
        while True:
            number, self._next_number = self._next_number, self._next_number + 1
            name = f"{config.part_prefix}-{self._context.subtask}-{number}{config.part_suffix}"
            if not os.path.exists(os.path.join(folder, name)):
                return PartName(folder, name, part_file.new_writer())

    def _roll(self, part: OpenPart) -> None:
        self._pending.append(part.roll())
        del self._open[part.bucket_id]

    # Checkpoints --------------------------------------------------------------------------------------

    def flush(self, end_of_input: bool) -> None:
        """At the end of the input all files are rolled, or at least everything is in them."""
        self._ended = end_of_input
        if not end_of_input:
            return
        for part in list(self._open.values()):
            if self._sink.ends_files:
                self._roll(part)
            else:
                part.persist()

    def prepare_commit(self) -> list[PendingPart]:
        """The files that were rolled, also those that are rolled just because of the checkpoint."""
        if self._ended and not self._sink.ends_files and not self._context.checkpointing:
            return []
        policy = self._sink.rolling_policy
        for part in list(self._open.values()):
            if part.is_bulk or policy.should_roll_on_checkpoint(part):
                self._roll(part)
        pending, self._pending = self._pending, []
        return pending

    def snapshot_state(self, checkpoint_id: int) -> list[InProgressPart]:
        """The files that are still in progress."""
        self._counter.update([self._next_number - 1])
        return [part.persist() for part in self._open.values()]

    # Time ---------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When the policy is to be asked."""
        return self._check_at

    def on_time(self, now: float) -> None:
        """Ask the policy about every file."""
        policy = self._sink.rolling_policy
        for part in list(self._open.values()):
            if policy.should_roll_on_processing_time(part, to_millis(now)):
                self._roll(part)
        self._check_at = now + self._sink.check_interval / 1000 if self._open else math.inf

    def close(self) -> None:
        """Leave files in progress where they are, unless nobody can ever go on with them.

        The older sink leaves them at the end of the input, too, if there are no checkpoints.
        """
        are_left = self._ended and not self._sink.ends_files
        for part in self._open.values():
            if part.is_bulk and not are_left:
                part.throw_away()
            else:
                part.abandon()
