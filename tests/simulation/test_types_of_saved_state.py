"""A program that declares other types than its savepoint was written with does not start. In the simulator."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import IncompatibleStateError
from firesteel.common.time import Time
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from firesteel.datastream.functions import (
    AggregateFunction,
    CheckpointCommitter,
    CoGroupFunction,
    DiscardingSink,
    GenericWriteAheadSink,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    RuntimeContext,
    WindowFunction,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import CountEvictor, EventTimeSessionWindows, TumblingEventTimeWindows
from firesteel.testing import simulated_environment
from firesteel_support.ledger import Ledger, LedgerSink

WORD = Types.TUPLE([Types.STRING(), Types.INT()])
OTHER = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
WINDOW = TumblingEventTimeWindows.of(Time.hours(1))


class Words(Source):
    """So many words, and then nothing for ever: windows stay open."""

    def __init__(self, count: int) -> None:
        self._count = count

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def splits_of(self, subtask: int, parallelism: int) -> list[int]:
        return [0] if subtask == 0 else []

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _WordsReader(self._count)


class _WordsReader(SourceReader):
    def __init__(self, count: int) -> None:
        self._count = count
        self._positions: list[int] = []

    def add_splits(self, splits: Any) -> None:
        self._positions += splits

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return list(self._positions)

    def poll(self, limit: int) -> Polled:
        if self._positions and self._positions[0] < self._count:
            self._positions[0] += 1
            return Polled([("a", self._positions[0])])
        return Polled([], retry_at=float("inf"))


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self._last.update(value)
        yield value


class RememberBoth(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self._last.update(value)
        return []

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        return self.process_element1(value, ctx)


class Number(TimestampAssigner):
    """The time of a word is its number, so that windows of an hour stay open."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Counting(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a + b


class Elements(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return list(inputs)


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any]:
        yield left, right


class Both(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield list(first), list(second)


class Committed(CheckpointCommitter):
    """Knows of no checkpoint."""

    def commit_checkpoint(self, subtask: int, checkpoint_id: int) -> None:
        """Segments without records are committed without being sent."""

    def is_checkpoint_committed(self, subtask: int, checkpoint_id: int) -> bool:
        return False


class Log(GenericWriteAheadSink):
    def __init__(self) -> None:
        super().__init__(Committed())

    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        return False  # so that the log stays in the state


Build = Callable[[DataStream, TypeInformation | None], Any]


def keyed(stream: DataStream, _: Any = None) -> KeyedStream:
    return stream.key_by(lambda word: word[0])


def reduced(words: DataStream, kind: TypeInformation | None) -> Any:
    return keyed(words).reduce(lambda a, b: b)


def interval_joined(words: DataStream, kind: TypeInformation | None) -> Any:
    other = words.map(lambda word: ("b", word[1]))
    return keyed(words).interval_join(keyed(other)).between(Time.hours(-1), Time.hours(1)).process(Pairs())


def window_joined(words: DataStream, kind: TypeInformation | None) -> Any:
    first = words.join(words.map(lambda word: ("b", 1))).where(lambda word: word[0])
    return first.equal_to(lambda word: word[0]).window(WINDOW).apply(lambda a, b: (a, b))


def co_grouped(words: DataStream, kind: TypeInformation | None) -> Any:
    first = words.co_group(words.map(lambda word: ("b", 1))).where(lambda word: word[0])
    return first.equal_to(lambda word: word[0]).window(WINDOW).apply(Both())


def aggregated(words: DataStream, kind: TypeInformation | None) -> Any:
    return keyed(words).window(WINDOW).aggregate(Counting(), accumulator_type=kind)


def by_type(words: DataStream, kind: TypeInformation | None) -> Any:
    return words.key_by(lambda word: word[0], key_type=kind).process(Remember())


def connected(words: DataStream, kind: TypeInformation | None) -> Any:
    return (
        words.connect(words).key_by(lambda word: word[0], lambda word: word[0], kind).process(RememberBoth())
    )


def with_state(words: DataStream, kind: TypeInformation | None) -> Any:
    return keyed(words).map_with_state(lambda word, last: (last, word[1]), state_type=kind)


#: How the operator is built, what is said of it, and the types to declare: the old one and another one.
BUILT_IN: dict[str, tuple[Build, str, TypeInformation, TypeInformation]] = {
    "keys": (by_type, "keys", Types.STRING(), Types.LONG()),
    "keys of connected streams": (connected, "keys", Types.STRING(), Types.LONG()),
    "reduce": (reduced, "records", WORD, OTHER),
    "sum": (lambda words, kind: keyed(words).sum(1), "records", WORD, OTHER),
    "map with state": (with_state, "state", Types.INT(), Types.STRING()),
    "window reduce": (
        lambda words, kind: keyed(words).window(WINDOW).reduce(lambda a, b: b),
        "records",
        WORD,
        OTHER,
    ),
    "window elements": (
        lambda words, kind: keyed(words).window(WINDOW).apply(Elements()),
        "records",
        WORD,
        OTHER,
    ),
    "sessions": (
        lambda words, kind: (
            keyed(words).window(EventTimeSessionWindows.with_gap(Time.hours(1))).apply(Elements())
        ),
        "records",
        WORD,
        OTHER,
    ),
    "count windows": (
        lambda words, kind: keyed(words).count_window(9).apply(Elements()),
        "records",
        WORD,
        OTHER,
    ),
    "windows with an evictor": (
        lambda words, kind: keyed(words).window(WINDOW).evictor(CountEvictor.of(9)).aggregate(Counting()),
        "records",
        WORD,
        OTHER,
    ),
    "window aggregate": (aggregated, "accumulators", Types.INT(), Types.STRING()),
    "interval join": (interval_joined, "left records", WORD, OTHER),
    "window join": (window_joined, "records of the first stream", WORD, OTHER),
    "co-group": (co_grouped, "records of the first stream", WORD, OTHER),
    "write-ahead sink": (lambda words, kind: words.add_sink(Log()), "records", WORD, OTHER),
}


def environment(directory: Path, **options: str) -> StreamExecutionEnvironment:
    keys = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
    }
    return simulated_environment(configuration=Configuration.from_dict({**keys, **options}))


