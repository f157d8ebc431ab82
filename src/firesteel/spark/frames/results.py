"""What a job has written for ``DataStream.to_spark``, as a DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.serialization import BulkWriter, BulkWriterFactory
from firesteel.spark.frames.declared_rows import DeclaredRows
from firesteel.spark.frames.value_columns import RecordColumns


class PickledRecords(BulkWriterFactory):
    """Files of records whose columns nobody knows yet."""

    @override
    def create(self, stream: BinaryIO) -> BulkWriter:
        return _PickleWriter(stream)


class _PickleWriter(BulkWriter):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @override
    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    @override
    def add_elements(self, elements: list[Any]) -> None:
        self._stream.write(cloudpickle.dumps(elements))

    @override
    def flush(self) -> None:
        """Nothing: every batch has been written."""

    @override
    def finish(self) -> None:
        """Nothing: a file ends where it ends."""


def declared_frame(session: SparkSession, files: list[str], rows: DeclaredRows) -> DataFrame:
    """The records of Parquet files."""
    schema = from_arrow_schema(rows.arrow_schema(), prefer_timestamp_ntz=True)
    return session.read.schema(schema).parquet(*files) if files else session.createDataFrame([], schema)


def inferred_frame(session: SparkSession, files: list[str]) -> DataFrame:
    """The records of files of `PickledRecords`; Spark's tasks look at them, once to find types and then for each use."""
    if not files:
        raise ProgramError(
            "to_spark(): the stream had no records, so nobody knows the columns; declare the type of the stream, for "
            "example with map(..., output_type=Types.ROW_NAMED(names, types)), or give to_spark(schema=...)"
        )
    paths = session.sparkContext.parallelize(files, len(files))
    columns = paths.map(_columns_in).reduce(RecordColumns.merged)
    rows = paths.flatMap(lambda path: _rows_in(path, columns))
    return session.createDataFrame(rows, columns.ddl(), verifySchema=False)


def _columns_in(path: str) -> RecordColumns:
    columns = RecordColumns()
    for records in _batches(path):
        columns = columns.merged(RecordColumns.of(records))
    return columns


def _rows_in(path: str, columns: RecordColumns) -> Iterator[tuple[Any, ...]]:
    for records in _batches(path):
        yield from columns.rows(records)


def _batches(path: str) -> Iterator[list[Any]]:
    with Path(path).open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)
