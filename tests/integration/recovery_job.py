"""A job whose output shows every record that was lost or counted twice, and what its output must be.

Numbers go in, each once, until the test says that it has seen enough (`tell_to_end`). One branch numbers the records
of every key, the other sums them up in windows; both write through sinks that show nothing before its checkpoint is
complete. Whatever was killed in between, the output is the same as that of a run without failures: `check` compares
it with what the sources say that they have read.

Beside the output there are three things by which test and job talk: a file that ends the job, a file for every source
split with how far it was read, and a file for every process that a task ran in.
"""

from __future__ import annotations

import ast
import os
import sqlite3
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firesteel.common import Encoder, Time, Types, WatermarkStrategy
from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
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
    env: StreamExecutionEnvironment,
    output: Path,
    per_second: float,
    *,
    database: bool = False,
    data: Path | None = None,
) -> None:
    """Numbers at a rate until `tell_to_end`, numbered per key and summed up in windows; output below a directory.

    ``database``: the numbered records go into an SQLite database instead of files. ``data``: the files go below another
    directory than that by which test and job talk.
    """
    data = data or output
    keyed = numbers(env, output, per_second).map(WithKey()).uid("keys").key_by(lambda record: record[0])
    numbered = keyed.process(Numbered(output)).uid("numbered")
    if database:
        numbered.add_sink(SqliteSink(output / "numbered.db")).uid("numbered sink")
    else:
        numbered.sink_to(_file_sink(data / "numbered")).uid("numbered sink")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
    sums = windows.reduce(lambda a, b: (a[0], a[1] + b[1]), WithStart()).uid("windows")
    sums.sink_to(_file_sink(data / "windows")).uid("windows sink")


def numbers(env: StreamExecutionEnvironment, output: Path, per_second: float) -> DataStream:
    """Numbers at a rate until `tell_to_end`."""
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    source = env.from_source(NumbersUntilTold(output, per_second), in_order, "numbers").uid("numbers")
    return source.map(Announced(output, "source")).uid("announced")


class Announced(MapFunction):
    """Records as they are; says in which process it runs."""

    def __init__(self, output: Path, role: str) -> None:
        self._output = output
        self._role = role

    def open(self, runtime_context: RuntimeContext) -> None:
        _announce(self._output, self._role, runtime_context)

    def map(self, value: Any) -> Any:
        return value


class WithKey(MapFunction):
    """Number -> (key, number)."""

    def map(self, value: int) -> tuple[int, int]:
        return value % KEYS, value


class Numbered(KeyedProcessFunction):
    """(key, number) -> (key, number, how many of the key so far)."""

    def __init__(self, output: Path) -> None:
        self._output = output

    def open(self, runtime_context: RuntimeContext) -> None:
        _announce(self._output, "keyed", runtime_context)
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


# The source ---------------------------------------------------------------------------------------------


class NumbersUntilTold(Source):
    """0, 1, 2, ... at a rate, until there is a file that says it is enough."""

    def __init__(self, output: Path, per_second: float) -> None:
        self._output = output
        self._numbers = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(per_second))

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def splits_of(self, subtask: int, parallelism: int) -> list[range]:
        return self._numbers.splits_of(subtask, parallelism)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _ReaderUntilTold(self._numbers.create_reader(context), self._output)


class _ReaderUntilTold(SourceReader):
    """Writes down how far it has read when it ends, and in which attempt: in a later one it may have to end again."""

    def __init__(self, numbers: SourceReader, output: Path) -> None:
        self._numbers = numbers
        self._output = output

    def open(self) -> None:
        self._numbers.open()

    def add_splits(self, splits: Sequence[range]) -> None:
        self._numbers.add_splits(splits)

    def poll(self, limit: int) -> Polled:
        if not _end(self._output).exists():
            return self._numbers.poll(limit)
        attempt = max(p.attempt for p in announced(self._output) if p.pid == os.getpid())
        for split in self.snapshot_state(0):
            name = f"{attempt}-{split.start % split.step}-{split.step}"
            _write(_positions(self._output) / name, str(split.start))
        return Polled([], ended=True)

    def snapshot_state(self, checkpoint_id: int) -> list[range]:
        return self._numbers.snapshot_state(checkpoint_id)

    def stop(self) -> None:
        self._numbers.stop()

    def close(self) -> None:
        self._numbers.close()


