"""A stream in files, exactly once: part files in buckets, finished when their checkpoint is completed."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from firesteel.common.time import to_millis
from firesteel.common.typeinfo import Types
from firesteel.connectors.files import part_file
from firesteel.connectors.files.bulk_batches import in_batches
from firesteel.connectors.files.compactors import FileCompactor, FileCompactStrategy
from firesteel.connectors.files.date_patterns import DatePattern
from firesteel.connectors.files.file_system import FileSystem, file_system_of
from firesteel.connectors.files.gathered_parts import GatheredParts
from firesteel.connectors.files.part_file import (
    Committable,
    CompactedPart,
    FinishedParts,
    GatheredPart,
    InProgressPart,
    PartName,
    PartStream,
    PendingPart,
)
from firesteel.connectors.files.paths import joined
from firesteel.connectors.files.rolling import DefaultRollingPolicy, OutputFileConfig, RollingPolicy
from firesteel.contracts.sink import CommitRequest, Committer, Sink, SinkContext, SinkFunction, SinkWriter
from firesteel.contracts.state import ListState, ListStateDescriptor

#: What a writer puts into checkpoints.
WriterState = InProgressPart | GatheredPart
#: Files in object stores are closed before they are too large to be copied there; S3 copies up to 5 GB.
MAX_OBJECT_BYTES = 4 << 30

#: The highest number that a part file of any subtask has; every subtask continues behind it.
_COUNTER = "\0part-counter"


# Buckets ------------------------------------------------------------------------------------------------


class BucketAssigner(ABC):
    """Chooses the bucket of each record."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        """The folder, relative to the base path; an empty text is the base path itself."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All records go to the base path itself."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """A bucket for every hour, or whatever the pattern says, of the time at which records are written."""
        return DateTimeBucketAssigner(format_str, timezone_id)


class BasePathBucketAssigner(BucketAssigner):
    """Knows only one bucket."""

    @override
    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Buckets by the machine's time, named by a date pattern in Java's notation.

    >>> DateTimeBucketAssigner("yyyy/MM/dd", "UTC").bucket_at(0)
    '1970/01/01'
    """

    def __init__(self, format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> None:
        self._pattern = DatePattern(format_str, timezone_id)
        self._second = -1
        self._bucket = ""

    @override
    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        """The bucket of this moment; worked out once in a second."""
        second = context.current_processing_time() // 1000
        if second != self._second:
            self._second, self._bucket = second, self.bucket_at(second)
        return self._bucket

    def bucket_at(self, second: float) -> str:
        """The bucket at a time in seconds since the epoch."""
        return self._pattern.format(second)


# The sink -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartFileSink(Sink):
    """Writes below an absolute ``base_path``. Made by the builders of the public API.

    ``encoder`` is an `Encoder`, for records one by one, or a `BulkWriterFactory`. ``check_interval`` (milliseconds)
    is how often the policy is asked whether time has come for a file. ``ends_files``: at the end of the input all
    files are finished, with checkpoints or without. ``file_system`` is another one in simulations only. With ``compaction``
    closed files wait until it is due, and ``compactor`` makes one of those of a bucket.

    A file of a bulk format cannot be resumed at a length, because it can only be read as a whole, and a file in an object store
    cannot be appended to. So these are closed at every checkpoint, whatever the policy says, and never in one while they are in
    progress.
    """

    base_path: str
    encoder: Encoder | BulkWriterFactory
    bucket_assigner: BucketAssigner = field(default_factory=DateTimeBucketAssigner)
    rolling_policy: RollingPolicy = field(default_factory=DefaultRollingPolicy)
    file_config: OutputFileConfig = field(default_factory=OutputFileConfig)
    check_interval: int = 60 * 1000
    ends_files: bool = True
    file_system: FileSystem | None = None
    compaction: FileCompactStrategy | None = None
    compactor: FileCompactor | None = None

    def files_at(self, path: str) -> FileSystem:
        """The file system for a path."""
        return file_system_of(path) if self.file_system is None else self.file_system

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter:
        """The writer of one subtask."""
        return FileWriter(self, context, ())

    @override
    def restore_writer(self, context: SinkContext, states: Sequence[WriterState]) -> SinkWriter:
        """The writer of one subtask, which resumes files in progress."""
        return FileWriter(self, context, states)

    @override
    def create_committer(self, context: SinkContext) -> Committer:
        return FileCommitter(self, context)


class FileCommitter(Committer):
    """Finishes files that were closed."""

    def __init__(self, sink: PartFileSink, context: SinkContext) -> None:
        self._sink = sink
        self._id = part_file.new_writer()
        # Without checkpoints nobody comes back, so nobody asks what was finished.
        self._keeps_proofs = context.checkpointing
        self._proofs: dict[FileSystem, FinishedParts] = {}

    @override
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Give every file its final name."""
        by_place: dict[FileSystem, list[CommitRequest]] = {}
        for request in requests:
            folder = _part_of(request.get_committable()).name.folder
            by_place.setdefault(self._sink.files_at(folder), []).append(request)
        for files, group in by_place.items():
            self._finish(files, group)

    def _finish(self, files: FileSystem, requests: Sequence[CommitRequest]) -> None:
        committables = [request.get_committable() for request in requests]
        proofs = self._proofs_in(files, committables[0]) if self._keeps_proofs else None
        for request, was_new in zip(requests, part_file.finish(files, committables, proofs), strict=True):
            if not was_new:
                request.signal_already_committed()

    def _proofs_in(self, files: FileSystem, committable: Committable) -> FinishedParts:
        """They are where the files are: a program that writes elsewhere now may still have some to finish."""
        if files not in self._proofs:
            base = self._sink.base_path
            folder = base if files is self._sink.files_at(base) else _part_of(committable).name.folder
            self._proofs[files] = FinishedParts(files, folder, self._id)
        return self._proofs[files]


