"""A job whose output shows every record that was lost or counted twice, and what its output must be.

Numbers go in, each once. One branch numbers the records of every key, the other sums them up in windows; both write
through sinks that show nothing before its checkpoint is complete. Whatever was killed in between, the output is the
same as that of a run without failures.
"""

from __future__ import annotations

import ast
import sqlite3
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from firesteel.common import Encoder, Time, Types, WatermarkStrategy
from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.datastream import (
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from firesteel.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from firesteel.datastream.functions import TwoPhaseCommitSinkFunction
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import TumblingEventTimeWindows

KEYS = 13
WINDOW_MILLIS = 100

#: Short intervals, so that a test sees many checkpoints, and restarts without a pause or an end.
OPTIONS = {
    "execution.checkpointing.interval": "200 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "10 ms",
    "pipeline.max-parallelism": "16",
}


# The job ------------------------------------------------------------------------------------------------


def build(
    env: StreamExecutionEnvironment, output: Path, count: int, per_second: float, *, database: bool = False
) -> None:
    """``count`` numbers at a rate, numbered per key and summed up in windows; output below a directory.

    ``database``: the numbered records go into an SQLite database instead of files.
    """
    source = DataGeneratorSource(lambda n: n, count, RateLimiterStrategy.per_second(per_second))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(source, in_order, "numbers").uid("numbers")
    keyed = numbers.map(lambda n: (n % KEYS, n)).uid("keys").key_by(lambda record: record[0])
    numbered = keyed.process(Numbered()).uid("numbered")
    if database:
        numbered.add_sink(SqliteSink(output / "numbered.db")).uid("numbered sink")
    else:
        numbered.sink_to(_file_sink(output / "numbered")).uid("numbered sink")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
    sums = windows.reduce(lambda a, b: (a[0], a[1] + b[1]), WithStart()).uid("windows")
    sums.sink_to(_file_sink(output / "windows")).uid("windows sink")


class Numbered(KeyedProcessFunction):
    """(key, number) -> (key, number, how many of the key so far)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value[0], value[1], count


class WithStart(ProcessWindowFunction):
    """(key, sum) -> (key, start of the window, sum)."""

    def process(
        self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterator[Any]:
        for element in elements:
            yield key, context.window().start, element[1]


# Sinks --------------------------------------------------------------------------------------------------


def _file_sink(directory: Path) -> FileSink:
    return (
        FileSink.for_row_format(str(directory), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


class SqliteSink(TwoPhaseCommitSinkFunction):
    """Rows wait in a table of their own until the transaction's checkpoint is complete."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._database = sqlite3.connect(self._path, timeout=60)
        with self._database:
            self._database.execute("CREATE TABLE IF NOT EXISTS waiting (of TEXT, row TEXT)")
            self._database.execute("CREATE TABLE IF NOT EXISTS rows (row TEXT)")
        self._rows: list[tuple[str, str]] = []

    def begin_transaction(self) -> str:
        self._rows = []
        return uuid.uuid4().hex

    def invoke(self, transaction: str, value: Any, context: SinkFunction.Context) -> None:
        self._rows.append((transaction, repr(value)))

    def pre_commit(self, transaction: str) -> None:
        with self._database:
            self._database.executemany("INSERT INTO waiting VALUES (?, ?)", self._rows)

    def commit(self, transaction: str) -> None:
        with self._database:
            self._database.execute(
                "INSERT INTO rows SELECT row FROM waiting WHERE of = ? ORDER BY rowid", (transaction,)
            )
            self._database.execute("DELETE FROM waiting WHERE of = ?", (transaction,))

    def abort(self, transaction: str) -> None:
        with self._database:
            self._database.execute("DELETE FROM waiting WHERE of = ?", (transaction,))

    def close(self) -> None:
        self._database.close()


# The output ---------------------------------------------------------------------------------------------


def finished(directory: Path) -> list[str]:
    """The lines in files that are finished; others have names that begin with a dot."""
    if not directory.exists():
        return []
    parts = [path for path in sorted(directory.iterdir()) if not path.name.startswith((".", "_"))]
    return [line for part in parts for line in part.read_text().splitlines()]


def committed(database: Path) -> list[str]:
    """The rows that are seen."""
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        is_there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone()
        rows = connection.execute("SELECT row FROM rows").fetchall() if is_there else []
    return [row for (row,) in rows]


def shown(output: Path) -> list[str]:
    """What the numbering branch has shown so far, as text."""
    database = output / "numbered.db"
    return committed(database) if database.exists() else finished(output / "numbered")


def check(output: Path, count: int) -> None:
    """Refuse output that differs from that of a run without failures."""
    records = [ast.literal_eval(line) for line in shown(output)]
    _same(
        "numbered records",
        Counter((key, n) for key, n, _ in records),
        Counter((n % KEYS, n) for n in range(count)),
    )
    counts: dict[int, list[int]] = defaultdict(list)
    for key, _, counted in records:
        counts[key].append(counted)
    for key, found in counts.items():
        assert sorted(found) == list(range(1, len(found) + 1)), (
            f"the state of key {key} was counted {sorted(found)}"
        )
    sums: Counter[tuple[int, int]] = Counter()
    for n in range(count):
        sums[n % KEYS, n - n % WINDOW_MILLIS] += n
    windows = Counter(ast.literal_eval(line) for line in finished(output / "windows"))
    _same("windows", windows, Counter((key, start, total) for (key, start), total in sums.items()))


def _same(what: str, seen: Counter[Any], expected: Counter[Any]) -> None:
    if seen != expected:
        lost, extra = expected - seen, seen - expected
        raise AssertionError(
            f"{what}: {lost.total()} lost, such as {list(lost)[:5]}; {extra.total()} too many, such as {list(extra)[:5]}"
        )
