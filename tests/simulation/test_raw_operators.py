"""Programs with operators of one's own that fail and resume from checkpoints: every record counts exactly once."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream.functions import MapFunction, RuntimeContext
from firesteel.datastream.operators import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OneInputStreamOperator,
    TwoInputStreamOperator,
)
from firesteel.datastream.state import ListStateDescriptor, ValueStateDescriptor
from firesteel.testing import simulated_environment
from firesteel_support.ledger import Ledger, LedgerSink

NUMBERS = 60
KEYS = 5


class Numbers(Source):
    """Numbers in one split, with a checkpoint after every few."""

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def splits_of(self, subtask: int, parallelism: int) -> Sequence[int]:
        return [0] if subtask == 0 else []

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _Reader(context)


class _Reader(SourceReader):
    def __init__(self, context: SourceReaderContext) -> None:
        self._wake = context.wake
        self._next = NUMBERS
        self._left = 7
        self._awaited: int | None = None

    def add_splits(self, splits: Sequence[int]) -> None:
        (self._next,) = splits

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        if self._left == 0 and self._awaited is None:
            self._awaited = checkpoint_id
        return [self._next] if self._next < NUMBERS else []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._awaited is not None and checkpoint_id >= self._awaited:
            self._left, self._awaited = 7, None
            self._wake()

    def poll(self, limit: int) -> Polled:
        if self._next == NUMBERS:
            return Polled([], ended=True)
        if self._left == 0:
            return Polled([], retry_at=math.inf)
        self._next += 1
        self._left -= 1
        return Polled([self._next - 1])


class FailsTwice(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._attempt = runtime_context.get_attempt_number()

    def map(self, value: Any) -> Any:
        if self._attempt < 2 and value == 20 + 17 * self._attempt:
            raise ValueError("on purpose")
        return value


class InThrees(OneInputStreamOperator):
    """Lets numbers go three at a time; those that wait are state of the subtask, or leave before the barrier."""

    def __init__(self, leave: bool) -> None:
        self._leave = leave
        self._waiting: list[int] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("waiting", Types.LONG())
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        self._waiting = list(self._state.get())

    def process_element(self, value: Any, timestamp: int | None) -> None:
        self._waiting.append(value)
        if len(self._waiting) >= 3:
            self.finish()

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        if self._leave:
            self.finish()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._waiting)

    def finish(self) -> None:
        for value in self._waiting:
            self.output.collect(value)
        self._waiting = []


class Number(TwoInputStreamOperator):
    """Numbers the records of each key, over both inputs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: Any, timestamp: int | None) -> None:
        self._number(value)

    def process_element2(self, value: Any, timestamp: int | None) -> None:
        self._number(value)

    def _number(self, value: int) -> None:
        self._count.update((self._count.value() or 0) + 1)
        self.output.collect((self.get_current_key(), value, self._count.value()))


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"test {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


@pytest.mark.parametrize("backend", ["hashmap", "disk"])
@pytest.mark.parametrize("leave", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_record_counts_once(tmp_path: Path, ledger: str, seed: int, leave: bool, backend: str) -> None:
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.incremental": "true" if seed % 2 else "false",
        "state.backend.type": backend,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = simulated_environment(seed, 1 + seed % 3, Configuration.from_dict(options))
    numbers = env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers").map(FailsTwice())
    held = numbers.rebalance().transform("In threes", InThrees(leave), Types.LONG())
    small, big = held.filter(lambda n: n < 30), held.filter(lambda n: n >= 30)
    by_key = small.connect(big).key_by(lambda n: n % KEYS, lambda n: n % KEYS)
    by_key.transform("Number", Number()).add_sink(LedgerSink(ledger))
    env.execute()
    committed = Ledger.named(ledger).committed
    assert sorted(value for _, value, _ in committed) == list(range(NUMBERS))
    for key in range(KEYS):
        counts = [count for found, _, count in committed if found == key]
        assert sorted(counts) == list(range(1, NUMBERS // KEYS + 1))
