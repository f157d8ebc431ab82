"""SparkSink: the records of each checkpoint, written by a function of the program's through Spark, in the driver.

Writers and committers run in tasks, and the session is in the driver. So writers stage the records of a checkpoint as
files; when it is complete, committers release them; and a thread of the driver writes what was released, checkpoint after
checkpoint (`firesteel.spark.frames.checkpoint_writer`). They meet in a folder: `firesteel.spark.frames.staging`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from firesteel.common._folder_sync import sync_folder
from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError, UserCodeError, WrongArgumentError, short_repr
from firesteel.common.serialization import BulkWriter
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.files.arrow_writers import ParquetWriterFactory
from firesteel.connectors.files.bulk_batches import in_batches
from firesteel.contracts.sink import (
    CommitRequest,
    Committer,
    DriverPart,
    Sink,
    SinkContext,
    SinkFunction,
    SinkWriter,
)
from firesteel.spark.frames.declared_rows import DeclaredRows, declared_rows
from firesteel.spark.frames.staging import Home, StagedRecords, Staging, writers_at_once

IN = TypeVar("IN", contravariant=True, default=Any)

WriteFrame = Callable[[Any, int], object]

#: In a job without checkpoints all records are written at its end, as if they were those of this checkpoint.
WITHOUT_CHECKPOINTS = 0
#: So many checkpoints may wait for the driver before tasks wait for it.
MAX_WAITING = 8
_LOOK_SECONDS = 0.05


class SparkSink(Sink[IN]):
    """Calls ``write(frame, checkpoint_id)`` in the driver, once for the records of each checkpoint.

    ``frame`` is a DataFrame of Spark; it can be read until ``write`` returns. Checkpoints come in order, those without
    records are left out. When the driver is killed while it writes, or before it has noted that it has written, ``write``
    is called again with the same records and the same id: like the function of Structured Streaming's ``foreachBatch`` it
    must make the second time undo or skip the first. Writing each checkpoint to a path of its own, with ``mode("overwrite")``,
    does that.

    ``staging_directory`` belongs to this sink alone. All workers and the driver see it, and it lives as long as the job's
    checkpoints. ``schema`` says which columns there are, where the stream has no declared type: type information, a class
    with fields, a ``StructType`` or a ``pyarrow.Schema``.
    """

    def __init__(self, write: WriteFrame, staging_directory: str, schema: Any = None) -> None:
        if not callable(write):
            raise WrongArgumentError(
                f"SparkSink needs a function that takes a DataFrame and a checkpoint id, got {short_repr(write)}"
            )
        if "://" in str(staging_directory):
            raise ProgramError(
                f"the staging directory of a SparkSink is a path of the file system that all workers share, got "
                f"{str(staging_directory)!r}"
            )
        self._write: WriteFrame | None = write
        self.staging_directory = os.path.abspath(staging_directory)
        self._given = None if schema is None else declared_rows(None, schema)

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Without the function: only the driver calls it, and it may well hold a session, which cannot travel."""
        return {**self.__dict__, "_write": None}

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter[IN]:
        return _StagingWriter(context, self.staging_directory, self._rows(context.input_type))

    @override
    def create_committer(self, context: SinkContext) -> Committer:
        return _ReleasingCommitter(Staging(self.staging_directory), context)

    @override
    def create_driver_part(self, input_type: TypeInformation | None) -> DriverPart:
        """The thread that writes."""
        from firesteel.spark.frames.checkpoint_writer import CheckpointWriter

        assert self._write is not None
        schema = self._rows(input_type).arrow_schema()
        return CheckpointWriter(Staging(self.staging_directory), self._write, schema)

    def _rows(self, input_type: TypeInformation | None) -> DeclaredRows:
        rows = self._given or declared_rows(input_type)
        if rows is None:
            raise ProgramError(
                "SparkSink must know the columns of its records, and the stream has no declared type: declare it, for "
                "example with map(..., output_type=Types.ROW_NAMED(names, types)), or give SparkSink(schema=...)"
            )
        return rows


class _StagingWriter(SinkWriter[Any]):
    """Writes one Parquet file for each checkpoint."""

    def __init__(self, context: SinkContext, directory: str, rows: DeclaredRows) -> None:
        self._home = Staging(directory).home(context.job_id)
        self._subtask_of = (context.subtask, context.parallelism)
        self._single = rows.single
        self._factory = ParquetWriterFactory(rows.row_type)
        self._part: _PartFile | None = None
        self._ended = False

    @override
    def write(self, value: Any, context: SinkFunction.Context) -> None:
        if self._part is None:
            self._part = _PartFile(self._home, self._factory)
        self._part.add((value,) if self._single else value)

    @override
    def flush(self, end_of_input: bool) -> None:
        self._ended = self._ended or end_of_input

    @override
    def prepare_commit(self) -> list[StagedRecords]:
        """What was written, also if it was nothing: the driver has to know that no more will come."""
        part, self._part = self._part, None
        parts, rows = ((), 0) if part is None else ((part.finish(),), part.rows)
        return [StagedRecords(str(self._home.path), *self._subtask_of, parts, rows, self._ended)]

    @override
    def close(self) -> None:
        """What no checkpoint has is not needed any more."""
        if self._part is not None:
            self._part.discard()


class _PartFile:
    """A part file that is being written."""

    def __init__(self, home: Home, factory: ParquetWriterFactory) -> None:
        self._path = home.new_part()
        self._file: BinaryIO = open(self._path, "xb")  # noqa: SIM115 - closed by finish() or discard()
        self._writer: BulkWriter = in_batches(factory.create(self._file))
        self.rows = 0

    def add(self, row: Any) -> None:
        self._writer.add_element(row)
        self.rows += 1

    def finish(self) -> str:
        self._writer.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_folder(self._path.parent)
        return str(self._path)

    def discard(self) -> None:
        # A Parquet writer that was not finished would write into the closed file when it is collected. What keeps it from
        # finishing is known already: the job has failed with it.
        with contextlib.suppress(Exception):
            self._writer.finish()
        self._file.close()
        self._path.unlink(missing_ok=True)


class _ReleasingCommitter(Committer):
    """Releases what completed checkpoints hold; at the end of the input it waits until the driver has written all of it."""

    def __init__(self, staging: Staging, context: SinkContext) -> None:
        self._staging = staging
        if context.subtask == 0:
            staging.forget_failure()  # this attempt is there to try again

    @override
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        for request in requests:
            staged: StagedRecords = request.get_committable()
            checkpoint_id = request.get_checkpoint_id()
            number = WITHOUT_CHECKPOINTS if checkpoint_id is None else checkpoint_id
            Home(staged.home).release(number, staged)
            self._await_driver(Home(staged.home), number if staged.last else None)

    def _await_driver(self, home: Home, number: int | None) -> None:
        """Wait until the driver is not too far behind, or has written a checkpoint."""
        at_once = writers_at_once.get(str(self._staging.directory))
        if at_once is not None:
            at_once()
            return
        while True:
            failure = self._staging.failure()
            if failure is not None:
                raise UserCodeError(
                    failure.reason,
                    operator=SparkSink.__name__,
                    function=failure.function,
                    traceback_text=failure.traceback,
                )
            if home.waiting() <= MAX_WAITING if number is None else home.written_up_to() >= number:
                return
            time.sleep(_LOOK_SECONDS)
