"""Programs for crash simulations: numbered records in, transactional output out, and what must come of them.

Every record of every source has a number of its own. Each stage leaves a trace of what it has seen before, so that a
record that is lost, counted twice or out of order shows in the output, wherever that happened.

Half of the programs are *careless*: they do the same with lists that they use again, keep in their state, emit and change
in place, beside a sink that spoils what it gets. A record is what it was when it was emitted, so nothing else may come out.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from firesteel.checkpoint.matching import ProgramOperator
from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.compiler.compile import compile_job
from firesteel.compiler.program_plans import ProgramPlans
from firesteel.contracts.functions import KeyedProcessFunction, MapFunction
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.sink import SinkFunction
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.contracts.state import ListStateDescriptor, ValueStateDescriptor
from firesteel.contracts.window_assigners import TumblingEventTimeWindows
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.launch import Submission, intercept, program_operators
from firesteel.plan.job_plan import JobPlan
from firesteel_support.ledger import LedgerSink

__all__ = ["CompiledProgram", "CrashProgram", "PacedSource", "check_output"]

MAX_PARALLELISM = 8
_OWN_BACKEND = "firesteel.testing.state_stores:DictStore"


class CompiledProgram(NamedTuple):
    """A plan, what has to be known of its operators to find their state again, and what makes other plans of it."""

    plan: JobPlan
    program: list[ProgramOperator]
    plans_from: Callable[[JobPlan], ProgramPlans]


@dataclass(frozen=True, slots=True)
class PacedSplit:
    """Numbers from ``next`` to ``end``; ``id`` tells the splits apart."""

    id: int
    next: int
    end: int


class PacedSource(Source):
    """Numbers, a few at a time with pauses in between, so that checkpoints find a job at work."""

    def __init__(self, first: int, splits: int, per_split: int, pause: float) -> None:
        self._splits = [
            PacedSplit(first + n, first * 10_000 + n * per_split, first * 10_000 + (n + 1) * per_split)
            for n in range(splits)
        ]
        self._pause = pause

    @property
    def numbers(self) -> list[int]:
        """All that it gives."""
        return [number for split in self._splits for number in range(split.next, split.end)]

    @override
    def splits_of(self, subtask: int, parallelism: int) -> Sequence[PacedSplit]:
        return self._splits[subtask::parallelism]

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask."""
        return _PacedReader(context, self._pause)


class _PacedReader(SourceReader):
    def __init__(self, context: SourceReaderContext, pause: float) -> None:
        self._now = context.now
        self._pause = pause
        self._splits: list[PacedSplit] = []
        self._new: list[int] = []

    @override
    def add_splits(self, splits: Sequence[Any]) -> None:
        self._splits += splits
        self._new += [split.id for split in splits]

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return list(self._splits)

    @override
    def poll(self, limit: int) -> Polled:
        if not self._splits:
            return Polled([], ended=True)
        split = self._splits.pop(0)
        stop = min(split.next + min(limit, 3), split.end)
        values = list(range(split.next, stop))
        rest = replace(split, next=stop)
        ended: tuple[int, ...] = (split.id,)
        if rest.next < rest.end:
            self._splits.append(rest)
            ended = ()
        new, self._new = tuple(self._new), []
        return Polled(
            values,
            [number % 10_000 for number in values],
            retry_at=self._now() + self._pause,
            ended=not self._splits,
            split=split.id,
            splits_added=new,
            splits_ended=ended,
        )


class CountPerKey(KeyedProcessFunction):
    """(key, number) -> (key, number, how many of the key so far)."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value[0], value[1], count


class RememberAndRelease(KeyedProcessFunction):
    """Keeps records in a list and lets them go, in order, when a timer fires: state, timers and output in step."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._kept = runtime_context.get_list_state(ListStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY()))

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self._kept.add(value)
        timestamp = ctx.timestamp()
        assert timestamp is not None
        ctx.timer_service().register_event_time_timer(timestamp + 5)
        return ()

    @override
    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        """Release everything that is kept."""
        yield from list(self._kept.get())
        self._kept.clear()


# The same, careless about their objects ------------------------------------------------------------------


