"""Transactional output (J30): what a job that fails regularly writes - by print, by a write-ahead log, in transactions.

print() shows a reading again after every failure, because the job goes back to its last checkpoint. The write-ahead
sink keeps readings in checkpoints and shows them when the checkpoint is complete: each once, also when the job is stopped
with a savepoint and resumes from it, unless the task dies exactly while it shows them. The two-phase-commit sink writes files that appear in the target folder when their
checkpoint is complete: each reading once, whatever dies.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path

from failing_mapper import FailingMapper
from firesteel.common import WatermarkStrategy
from firesteel.datastream import DataStream, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.connectors import DataGeneratorSource, RateLimiterStrategy, Source
from firesteel.datastream.functions import (
    FileCheckpointCommitter,
    GenericWriteAheadSink,
    SinkFunction,
    TwoPhaseCommitSinkFunction,
)
from sensor_readings import SensorReading, fahrenheit_readings


class StdOutWriteAheadSink(GenericWriteAheadSink):
    """Prints the readings of a checkpoint when it is complete."""

    def __init__(self, directory: str) -> None:
        super().__init__(FileCheckpointCommitter(directory))

    def send_values(self, values: Iterable[SensorReading], checkpoint_id: int, timestamp: int) -> bool:
        """All readings between two checkpoints."""
        for reading in values:
            print(f"written ahead: {reading.id} {reading.temperature}")
        return True


class TransactionalFileSink(TwoPhaseCommitSinkFunction[SensorReading, str]):
    """One file per transaction: written in one folder, moved to another when the transaction is committed.

    The handle of a transaction is the name of its file. Moving a file is atomic, and one that is not there any more
    has been moved before: so a transaction can be committed twice.
    """

    def __init__(self, target_path: str, temporary_path: str) -> None:
        self.target_path = target_path
        self.temporary_path = temporary_path

    def open(self, runtime_context: RuntimeContext) -> None:
        """Make the folders."""
        self.subtask = runtime_context.get_index_of_this_subtask()
        os.makedirs(self.target_path, exist_ok=True)
        os.makedirs(self.temporary_path, exist_ok=True)

    def begin_transaction(self) -> str:
        """A new file."""
        transaction = f"{self.subtask}-{uuid.uuid4().hex}"
        self.file = (Path(self.temporary_path) / transaction).open("x")
        return transaction

    def invoke(  # type: ignore[override]
        self, transaction: str, value: SensorReading, context: SinkFunction.Context
    ) -> None:
        """One line."""
        self.file.write(f"{value.id},{value.temperature}\n")

    def pre_commit(self, transaction: str) -> None:
        """From here on the file survives."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def commit(self, transaction: str) -> None:
        """Move the file, unless it has been moved."""
        written = Path(self.temporary_path) / transaction
        if written.exists():
            written.rename(Path(self.target_path) / transaction)

    def abort(self, transaction: str) -> None:
        """Delete the file, unless it has been deleted."""
        (Path(self.temporary_path) / transaction).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file at hand."""
        self.file.close()


def readings_per_second(count: int, rate: float) -> Source:
    """Readings at a rate that leaves time for checkpoints."""
    readings = fahrenheit_readings(count)
    return DataGeneratorSource(lambda index: readings[index], count, RateLimiterStrategy.per_second(rate))


def build(env: StreamExecutionEnvironment, source: Source, failures: int, directory: str) -> DataStream:
    """Write the same readings in all three ways; returns what print() shows."""
    readings = env.from_source(source, WatermarkStrategy.no_watermarks(), "readings").set_parallelism(1)
    survivors = readings.map(FailingMapper(30, failures)).set_parallelism(1)
    survivors.add_sink(StdOutWriteAheadSink(f"{directory}/notes")).set_parallelism(1)
    survivors.add_sink(TransactionalFileSink(f"{directory}/readings", f"{directory}/unfinished"))
    return survivors


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    directory = tempfile.mkdtemp(prefix="transactional-output-")
    build(env, readings_per_second(100, 20.0), 2, directory).print()
    env.execute("Transactional output")
    print(f"the files are in {directory}/readings")


if __name__ == "__main__":
    main()
