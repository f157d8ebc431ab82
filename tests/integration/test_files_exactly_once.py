"""From files to files on Spark, with a worker that dies on the way, and in batch mode."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment
from pyarrow import parquet

from firesteel.common import Encoder, Types, WatermarkStrategy
from firesteel.datastream import MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from firesteel.datastream.connectors import BucketAssigner, FileSink, FileSource, RollingPolicy, StreamFormat
from firesteel.datastream.formats.parquet import ParquetBulkWriters

pytestmark = pytest.mark.spark

FILES, LINES = 8, 150


def write_input(directory: Path) -> list[str]:
    directory.mkdir()
    for number in range(FILES):
        text = "".join(f"{number}-{line}\n" for line in range(LINES))
        (directory / f"{number}.txt").write_text(text)
    return [f"{number}-{line}" for number in range(FILES) for line in range(LINES)]


def finished(directory: Path) -> list[str]:
    files = [path for path in directory.rglob("part-*") if path.is_file()]
    return [line for path in files for line in path.read_text().splitlines()]


LINE = Types.ROW_NAMED(["line"], [Types.STRING()])


def in_parquet(directory: Path) -> list[str]:
    tables = [parquet.read_table(path) for path in directory.glob("part-*")]
    return [line for table in tables for line in table.column("line").to_pylist()]


class DiesOnce(MapFunction):
    """Takes its time, and kills its own process when it has seen a checkpoint's results finished."""

    def __init__(self, directory: str) -> None:
        self._output = Path(directory) / "out"
        self._grave = Path(directory) / "died"

    def map(self, value: Any) -> Any:
        time.sleep(0.004)
        if not self._grave.exists() and any(self._output.glob("part-*")):
            self._grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value


def text_sink(directory: Path) -> FileSink:
    return (
        FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=400))
        .build()
    )


def parquet_sink(directory: Path) -> FileSink:
    return (
        FileSink.for_bulk_format(str(directory / "out"), ParquetBulkWriters.for_row_type(LINE))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )


def build(env: StreamExecutionEnvironment, directory: Path, function: Any, sink: FileSink) -> None:
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(directory / "in")
    ).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").map(function)
    is_text = isinstance(sink.encoder, Encoder)
    (lines if is_text else lines.map(lambda line: (line,), LINE)).rebalance().sink_to(sink)


FORMATS = pytest.mark.parametrize(
    ("sink_to", "read"), [(text_sink, finished), (parquet_sink, in_parquet)], ids=["text", "parquet"]
)


@FORMATS
def test_lines_are_written_once_although_a_worker_is_killed(
    environment: SparkEnvironment, tmp_path: Path, sink_to: Any, read: Any
) -> None:
    expected = write_input(tmp_path / "in")
    options = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(1, **options)
    build(env, tmp_path, DiesOnce(str(tmp_path)), sink_to(tmp_path))
    env.execute()
    assert (tmp_path / "died").exists()
    assert Counter(read(tmp_path / "out")) == Counter(expected)


@FORMATS
def test_batch_jobs_finish_all_files_at_their_end(
    environment: SparkEnvironment, tmp_path: Path, sink_to: Any, read: Any
) -> None:
    expected = write_input(tmp_path / "in")
    env = environment(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    build(env, tmp_path, lambda line: line, sink_to(tmp_path))
    env.execute()
    assert Counter(read(tmp_path / "out")) == Counter(expected)
