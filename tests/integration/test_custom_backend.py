"""State in a database of the user's own, on Spark: the store travels to the tasks and is used from one thread only."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import SparkEnvironment

from firesteel.datastream import CustomStateBackend, StateStore, StateStoreContext

pytestmark = pytest.mark.spark

KEYS, RECORDS = 300, 6000


class SqliteStore(StateStore):
    """SQLite refuses to be used from another thread than the one that opened it."""

    def __init__(self, context: StateStoreContext) -> None:
        assert context.operator == "counter"
        self._path = os.path.join(context.directory(), "state.db")
        self._db = sqlite3.connect(self._path, isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE records (place BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID")
        self._note = context.configuration.get_string("state.backend.of-this-test.note", "")

    def get_all(self, places: Sequence[bytes]) -> list[bytes | None]:
        query = "SELECT record FROM records WHERE place = ?"
        rows = [self._db.execute(query, (place,)).fetchone() for place in places]
        return [None if row is None else row[0] for row in rows]

    def put_all(self, records: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("REPLACE INTO records VALUES (?, ?)", records)
        self._db.executemany("DELETE FROM records WHERE place = ?", [(place,) for place in gone])
        self._db.execute("COMMIT")

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        query = "SELECT place, record FROM records WHERE place > ? ORDER BY place LIMIT ?"
        return self._db.execute(query, (after, count)).fetchall()

    def close(self) -> None:
        (count,) = self._db.execute("SELECT count(*) FROM records").fetchone()
        Path(f"{self._note}-{os.getpid()}-{id(self)}").write_text(f"{count}", encoding="utf-8")
        self._db.close()


def counted(number: int, count: int | None) -> tuple[tuple[int, int], int]:
    return (number % KEYS, (count or 0) + 1), (count or 0) + 1


def test_state_of_a_job_lives_in_a_database_of_its_own(environment: SparkEnvironment, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    env = environment(
        2,
        **{
            "state.backend.type": "rocksdb",  # the program says otherwise
            "state.backend.disk.cache-entries": "20",
            "state.backend.disk.dirs": tmp_path / "state",
            "state.backend.of-this-test.note": tmp_path / "closed",
            "firesteel.chunk.records": "100",
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.dir": tmp_path / "checkpoints",
        },
    )
    env.set_state_backend(CustomStateBackend(SqliteStore))
    numbers = env.from_sequence(0, RECORDS - 1).key_by(lambda number: number % KEYS)
    found = list(numbers.map_with_state(counted).name("counter").execute_and_collect())
    assert Counter(found) == Counter((k, n + 1) for k in range(KEYS) for n in range(RECORDS // KEYS))
    closed = [int(path.read_text(encoding="utf-8")) for path in tmp_path.glob("closed-*")]
    assert len(closed) == 2
    assert sum(closed) > KEYS // 2  # most keys were there, not in memory
    assert os.listdir(tmp_path / "state") == []  # and the databases are gone
