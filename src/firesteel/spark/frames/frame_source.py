"""A DataFrame as a source: the files it was written to, batch by batch.

A DataFrame that is computed twice may come in another order. So it is written once, before the job starts
(`firesteel.spark.frames.frame_files`), and what checkpoints hold are positions in these files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from firesteel.common._override import override
from firesteel.common.errors import FileMissingError
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.spark.frames.arrow_values import batch_reader
from firesteel.spark.frames.record_forms import RecordForm

#: How many batches of a file are one split, at most: some 10,000 rows each, as Spark makes them.
SPLIT_BATCHES = 8


@dataclass(frozen=True, slots=True)
class FrameFile:
    """What one partition of a DataFrame was written to."""

    path: str
    batches: int
    rows: int


@dataclass(frozen=True, slots=True)
class FrameSplit:
    """The batches ``next`` to ``end`` of a file; of the first one ``skip`` rows have been read."""

    path: str
    next: int
    end: int
    skip: int = 0


@dataclass(frozen=True)
class FrameSource(Source[Any]):
    """The rows in some files, in the order of the DataFrame as far as several readers have an order."""

    files: tuple[FrameFile, ...]
    form: RecordForm
    produced_type: TypeInformation | None = None

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the rows."""
        return self.produced_type

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[FrameSplit]:
        """Every reader gets an even share of all splits."""
        splits = [
            FrameSplit(file.path, first, min(first + SPLIT_BATCHES, file.batches))
            for file in self.files
            for first in range(0, file.batches, SPLIT_BATCHES)
        ]
        return splits[subtask::parallelism]

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return FrameReader(self.form)


class FrameReader(SourceReader):
    """Reads one split after the other; in memory is one batch."""

    gives_away = True

    def __init__(self, form: RecordForm) -> None:
        self._form = form
        self._splits: deque[FrameSplit] = deque()
        self._file: _OpenFile | None = None
        self._values: list[Any] = []  # of the batch at hand
        self._stopped = False

    @override
    def add_splits(self, splits: Sequence[FrameSplit]) -> None:
        self._splits.extend(splits)

    @override
    def poll(self, limit: int) -> Polled:
        if self._stopped or not self._splits:
            return Polled([], ended=True)
        split = self._splits[0]
        if not self._values:
            self._values = self._read(split)
        values = self._values[split.skip : split.skip + limit]
        self._advance(split, split.skip + len(values))
        return Polled(values, ended=not self._splits)

    def _read(self, split: FrameSplit) -> list[Any]:
        if self._file is None or self._file.path != split.path:
            self._close_file()
            self._file = _OpenFile(split.path, self._form)
        return self._file.batch(split.next)

    def _advance(self, split: FrameSplit, position: int) -> None:
        if position < len(self._values):
            self._splits[0] = replace(split, skip=position)
            return
        self._values = []
        if split.next + 1 < split.end:
            self._splits[0] = replace(split, next=split.next + 1, skip=0)
        else:
            self._splits.popleft()

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[FrameSplit]:
        return list(self._splits)

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _OpenFile:
    def __init__(self, path: str, form: RecordForm) -> None:
        self.path = path
        try:
            self._mapped = pa.memory_map(path)
        except FileNotFoundError as error:
            raise FileMissingError(
                f"the file {path} with rows of a DataFrame is not there; from_spark(directory=...) keeps them in a "
                "directory that all workers share and that outlives the program, until a job with them has finished"
            ) from error
        self._file = pa.ipc.open_file(self._mapped)
        self._read = batch_reader(self._file.schema, form)

    def batch(self, number: int) -> list[Any]:
        return self._read(self._file.get_batch(number))

    def close(self) -> None:
        self._mapped.close()
