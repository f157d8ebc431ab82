"""Whole jobs that write to a database and fail on the way: each row is there once."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import WatermarkStrategy
from firesteel.common.errors import SetupError
from firesteel.datastream import MapFunction
from firesteel.datastream.connectors import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from firesteel.testing import simulated_environment


class FailsOnce(MapFunction):
    """Raises at a number, unless it has done so before."""

    def __init__(self, number: int, marker: Path) -> None:
        self.number = number
        self.marker = marker

    def map(self, value: int) -> tuple[int]:
        if value == self.number and not self.marker.exists():
            self.marker.touch()
            raise ConnectionError("for once")
        return (value,)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_there_once_after_failures(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "output.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE output (n INT)")
        env = simulated_environment(seed, parallelism=2)
        env.enable_checkpointing(10)
        source = DataGeneratorSource(lambda n: n + 1, 3000, RateLimiterStrategy.per_second(10_000))
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        options = JdbcConnectionOptions(f"jdbc:sqlite:{path}")
        numbers.map(FailsOnce(1400, tmp_path / "failed")).sink_to(
            JdbcSink.exactly_once_sink("INSERT INTO output VALUES (?)", None, options)
        )
        env.execute()
        assert (tmp_path / "failed").exists()
        written = database.execute("SELECT numbers FROM firesteel_commits").fetchall()
        assert any(numbers.startswith("1-") for (numbers,) in written), "several checkpoints had rows"
        found = [n for (n,) in database.execute("SELECT n FROM output ORDER BY n")]
    assert found == list(range(1, 3001))


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from firesteel.connectors import jdbc

    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "firesteel.connectors.jdbc.postgresql", raising=False)
    monkeypatch.delattr(jdbc, "postgresql", raising=False)
    options: Any = JdbcConnectionOptions("jdbc:postgresql://localhost/shop")
    with pytest.raises(SetupError, match=r"install firesteel\[postgres\]"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", None, options)
