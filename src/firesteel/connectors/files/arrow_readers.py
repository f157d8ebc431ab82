"""Parquet and ORC files: read by row groups and stripes, a batch of columns at a time.

A split has the row groups that begin in it. Reading resumes at the number of a row group and a number of records in it: what
comes before them is passed over as columns, without making records of it.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import orc, parquet

from firesteel.common._override import override
from firesteel.common.errors import FileContentError, ProgramError
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.files.arrow_records import Bound, Shape
from firesteel.connectors.files.file_system import open_input
from firesteel.connectors.files.formats import Block, BulkFormat, StreamFormat
from firesteel.connectors.files.splits import FileSplit

#: How many records are made at once.
BATCH_RECORDS = 2048


class OpenGroups:
    """An open file with groups of records: what it has, where groups begin, and the batches of each."""

    schema: pa.Schema

    @abstractmethod
    def starts(self) -> list[int]:
        """Where groups begin, in bytes; for a format that does not tell, any places will do that stay the same."""

    @abstractmethod
    def batches(self, group: int, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        """Some columns of a group, at most ``size`` records at a time."""


class ParquetGroups(OpenGroups):
    """The row groups of a Parquet file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = parquet.ParquetFile(file)
        self.schema = self._file.schema_arrow

    @override
    def starts(self) -> list[int]:
        return [self._start(group) for group in range(self._file.metadata.num_row_groups)]

    def _start(self, group: int) -> int:
        described = self._file.metadata.row_group(group)
        starts: list[int] = []
        for index in range(described.num_columns):
            column = described.column(index)
            starts.append(column.dictionary_page_offset or column.data_page_offset)
        return min(starts)

    @override
    def batches(self, group: int, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        return self._file.iter_batches(size, row_groups=[group], columns=columns, use_threads=False)  # type: ignore[no-any-return]


class OrcGroups(OpenGroups):
    """The stripes of an ORC file. Where they begin pyarrow does not tell: they are taken to be equally large."""

    def __init__(self, file: BinaryIO) -> None:
        self._bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._file = orc.ORCFile(file)
        self.schema = self._file.schema

    @override
    def starts(self) -> list[int]:
        count = self._file.nstripes
        return [self._bytes * stripe // count for stripe in range(count)]

    @override
    def batches(self, group: int, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        stripe = self._file.read_stripe(group, columns)
        for start in range(0, stripe.num_rows, size):
            yield stripe.slice(start, size)


class _Groups:
    """Reads files that have groups of records."""

    format_name: str
    gives_away = True

    def __init__(self, shape: Shape, groups: type[Any], name: str, batch_size: int = BATCH_RECORDS) -> None:
        if batch_size < 1:
            raise ProgramError(f"the size of batches must be at least 1, got {batch_size}")
        self._shape = shape
        self._groups = groups
        self._name = name
        self._batch_size = batch_size

    def is_splittable(self, path: str) -> bool:
        """Between row groups, or stripes."""
        return True

    def get_produced_type(self) -> TypeInformation | None:
        """What the schema declares."""
        return self._shape.type_info()

    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """A block for every batch."""
        with open_input(split.path) as file, self._explained(split.path):
            groups = self._groups(file)
            bound = self._shape.bind(groups.schema, split.path)
            for group in _groups_of(split, groups.starts()):
                yield from self._group_blocks(groups, group, bound, split)

    def _group_blocks(
        self, groups: OpenGroups, group: int, bound: Bound, split: FileSplit
    ) -> Iterator[Block]:
        skip = split.skip if group == split.offset else 0
        row = passed = 0
        for batch in groups.batches(group, bound.columns, self._batch_size):
            size = batch.num_rows
            if row + size <= skip:
                passed += size
            else:
                yield Block(bound.records(batch), group, row, passed)
                passed = 0
            row += size
        if passed:  # all of the group was read before: who counts must not count on in the next one
            yield Block([], group, row, passed)

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise FileContentError(
                f"it is no {self._name} file that can be read: {error}", file=path
            ) from error
        except OSError as error:
            if error.errno is not None:  # of the disk
                raise
            raise FileContentError(
                f"it is no {self._name} file that can be read: {error}", file=path
            ) from error


def _groups_of(split: FileSplit, starts: list[int]) -> Iterator[int]:
    for group, start in enumerate(starts):
        if split.start <= start < split.end and group >= (split.offset or 0):
            yield group


class GroupsBulkFormat(_Groups, BulkFormat[Any]):
    """As a bulk format."""


class GroupsStreamFormat(_Groups, StreamFormat[Any]):
    """As a stream format."""
