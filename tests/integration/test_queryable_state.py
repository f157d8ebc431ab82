"""State of jobs on Spark, asked for while they run, while a task waits for its receivers, and while a killed one comes back."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import SparkEnvironment
from support import until

from firesteel.common import Types, WatermarkStrategy
from firesteel.datastream import DiscardingSink, KeyedProcessFunction, MapFunction, RuntimeContext
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.queryable_state import QueryableStateClient

pytestmark = pytest.mark.spark

KEYS = 10
RECORDS = 20_000
PAYLOAD_BYTES = 2_000
COUNT = ValueStateDescriptor("count", Types.LONG())


class Counting(KeyedProcessFunction):
    """Counts records by key, for those who ask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("counts")
        self._count = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        yield value


class Gated(MapFunction):
    """Keeps its first record until a file is there."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    def map(self, value: Any) -> int:
        while not self._gate.exists():
            time.sleep(0.01)
        return int(value[0])


class Padded(MapFunction):
    """Pairs of a key and bytes that cannot be compressed, so that a few thousand fill all buffers behind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._noise = random.Random(0).randbytes(1000 * PAYLOAD_BYTES)

    def map(self, value: int) -> tuple[int, bytes]:
        start = value % 1000 * PAYLOAD_BYTES
        return value % KEYS, self._noise[start : start + PAYLOAD_BYTES]


def client_of(job: MasterJobClient) -> QueryableStateClient:
    at = urlsplit(job.rest_url)
    assert at.hostname is not None
    assert at.port is not None
    return QueryableStateClient(at.hostname, at.port, timeout=120)


def counts(client: QueryableStateClient, job: MasterJobClient) -> list[int]:
    """Of all keys; they are in both subtasks."""
    futures = [
        client.get_kv_state(job.get_job_id(), "counts", key, Types.LONG(), COUNT) for key in range(KEYS)
    ]
    return [future.result().value() for future in futures]


def test_a_task_that_waits_for_its_receivers_answers(environment: SparkEnvironment, tmp_path: Path) -> None:
    options = {
        "queryable-state.enable": "true",
        "rest.port": "0",
        "firesteel.metrics.interval": "50 ms",
        "firesteel.shuffle.buffer": "64 kb",
    }
    env = environment(2, **options)
    gate = tmp_path / "gate"
    padded = env.from_sequence(1, RECORDS).map(Padded())
    counted = padded.key_by(lambda pair: pair[0], key_type=Types.LONG()).process(Counting()).name("counting")
    counted.rebalance().map(Gated(gate)).add_sink(DiscardingSink())
    job = env.execute_async("waits")
    assert isinstance(job, MasterJobClient)

    def all_wait() -> bool:
        assert not job.is_over()
        reports = job.snapshot().reports
        shares = [report.back_pressure or 0.0 for task, report in reports.items() if task.stage == 1]
        return len(shares) == 2 and min(shares) > 0.99

    until(all_wait, "the counting tasks do nothing but wait for the gate")
    with client_of(job) as client:
        seen = counts(client, job)
        assert all(seen), "every key has its count, of whichever task"
        assert sum(seen) < RECORDS, "the rest waits before them"
        assert all_wait(), "and the answers came while the tasks waited"
    gate.touch()
    job.cancel().result()


def test_a_job_whose_task_is_killed_answers_again(environment: SparkEnvironment, tmp_path: Path) -> None:
    options = {
        "queryable-state.enable": "true",
        "rest.port": "0",
        "state.backend.type": "disk",
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(2, **options)
    source = DataGeneratorSource(lambda number: number % KEYS, None, RateLimiterStrategy.per_second(2000))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
    numbers.key_by(lambda number: number, key_type=Types.LONG()).process(Counting()).add_sink(
        DiscardingSink()
    )
    job = env.execute_async("killed")
    assert isinstance(job, MasterJobClient)

    def completed() -> int:
        return job.snapshot().statistics.checkpoints.completed

    until(lambda: completed() > 0, "a checkpoint is complete")
    with client_of(job) as client:
        before = counts(client, job)
        seen = completed()
        until(lambda: completed() > seen + 1, "a checkpoint has begun and ended since")
        victims = [each.pid for each in job.task_statuses() if each.task.stage == 1]
        assert victims[0] is not None
        os.kill(victims[0], signal.SIGKILL)
        until(lambda: job.snapshot().attempt > 1, "the job starts again")
        after = counts(client, job)
    assert all(new >= old for new, old in zip(after, before, strict=True)), "what a checkpoint had is there"
    job.cancel().result()