def _part_of(committable: Committable) -> PendingPart:
    return committable.part if isinstance(committable, CompactedPart) else committable


@dataclass(frozen=True, slots=True)
class ClosedPart:
    """A part file that is to be compacted."""

    files: FileSystem
    part: PendingPart

    def open(self) -> BinaryIO:
        """Open it, to read from its beginning."""
        return part_file.open_gathered(self.files, self.part)


def _no_records(record: Any) -> None:
    raise ProgramError(
        "a file compactor that writes records must say so: its property writes_records must be True"
    )


def _before_too_large(should_roll: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda part, element: part.size >= MAX_OBJECT_BYTES or should_roll(part, element)


class OpenPart:
    """A part file in progress and the bucket it is in; times in milliseconds."""

    def __init__(
        self,
        files: FileSystem,
        bucket_id: str,
        name: PartName,
        stream: PartStream,
        encoder: Encoder | BulkWriterFactory,
        created: int,
    ) -> None:
        self.bucket_id = bucket_id
        self.created = self.updated = created
        self._files = files
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
    def can_be_resumed(self) -> bool:
        """Whether it can be resumed after a failure; not, when it can only be read or written as a whole."""
        return self._bulk is None and self._files.resumes

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
        """Make sure that what was written survives, and say how to resume behind it."""
        self._stream.persist()
        return InProgressPart(self.bucket_id, self._name, self.size, self.created, self.updated)

    def abandon(self) -> None:
        """Leave the file as it is."""
        self._stream.abandon()

    def delete(self) -> None:
        """Remove the file, of which no checkpoint knows; if that does not work, it stays, hidden as it is."""
        self._stream.abandon()
        with contextlib.suppress(OSError):
            self._files.remove(self._name.in_progress)


class FileWriter(SinkWriter):
    """Writes the records of one subtask, one file in progress for each bucket."""

    def __init__(self, sink: PartFileSink, context: SinkContext, states: Sequence[WriterState]) -> None:
        self._sink = sink
        self._files = sink.files_at(sink.base_path)
        self._files.check_base(sink.base_path)
        self._context = context
        self._id = part_file.new_writer()
        self._encoder = sink.encoder
        if isinstance(sink.encoder, Encoder):
            self._encoder = sink.encoder.bind(context.input_type)
        self._bucket_of = sink.bucket_assigner.get_bucket_id
        policy = sink.rolling_policy.should_roll_on_event
        self._should_roll = policy if self._files.resumes else _before_too_large(policy)
        self._open: dict[str, OpenPart] = {}
        self._pending: list[PendingPart] = []
        self._gathered = GatheredParts(sink.compaction)
        self._ended = False
        self._check_at = math.inf
        self._next_number, self._counter = self._restored_counter()
        for state in states:
            if isinstance(state, GatheredPart):
                self._take_back(state)
            else:
                self._resume(state)

    def _restored_counter(self) -> tuple[int, ListState[int]]:
        descriptor = ListStateDescriptor(_COUNTER, Types.LONG())
        state = self._context.states.get_union_list_state(descriptor)
        return max(state.get(), default=-1) + 1, state

    def _take_back(self, state: GatheredPart) -> None:
        """A file that waits to be compacted; in a program that does not compact any more it waits no longer."""
        if not part_file.still_there(self._sink.files_at(state.part.name.folder), state.part):
            return
        if self._sink.compaction is None:
            self._pending.append(state.part)
        else:
            self._gathered.add(state.part, state.waited)

    def _resume(self, state: InProgressPart) -> None:
        files = self._sink.files_at(state.name.folder)
        resumed = part_file.resume(files, state)
        if resumed is None:
            return
        if isinstance(self._encoder, BulkWriterFactory) or files is not self._files:
            # The program wrote rows before, or wrote elsewhere: that file is as complete as it will ever be.
            self._pending.append(part_file.roll(*resumed))
            return
        part = OpenPart(files, state.bucket_id, *resumed, self._encoder, state.created)
        part.updated = state.updated
        if state.bucket_id in self._open:  # of a subtask that is no more
            self._pending.append(part.roll())
        else:
            self._keep(part)

    # Records ------------------------------------------------------------------------------------------

    @override
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
        name = self._new_name(joined(self._sink.base_path, bucket_id))
        stream = PartStream.create(self._files, name.in_progress)
        part = OpenPart(self._files, bucket_id, name, stream, self._encoder, now)
        self._keep(part)
        return part

    def _keep(self, part: OpenPart) -> None:
        self._open[part.bucket_id] = part
        self._check_at = min(self._check_at, self._context.now() + self._sink.check_interval / 1000)

    def _new_name(self, folder: str, before: str = "") -> PartName:
        """A name that no part file of any job has, whoever else writes into the folder."""
        config = self._sink.file_config
        number, self._next_number = self._next_number, self._next_number + 1
        name = f"{before}{config.part_prefix}-{self._id}-{self._context.subtask}-{number}{config.part_suffix}"
        return PartName(folder, name, self._id)

    def _roll(self, part: OpenPart) -> None:
        self._pending.append(part.roll())
        del self._open[part.bucket_id]

    # Checkpoints --------------------------------------------------------------------------------------

    @override
    def flush(self, end_of_input: bool) -> None:
        """At the end of the input all files are rolled, or at least everything is in them."""
        self._ended = end_of_input
        if not end_of_input:
            return
        for part in list(self._open.values()):
            if self._sink.ends_files or not part.can_be_resumed:
                self._roll(part)
            else:
                part.persist()

    @override
    def prepare_commit(self) -> list[Committable]:
        """The files that were rolled, also those that are rolled just because of the checkpoint; or what they are made into."""
        if self._ended and not self._sink.ends_files and not self._context.checkpointing:
            return []
        policy = self._sink.rolling_policy
        for part in list(self._open.values()):
            if not part.can_be_resumed or policy.should_roll_on_checkpoint(part):
                self._roll(part)
        pending, self._pending = self._pending, []
        if self._sink.compaction is None:
            return list(pending)
        for each in pending:
            self._gathered.add(each)
        return self._compacted(self._gathered.due(self._ended, self._largest))

    @property
    def _largest(self) -> float:
        return math.inf if self._files.resumes else MAX_OBJECT_BYTES

    def _compacted(self, groups: Sequence[Sequence[PendingPart]]) -> list[Committable]:
        """One file for each group, written at the same time if the strategy wants that."""
        assert self._sink.compaction is not None
        names = [self._new_name(group[0].name.folder, "compacted-") for group in groups]
        threads = min(self._sink.compaction.num_compact_threads, len(groups))
        if threads < 2:
            return list(map(self._compact, names, groups))
        with ThreadPoolExecutor(threads, "firesteel-compaction") as pool:
            return list(pool.map(self._compact, names, groups))

    def _compact(self, name: PartName, group: Sequence[PendingPart]) -> CompactedPart:
        assert self._sink.compactor is not None
        files = self._sink.files_at(name.folder)
        stream = PartStream.create(files, name.in_progress)
        compactor = self._sink.compactor
        writer = OpenPart(files, "", name, stream, self._encoder, 0) if compactor.writes_records else None
        inputs = [ClosedPart(files, part) for part in group]
        try:
            compactor.compact(inputs, cast(BinaryIO, stream), _no_records if writer is None else writer.write)
            part = part_file.roll(name, stream) if writer is None else writer.roll()
        except BaseException:
            stream.abandon()
            raise
        return CompactedPart(part, tuple(each.name for each in group))

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[WriterState]:
        """The files that are still in progress, and those that wait to be compacted."""
        self._counter.update([self._next_number - 1])
        return [*(part.persist() for part in self._open.values()), *self._gathered.states()]

    # Time ---------------------------------------------------------------------------------------------

    @override
    def next_deadline(self) -> float:
        """When the policy is to be asked."""
        return self._check_at

    @override
    def on_time(self, now: float) -> None:
        """Ask the policy about every file."""
        policy = self._sink.rolling_policy
        for part in list(self._open.values()):
            if policy.should_roll_on_processing_time(part, to_millis(now)):
                self._roll(part)
        self._check_at = now + self._sink.check_interval / 1000 if self._open else math.inf

    @override
    def close(self) -> None:
        """Leave files in progress where they are, unless nobody can ever resume them.

        The older sink leaves them at the end of the input too, if there are no checkpoints.
        """
        are_left = self._ended and not self._sink.ends_files
        for part in self._open.values():
            if not part.can_be_resumed and not are_left:
                part.delete()
            else:
                part.abandon()
