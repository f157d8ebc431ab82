"""Local recovery on Spark: a task whose process was killed reads its state from the disk of its machine."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment
from support import until

from firesteel.common import Types, WatermarkStrategy
from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.datastream import DiscardingSink, KeyedProcessFunction, RuntimeContext
from firesteel.datastream.functions import CheckpointListener
from firesteel.datastream.state import ValueStateDescriptor

KEYS = 7
FAR_AWAY = 10_000_000


class DiesOnce(KeyedProcessFunction, CheckpointListener):
    """Counts the numbers of its keys, which come in order. Kills its process after a checkpoint with state in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen = 0
        self._may_die = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._may_die = self._seen > 100

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        died = self._directory / "died"
        if self._may_die and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        assert count == value // KEYS + 1, f"number {value} is counted as {count}"
        self._seen += 1
        if self._seen == 100 and died.exists():
            (self._directory / "goes on").touch()
        yield value


@pytest.mark.spark
def test_a_killed_task_is_restored_from_its_local_copy(
    environment: SparkEnvironment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    env = environment(
        1,
        **{
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.incremental": "true",
            "state.backend.local-recovery": "true",
            "taskmanager.state.local.root-dirs": str(tmp_path / "local"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "10 ms",
        },
    )
    source = DataGeneratorSource(lambda n: n, FAR_AWAY, RateLimiterStrategy.per_second(1000))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % KEYS).process(DiesOnce(tmp_path)).add_sink(DiscardingSink())
    client = env.execute_async("dies once")

    def goes_on() -> bool:
        assert not client.is_over(), client.wait()
        return (tmp_path / "goes on").exists()

    def copies_read() -> bool:
        said = "\n".join(record.getMessage() for record in caplog.records)
        counts = re.findall(
            r"local copies of keyed state were read for (\d+) segment\(s\), (\d+) bytes", said
        )
        return any(int(segments) > 0 and int(size) > 0 for segments, size in counts)

    until(goes_on, "the job goes on after its task was killed")
    until(copies_read, "the task says that it was restored from local copies")  # its words may come later
    client.cancel().result()

    def copies() -> list[Path]:
        return [path for path in (tmp_path / "local").rglob("*") if path.is_file()]

    until(lambda: not copies(), "the copies of a cancelled job are removed")