class WithKeyInOneList(MapFunction):
    """number -> [key, number], in one list for all records."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._record = [0, 0]

    @override
    def map(self, value: int) -> list[int]:
        self._record[0], self._record[1] = key_of(value), value
        return self._record


class CountInPlace(CountPerKey):
    """As `CountPerKey`, but what it emits is the object in its state, which it changes the next time."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.PICKLED_BYTE_ARRAY())
        self._count = runtime_context.get_state(descriptor)

    @override
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Count, and emit the state."""
        state: Any = self._count.value() or [0, 0, 0]
        state[0], state[1] = value[0], value[1]
        state[2] += 1
        self._count.update(state)
        yield state
        value[1] = -1  # its argument is its own


class ReleaseOneObject(RememberAndRelease):
    """As `RememberAndRelease`, but all that it lets go is one list with other contents each time."""

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the state, and make the list."""
        super().open(runtime_context)
        self._released: list[Any] = []

    @override
    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        """Release everything that is kept."""
        for record in list(self._kept.get()):
            self._released[:] = record
            yield self._released
            self._released.clear()
        self._kept.clear()


def add_in_place(first: list[int], second: list[int]) -> list[int]:
    """[key, number] and another of the key: the first one with both numbers."""
    first[1] += second[1]
    return first


class SpoilingSink(SinkFunction):
    """Changes what it gets; others who get the same must not see it."""

    @override
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        value[:] = [-1] * len(value)


def key_of(number: int) -> int:
    """Some keys have many records."""
    return number % 7 if number % 3 else 0


