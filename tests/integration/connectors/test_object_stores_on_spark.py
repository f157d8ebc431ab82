"""From objects to objects on Spark, with checkpoints beside them, and a worker that dies on the way."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Encoder, WatermarkStrategy
from firesteel.connectors.files.file_system import list_files
from firesteel.connectors.files.paths import NothingYet
from firesteel.datastream import MapFunction, StreamExecutionEnvironment
from firesteel.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from firesteel_support.servers.s3 import ObjectStore

pytestmark = pytest.mark.spark


class DiesOnce(MapFunction):
    """Takes its time, and kills its own process when it has seen a checkpoint's results finished."""

    def __init__(self, output: str, grave: Path) -> None:
        self._output = output
        self._grave = grave
        self._seen = 0

    def map(self, value: Any) -> Any:
        time.sleep(0.004)
        self._seen += 1
        if self._seen % 25 == 0 and not self._grave.exists() and self._is_something_finished():
            self._grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    def _is_something_finished(self) -> bool:
        try:
            return bool(list_files(self._output))
        except NothingYet:
            return False


def test_lines_are_written_once_although_a_worker_is_killed(
    environment: Callable[..., StreamExecutionEnvironment], s3: ObjectStore, tmp_path: Path
) -> None:
    bucket = s3.make_bucket(f"bucket-{uuid.uuid4().hex[:12]}")
    expected = [f"{number}-{line}" for number in range(6) for line in range(150)]
    for number in range(6):
        s3.put(f"{bucket}/in/{number}", "".join(f"{number}-{line}\n" for line in range(150)).encode())
    options = {
        **s3.options,
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": f"{bucket}/checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(1, **options)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{bucket}/in").build()
    sink = (
        FileSink.for_row_format(f"{bucket}/out", Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    lines.map(DiesOnce(f"{bucket}/out", tmp_path / "died")).rebalance().sink_to(sink)
    env.execute()

    assert (tmp_path / "died").exists()
    name = bucket.removeprefix("s3://")
    found = [s3.get(f"s3://{name}/{key}").decode() for key in s3.keys(f"{bucket}/out/part-")]
    assert Counter(line for text in found for line in text.splitlines()) == Counter(expected)