class Job:
    """A job that stops with a savepoint whenever it has processed four more words, and resumes from any of them."""

    def __init__(self, build: Build, directory: Path, ledger: str) -> None:
        self._build = build
        self._directory = directory
        self._ledger = ledger

    def run(self, kind: TypeInformation | None, path: str | None = None) -> str:
        """Run it with a declared type; the path of its savepoint."""
        env = environment(
            self._directory, **({} if path is None else {"execution.state-recovery.path": path})
        )
        ledger = Ledger.named(self._ledger)
        count = len(ledger.committed) + 4
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Number())
        records = kind if kind in (WORD, OTHER) else None
        words = env.from_source(Words(count), strategy, "words", type_info=records).uid("words")
        built = self._build(words, kind)
        built.uid("operator")
        words.add_sink(LedgerSink(self._ledger)).uid("ledger")
        if isinstance(built, DataStream):
            built.add_sink(DiscardingSink())
        client = env.execute_async("words")
        ledger.wait_until_written(count)
        saved: str = client.stop_with_savepoint(False, str(self._directory / "savepoints")).result()
        return saved


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"words {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


@pytest.mark.parametrize("name", BUILT_IN)
def test_l24_another_declared_type_is_refused_before_anything_starts(
    name: str, tmp_path: Path, ledger: str
) -> None:
    build, what, old, other = BUILT_IN[name]
    job = Job(build, tmp_path, ledger)
    path = job.run(old)
    with pytest.raises(IncompatibleStateError) as caught:
        job.run(other, path)
    assert "(uid 'operator')" in str(caught.value)
    assert f"expected {what} of type" in str(caught.value)
    # The same type, and none, are fine; and the type is remembered while none is declared.
    undeclared = job.run(None, job.run(old, path))
    with pytest.raises(IncompatibleStateError):
        job.run(other, undeclared)


def test_state_that_was_saved_without_types_takes_any(tmp_path: Path, ledger: str) -> None:
    build, _, old, _ = BUILT_IN["reduce"]
    job = Job(build, tmp_path, ledger)
    job.run(old, job.run(None))
