"""Jobs that restart from the copies of their state on this machine, in the simulator."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.checkpointing import CheckpointListener
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream.functions import KeyedProcessFunction, RuntimeContext
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.testing import simulated_environment
from firesteel_support.crash_simulation import simulate
from firesteel_support.ledger import Ledger, LedgerSink

KEYS = 5


@dataclass(frozen=True)
class Split:
    number: int
    position: int


class UntilFailed(Source):
    """Numbers in two splits: for as long as the file is not there, and then some more."""

    def __init__(self, failed: Path) -> None:
        self._failed = failed

    def splits_of(self, subtask: int, parallelism: int) -> Sequence[Split]:
        return [Split(n, 0) for n in range(subtask, 2, parallelism)]

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _Reader(self._failed)


class _Reader(SourceReader):
    def __init__(self, failed: Path) -> None:
        self._failed = failed
        self._splits: list[Split] = []
        self._polls = 0

    def add_splits(self, splits: Sequence[Split]) -> None:
        self._splits += splits

    def snapshot_state(self, checkpoint_id: int) -> list[Split]:
        return list(self._splits)

    def poll(self, limit: int) -> Polled:
        self._polls += 1
        if self._failed.exists() and self._polls > 50:
            return Polled([], ended=True)
        numbers = [split.position * 2 + split.number for split in self._splits]
        self._splits = [replace(split, position=split.position + 1) for split in self._splits]
        return Polled(numbers)


class Saboteur(KeyedProcessFunction, CheckpointListener):
    """Counts per key. After some checkpoints it spoils what is durable of all state with a local copy, and fails."""

    def __init__(self, directory: Path, spoil_local: bool) -> None:
        self._directory = directory
        self._failed = directory / "failed"
        self._spoil_local = spoil_local
        self._complete = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._complete += 1

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if self._complete == 3 and not self._failed.exists():
            copies = [path for path in (self._directory / "local").rglob("*.*-*") if path.is_file()]
            self._failed.write_text(str(len(copies)))
            durable = self._directory / "checkpoints"
            for copy in copies:
                state_file = copy.name.split(".")[1]
                for path in [copy] if self._spoil_local else durable.rglob(state_file):
                    content = path.read_bytes()
                    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            raise RuntimeError("on purpose")
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value[0], value[1], count


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"test {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


@pytest.mark.parametrize("incremental", ["true", "false"])
@pytest.mark.parametrize("spoil_local", [False, True], ids=["durable files spoiled", "copies spoiled"])
def test_a_job_restarts_from_the_copy_that_is_good(
    tmp_path: Path, ledger: str, incremental: str, spoil_local: bool
) -> None:
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.incremental": incremental,
        "state.backend.local-recovery": "true",
        "taskmanager.state.local.root-dirs": str(tmp_path / "local"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = simulated_environment(configuration=Configuration.from_dict(options)).set_parallelism(2)
    numbers = env.from_source(UntilFailed(tmp_path / "failed"), WatermarkStrategy.no_watermarks(), "numbers")
    keyed = numbers.map(lambda number: (number % KEYS, number)).key_by(lambda record: record[0])
    keyed.process(Saboteur(tmp_path, spoil_local)).add_sink(LedgerSink(ledger))
    env.execute()
    assert int((tmp_path / "failed").read_text()) > 0, "there were copies"
    committed = Ledger.named(ledger).committed
    for split in (0, 1):
        numbers_of_split = sorted(number for _, number, _ in committed if number % 2 == split)
        assert numbers_of_split == list(range(split, 2 * len(numbers_of_split) + split, 2))
    for key in range(KEYS):
        counts = sorted(count for k, _, count in committed if k == key)
        assert counts == list(range(1, len(counts) + 1))
    assert [path for path in (tmp_path / "local").rglob("*") if path.is_file()] == [], "all copies are gone"


def test_the_crash_simulation_reads_and_loses_copies() -> None:
    reads = losses = 0
    for seed in range(200):  # it happens in about one of ten
        outcome = simulate(seed)
        reads, losses = reads + outcome.local_reads, losses + outcome.local_losses
        if reads and losses:
            return
    pytest.fail(f"no seed has both: {reads} reads, {losses} losses")
