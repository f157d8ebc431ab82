"""Readings in a database, exactly once: a two-phase-commit sink for SQLite (J30).

Readings are staged in a table of their own together with the name of their transaction. Committing copies them to the
table that everybody reads, and removes them from the other one, in one transaction of the database. When it is
done again, nothing is staged any more, so nothing happens. What a failed attempt had staged without a checkpoint
stays staged and is never seen.
"""

from __future__ import annotations

import sqlite3
import tempfile
import uuid
from contextlib import closing

from failing_mapper import FailingMapper
from firesteel.common import WatermarkStrategy
from firesteel.datastream import RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.connectors import Source
from firesteel.datastream.functions import SinkFunction, TwoPhaseCommitSinkFunction
from sensor_readings import SensorReading
from transactional_output import readings_per_second

TABLES = """
CREATE TABLE IF NOT EXISTS readings (id TEXT, timestamp INTEGER, temperature REAL);
CREATE TABLE IF NOT EXISTS staged (txn TEXT, id TEXT, timestamp INTEGER, temperature REAL);
CREATE INDEX IF NOT EXISTS staged_txn ON staged (txn);
"""


class SqliteSink(TwoPhaseCommitSinkFunction[SensorReading, str]):
    """The handle of a transaction is its name in the table of staged readings."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect; several subtasks write to one file, so each may have to wait for the others."""
        self.database = sqlite3.connect(self.path, timeout=60)
        self.database.executescript(TABLES)
        self.rows: list[tuple[str, str, int, float]] = []

    def begin_transaction(self) -> str:
        """A name."""
        return uuid.uuid4().hex

    def invoke(  # type: ignore[override]
        self, transaction: str, value: SensorReading, context: SinkFunction.Context
    ) -> None:
        """Keep the reading until there are enough of them for a statement."""
        self.rows.append((transaction, value.id, value.timestamp, value.temperature))
        if len(self.rows) >= 1000:
            self.stage()

    def stage(self) -> None:
        """Write what was kept, unseen."""
        with self.database:
            self.database.executemany("INSERT INTO staged VALUES (?, ?, ?, ?)", self.rows)
        self.rows = []

    def pre_commit(self, transaction: str) -> None:
        """From here on the database has everything."""
        self.stage()

    def commit(self, transaction: str) -> None:
        """Let everybody see the readings."""
        with self.database:
            self.database.execute(
                "INSERT INTO readings SELECT id, timestamp, temperature FROM staged WHERE txn = ?",
                (transaction,),
            )
            self.database.execute("DELETE FROM staged WHERE txn = ?", (transaction,))

    def abort(self, transaction: str) -> None:
        """Forget the readings."""
        self.rows = []
        with self.database:
            self.database.execute("DELETE FROM staged WHERE txn = ?", (transaction,))

    def close(self) -> None:
        """Disconnect."""
        self.database.close()


def build(env: StreamExecutionEnvironment, source: Source, failures: int, path: str) -> None:
    readings = env.from_source(source, WatermarkStrategy.no_watermarks(), "readings").set_parallelism(1)
    readings.map(FailingMapper(30, failures)).set_parallelism(1).rebalance().add_sink(SqliteSink(path))


def count(path: str) -> int:
    """How many readings everybody sees."""
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute("SELECT COUNT(*) FROM readings").fetchone()
    return int(found)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    path = f"{tempfile.mkdtemp(prefix='sqlite-transactions-')}/readings.db"
    build(env, readings_per_second(100, 20.0), 2, path)
    env.execute("SQLite transactions")
    print(f"{count(path)} readings in {path}")


if __name__ == "__main__":
    main()
