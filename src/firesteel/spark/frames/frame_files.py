"""Writes a DataFrame to files that readers of a job can read: by Spark's own tasks, so that no row passes the driver.

Each partition becomes one file of Arrow batches. A task that Spark repeats writes another file, and only files that tasks
have reported belong to the result.
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, VariantType

from firesteel.common.errors import ProgramError, UnsupportedOperationError, WrongArgumentError, short_repr
from firesteel.common.job_client import JobClient
from firesteel.common.job_status import JobStatus
from firesteel.spark.frames.arrow_types import row_type_of
from firesteel.spark.frames.frame_source import FrameFile, FrameSource
from firesteel.spark.frames.places import new_place
from firesteel.spark.frames.record_forms import RecordForm

_REPORT = "partition int, path string, batches int, rows long"


class WrittenFrame:
    """A DataFrame that was written for the jobs of a program, and the place where that is."""

    def __init__(self, source: FrameSource, place: Path, *, outlives: bool) -> None:
        self.source = source
        self._place = place
        self._jobs: list[JobClient] = []
        if outlives:  # others go with the directory of the process
            atexit.register(self._remove_if_done, os.getpid())

    def used_by(self, job: JobClient) -> None:
        """Note a job that reads the files; files in a given directory stay unless all jobs noted finish."""
        self._jobs.append(job)

    def _remove_if_done(self, process: int) -> None:
        """A job that did not finish may be continued by another program, at positions in these files."""
        if os.getpid() == process and all(_has_finished(job) for job in self._jobs):
            shutil.rmtree(self._place, ignore_errors=True)


def _has_finished(job: JobClient) -> bool:
    return bool(job.get_job_status().result() is JobStatus.FINISHED)


def written_frame(frame: Any, directory: str | None, kind: Any) -> WrittenFrame:
    """Write a DataFrame to files, as a source of records of a kind."""
    form = RecordForm(kind)
    _check(frame, form)
    place = new_place(frame.sparkSession, directory, "from_spark()")
    try:
        files = _write(frame, str(place))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    source = FrameSource(files, form, row_type_of(schema, form))
    return WrittenFrame(source, place, outlives=directory is not None)


def _check(frame: Any, form: RecordForm) -> None:
    if not isinstance(frame, DataFrame):
        remedy = (
            "; Spark Connect's DataFrames have no tasks that could share a file system with the job"
            if "connect" in type(frame).__module__
            else ""
        )
        raise WrongArgumentError(f"from_spark() needs a Spark DataFrame, got {short_repr(frame)}{remedy}")
    if frame.isStreaming:
        raise UnsupportedOperationError(
            "from_spark() reads batch DataFrames, and this one is a stream of Structured Streaming, which runs as micro-"
            "batches of its own with positions of its own: nobody could go back to them after a failure. Read what it reads "
            "with a source here (files: FileSource, Kafka: KafkaSource), or have its query write files with "
            "writeStream.format('parquet') that a FileSource with monitor_continuously() reads"
        )
    names = frame.columns
    if not names:
        raise ProgramError("from_spark(): the DataFrame has no columns, so there is nothing to read")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProgramError(
            f"from_spark(): the DataFrame has several columns with the name {', '.join(map(repr, twice))}; give them "
            "different names with alias() or toDF()"
        )
    form.check(names, "rows of the DataFrame")
    _check_types(frame.schema)


def _check_types(schema: StructType) -> None:
    for field in schema:
        problem = "its binary form means nothing outside of Spark"
        if not isinstance(field.dataType, VariantType):
            try:
                to_arrow_schema(StructType([field]), timezone="UTC")
            except PySparkException as error:
                problem = str(error)
            else:
                continue
        raise ProgramError(
            f"from_spark(): column {field.name!r} is {field.dataType.simpleString()}, for which there is no Python value "
            f"({problem}); cast it, for example to a string"
        )


def _write(frame: DataFrame, directory: str) -> tuple[FrameFile, ...]:
    reports = frame.mapInArrow(_partition_writer(directory), _REPORT).collect()
    ordered = sorted(reports, key=lambda report: report["partition"])
    return tuple(FrameFile(report["path"], report["batches"], report["rows"]) for report in ordered)


def _partition_writer(directory: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    # Everything it needs is in it, so that executors need nothing but PySpark.
    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import os as files
        import uuid as unique

        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        path = f"{directory}/{partition:08d}-{unique.uuid4().hex}.arrow"
        writer, count, rows = None, 0, 0
        with open(path, "xb") as file:
            for batch in batches:
                if batch.num_rows == 0:
                    continue
                if writer is None:
                    options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
                    writer = pyarrow.ipc.new_file(file, batch.schema, options=options)
                writer.write_batch(batch)
                count, rows = count + 1, rows + batch.num_rows
            if writer is not None:
                writer.close()
            file.flush()
            files.fsync(file.fileno())
        if writer is None:
            files.unlink(path)
            return
        report = {"partition": [partition], "path": [path], "batches": [count], "rows": [rows]}
        kinds = [pyarrow.int32(), pyarrow.string(), pyarrow.int32(), pyarrow.int64()]
        schema = pyarrow.schema(list(zip(report, kinds, strict=True)))
        yield pyarrow.RecordBatch.from_pydict(report, schema)

    return write
