"""A program with state of every kind. Savepoints of it are kept in tests/golden/savepoints for every format version.

``python tests/simulation/golden_job.py DIRECTORY`` makes a new one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.checkpointing import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    SinkFunction,
)
from firesteel.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from firesteel.datastream.window import TumblingEventTimeWindows
from firesteel.testing import simulated_environment
from firesteel_support.ledger import Ledger

HALF = 24
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


@dataclass(frozen=True)
class Split:
    """Where a reader is."""

    position: int


class Numbers(Source):
    """0, 1, 2, ... up to ``end``; the number is also the time. Then it waits, or ends when ``bounded``."""

    def __init__(self, end: int, bounded: bool) -> None:
        self.end = end
        self.bounded = bounded

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def max_subtasks(self) -> int:
        return 1

    def splits_of(self, subtask: int, parallelism: int) -> Sequence[Split]:
        return [Split(0)]

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _Reader(self)


class _Reader(SourceReader):
    def __init__(self, source: Numbers) -> None:
        self._source = source
        self._splits: list[Split] = []

    def add_splits(self, splits: Sequence[Split]) -> None:
        self._splits += splits

    def snapshot_state(self, checkpoint_id: int) -> list[Split]:
        return list(self._splits)

    def poll(self, limit: int) -> Polled:
        if not self._splits or (split := self._splits[0]).position >= self._source.end:
            return Polled([], retry_at=math.inf, ended=self._source.bounded)
        self._splits[0] = replace(split, position=split.position + 1)
        return Polled([split.position], [split.position])


@dataclass
class Reading:
    """A value of a user's own class."""

    number: int
    note: str = "none"


class Sum(AggregateFunction):
    """Sum and count of numbers."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class EveryState(KeyedProcessFunction):
    """Keeps each number in keyed state of every kind, and shows what they hold; timers show, too."""

    def open(self, runtime_context: RuntimeContext) -> None:
        context = runtime_context
        self._value = context.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))
        self._list = context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self._map = context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self._max = context.get_reducing_state(ReducingStateDescriptor("max", max, Types.LONG()))
        descriptor = AggregatingStateDescriptor("sum", Sum(), Types.PICKLED_BYTE_ARRAY())
        self._sum = context.get_aggregating_state(descriptor)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        before = self._value.value()
        self._value.update(Reading(value, f"after {before.number if before else None}"))
        self._list.add(value)
        self._map.put(value % 2, value)
        self._max.add(value)
        self._sum.add(value)
        ctx.timer_service().register_event_time_timer(value + 30)
        yield self._shown("record", value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield self._shown("timer", timestamp)

    def _shown(self, what: str, at: int) -> Any:
        reading = self._value.value()
        state = (reading.number, reading.note, tuple(self._list.get()), tuple(sorted(self._map.items())))
        return what, at, *state, self._max.get(), self._sum.get()


class ByRules(KeyedBroadcastProcessFunction):
    """Applies the newest rule to each number."""

    def process_element(self, value: int, ctx: Any) -> Iterable[Any]:
        yield "rule", value, ctx.get_broadcast_state(RULES).get("factor")

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put("factor", value)
        return ()


class Seen(MapFunction, CheckpointedFunction):
    """How many records the operator has seen, in a list state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state = context.get_operator_state_store().get_list_state(
            ListStateDescriptor("seen", Types.LONG())
        )
        self._seen = sum(self._state.get())

    def map(self, value: int) -> Any:
        self._seen += 1
        return "seen", value, self._seen

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([self._seen])


class Shown(SinkFunction):
    """Without transactions: those of a savepoint from long ago could not be committed any more."""

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        Ledger.named(self._ledger).add(value)


def build(env: StreamExecutionEnvironment, source: Numbers, ledger: str) -> None:
    """The program."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    numbers = env.from_source(source, strategy, "numbers").uid("numbers")
    keyed = numbers.key_by(lambda number: number % 3)
    states = keyed.process(EveryState()).uid("states")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    sums = windows.reduce(lambda a, b: a + b).uid("windows").map(lambda total: ("window", total))
    rules = numbers.filter(lambda number: number % 8 == 0).broadcast(RULES)
    ruled = keyed.connect(rules).process(ByRules()).uid("rules").filter(lambda found: False)
    seen = numbers.map(Seen()).uid("seen").set_parallelism(1)
    states.union(sums, ruled, seen).add_sink(Shown(ledger))


def environment(parallelism: int, **options: str) -> StreamExecutionEnvironment:
    """In the simulator, with savepoints possible."""
    keys = {"execution.checkpointing.interval": "1 h"}
    env = simulated_environment(configuration=Configuration.from_dict({**keys, **options}))
    env.set_parallelism(parallelism).set_max_parallelism(16)
    return env


def stop_at_the_middle(directory: Path, ledger: str) -> str:
    """Run the first half and stop with a savepoint."""
    env = environment(2)
    build(env, Numbers(HALF, bounded=False), ledger)
    client = env.execute_async()
    # Every number is counted and shown; the windows that are full by then have fired.
    Ledger.named(ledger).wait_until_written(2 * HALF + 6)
    path: str = client.stop_with_savepoint(False, str(directory)).result()
    return path


if __name__ == "__main__":
    print(stop_at_the_middle(Path(sys.argv[1]), "golden"))