def tell_to_end(output: Path) -> None:
    """Have the sources end where they are."""
    _write(_end(output), "")


def read(output: Path) -> list[int]:
    """The numbers that were read, known when the job has ended.

    The last attempt in which a split came to its end is right; what is left of a killed one may have written, too.
    """
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for path in _positions(output).glob("[!.]*"):
        attempt, first, step = map(int, path.name.split("-"))
        found = (attempt, int(path.read_text()))
        ends[first, step] = max(found, ends.get((first, step), found))
    return [n for (first, step), (_, end) in ends.items() for n in range(first, end, step)]


def _end(output: Path) -> Path:
    return output / "end"


def _positions(output: Path) -> Path:
    return output / "read"


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}")
    temporary.write_text(text)
    temporary.replace(path)


# Processes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskProcess:
    """Where a task of an attempt runs, or ran; ``role`` is ``source``, ``keyed`` or another one."""

    attempt: int
    role: str
    pid: int


def _announce(output: Path, role: str, runtime_context: RuntimeContext) -> None:
    name = f"{runtime_context.get_attempt_number()}-{role}-{os.getpid()}"
    _write(output / "processes" / name, "")


def announced(output: Path) -> list[TaskProcess]:
    """Those of all attempts."""
    found = []
    for path in (output / "processes").glob("[!.]*"):
        attempt, role, pid = path.name.split("-")
        found.append(TaskProcess(int(attempt), role, int(pid)))
    return found


def task_processes(output: Path) -> list[TaskProcess]:
    """Those of the newest attempt that has any."""
    everything = announced(output)
    newest = max((process.attempt for process in everything), default=0)
    return [process for process in everything if process.attempt == newest]


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
    """The lines in files that are finished."""
    return [line for part in _finished_files(directory) for line in part.read_text().splitlines()]


def _finished_files(directory: Path) -> list[Path]:
    """Others have names that begin with a dot."""
    if not directory.exists():
        return []
    return [path for path in sorted(directory.iterdir()) if not path.name.startswith((".", "_"))]


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


class ShownCount:
    """How much the numbering branch has shown in files; looks into each of them once, because none ever changes."""

    def __init__(self, data: Path) -> None:
        self._directory = data / "numbered"
        self._lines: dict[Path, int] = {}

    def __call__(self) -> int:
        with suppress(OSError):  # the disk may be away
            for path in _finished_files(self._directory):
                if path not in self._lines:
                    self._lines[path] = path.read_text().count("\n")
        return sum(self._lines.values())


def check(output: Path, data: Path | None = None) -> int:
    """Refuse output that differs from that of a run without failures; returns how many records went in."""
    data = data or output
    numbers = read(output)
    records = [ast.literal_eval(line) for line in shown(data)]
    _same(
        "numbered records",
        Counter((key, n) for key, n, _ in records),
        Counter((n % KEYS, n) for n in numbers),
    )
    counts: dict[int, list[int]] = defaultdict(list)
    for key, _, counted in records:
        counts[key].append(counted)
    for key, found in counts.items():
        assert sorted(found) == list(range(1, len(found) + 1)), (
            f"the state of key {key} was counted {sorted(found)}"
        )
    sums: Counter[tuple[int, int]] = Counter()
    for n in numbers:
        sums[n % KEYS, n - n % WINDOW_MILLIS] += n
    windows = Counter(ast.literal_eval(line) for line in finished(data / "windows"))
    _same("windows", windows, Counter((key, start, total) for (key, start), total in sums.items()))
    return len(numbers)


def _same(what: str, seen: Counter[Any], expected: Counter[Any]) -> None:
    if seen != expected:
        lost, extra = expected - seen, seen - expected
        raise AssertionError(
            f"{what}: {lost.total()} lost, such as {list(lost)[:5]}; {extra.total()} too many, such as {list(extra)[:5]}"
        )