@dataclass(frozen=True, slots=True)
class CrashProgram:
    """A topology and its settings, drawn from a seed; ``parallelism`` may change between attempts."""

    seed: int
    sources: int
    splits: int
    per_split: int
    pause: float
    shape: str
    careless: bool
    options: tuple[tuple[str, str], ...]

    SHAPES = ("count", "count twice", "timers", "windows", "union")

    @classmethod
    def drawn(cls, seed: int, directory: str) -> CrashProgram:
        """The program of a seed; checkpoints go below ``directory``."""
        rng = random.Random(f"program {seed}")
        shape = rng.choice(cls.SHAPES)
        options = {
            "execution.checkpointing.interval": f"{rng.choice((10, 30, 100))} ms",
            "execution.checkpointing.mode": "EXACTLY_ONCE",
            "execution.checkpointing.timeout": "2 s",
            "execution.checkpointing.min-pause": rng.choice(("0 ms", "0 ms", "20 ms")),
            "execution.checkpointing.max-concurrent-checkpoints": rng.choice(("1", "3")),
            "execution.checkpointing.tolerable-failed-checkpoints": rng.choice(("0", "1000000")),
            "execution.checkpointing.num-retained": rng.choice(("1", "3")),
            "execution.checkpointing.incremental": rng.choice(("true", "false")),
            "execution.checkpointing.dir": directory,
            "state.backend.type": rng.choice((*["hashmap"] * 6, _OWN_BACKEND, "rocksdb")),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000000",
            "restart-strategy.fixed-delay.delay": "10 ms",
            "firesteel.chunk.records": str(rng.choice((1, 3, 1024))),
        }
        # From a seed of its own, so that the rest of a seed's program stays what it was.
        keeps_copies = random.Random(f"local recovery {seed}").random() < 0.5
        options["state.backend.local-recovery"] = str(keeps_copies).lower()
        if random.Random(f"cache {seed}").random() < 0.5:  # where not everything is in memory
            options["state.backend.disk.cache-entries"] = "2"
        compresses = random.Random(f"compression {seed}").random() < 0.3
        options["execution.checkpointing.snapshot-compression"] = str(compresses).lower()
        if random.Random(f"overlap {seed}").random() < 0.5:
            # Barriers of several checkpoints are on their way at once, among many small payloads.
            options["execution.checkpointing.interval"] = "10 ms"
            options["execution.checkpointing.min-pause"] = "0 ms"
            options["execution.checkpointing.max-concurrent-checkpoints"] = "8"
            options["firesteel.chunk.records"] = "1"
        return cls(
            seed,
            sources=2 if shape == "union" else 1,
            splits=rng.randint(1, 3),
            per_split=rng.randint(5, 40),
            pause=rng.choice((0.002, 0.01, 0.03)),
            shape=shape,
            careless=random.Random(f"careless {seed}").random() < 0.5,
            options=tuple(options.items()),
        )

    @property
    def may_drain(self) -> bool:
        """Whether ending event time early changes nothing: windows that fire before they are full would show."""
        return self.shape != "windows"

    @property
    def ledger(self) -> str:
        """Name of the ledger that it writes to."""
        return f"crash simulation {self.seed}"

    def numbers(self) -> list[int]:
        """All records that go in."""
        return [number for source in self._sources() for number in source.numbers]

    def _sources(self) -> list[PacedSource]:
        return [PacedSource(n + 1, self.splits, self.per_split, self.pause) for n in range(self.sources)]

    def compile(self, parallelism: int) -> CompiledProgram:
        """The program with a parallelism."""
        caught: list[Submission] = []

        def catch(submission: Submission) -> None:
            caught.append(submission)
            raise _Caught

        configuration = Configuration.from_dict(dict(self.options))
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(parallelism).set_max_parallelism(MAX_PARALLELISM)
        self._build(env)
        with intercept(catch), contextlib.suppress(_Caught):
            env.execute("crash simulation")
        graph, configuration = caught[0].graph, caught[0].configuration
        plan = compile_job(graph, configuration, caught[0].job_name)
        program = program_operators(graph, plan, configuration)
        return CompiledProgram(plan, program, partial(ProgramPlans, graph, configuration))

    def _build(self, env: StreamExecutionEnvironment) -> None:
        streams = [
            env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), f"numbers {n}").uid(
                f"numbers {n}"
            )
            for n, source in enumerate(self._sources())
        ]
        stream = streams[0] if len(streams) == 1 else streams[0].union(*streams[1:])
        counts, keeps, adds = (
            (CountInPlace, ReleaseOneObject, add_in_place)
            if self.careless
            else (CountPerKey, RememberAndRelease, lambda a, b: (a[0], a[1] + b[1]))
        )
        pairs = stream.map(WithKeyInOneList() if self.careless else lambda number: (key_of(number), number))
        keyed = pairs.key_by(lambda record: record[0])
        match self.shape:
            case "count" | "union":
                result = keyed.process(counts()).uid("count")
            case "count twice":
                first = keyed.process(counts()).uid("first count")
                result = first.key_by(lambda record: record[0] % 2).process(counts()).uid("count")
            case "timers":
                kept = keyed.process(keeps()).uid("kept")
                result = kept.key_by(lambda record: record[0]).process(counts()).uid("count")
            case _:
                window = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
                sums = window.reduce(adds).uid("window")
                result = sums.key_by(lambda record: record[0]).process(counts()).uid("count")
        if self.careless:
            result.add_sink(SpoilingSink()).uid("spoils")
        result.add_sink(LedgerSink(self.ledger)).uid("ledger")


class _Caught(Exception):
    """The program has been handed over; nothing runs here."""


def check_output(program: CrashProgram, committed: list[Any]) -> None:
    """Refuse output that shows a record lost, doubled or out of order."""
    counts: dict[Any, list[int]] = defaultdict(list)
    for record in committed:
        counts[record[0] % 2 if program.shape == "count twice" else record[0]].append(record[2])
    for key, found in counts.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            raise AssertionError(f"key {key} was counted {sorted(found)}")
    numbers = program.numbers()
    if program.shape == "windows":
        expected: Counter[Any] = Counter()
        sums: dict[Any, int] = defaultdict(int)
        for number in numbers:
            sums[key_of(number), number % 10_000 // 10] += number
        expected.update((key, total) for (key, _), total in sums.items())
    else:
        expected = Counter((key_of(number), number) for number in numbers)
    seen = Counter((record[0], record[1]) for record in committed)
    if seen != expected:
        missing, extra = expected - seen, seen - expected
        raise AssertionError(f"missing {dict(missing)}, too much {dict(extra)}")
