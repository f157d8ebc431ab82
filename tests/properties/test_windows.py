"""Window operators against naive models, over random disorder, watermarks and chunk boundaries.

Every case is drawn from a seed, which a failure prints. The models look at all records of a window again at
every step, and share nothing with the operators.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.contracts.functions import (
    AggregateFunction,
    ProcessWindowFunction,
    WindowFunction,
    merges_exactly,
)
from firesteel.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from firesteel.plan.operator_specs import WindowSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime.operators.windows.general_operator import WindowOperator
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing._simulated_pace import SimulatedPace
from firesteel.testing.state_stores import DictStore
from firesteel_support.effort import cases

END = 2**63 - 1
MIN = -(2**63)
CASES = cases(2_000, 20_000)
seeds = given(seed=st.integers(0, 2**32))
many = settings(max_examples=CASES)

# A record is (key, number, gap); numbers tell records apart. An event is (record, timestamp) or a watermark.
Record = tuple[str, int, int]
Event = tuple[Record, int] | int
Firing = tuple[str, int, int, tuple[int, ...]]  # key, start, end, numbers


def stream(rng: random.Random, records: int = 18) -> list[Event]:
    """Records in disorder, with watermarks between them that some records come after."""
    events: list[Event] = []
    clock, watermark = rng.randint(-20, 20), MIN
    for number in range(rng.randint(0, records)):
        clock += rng.choice((0, 1, 1, 2, 5, 11))
        if rng.random() < 0.35:
            watermark = max(watermark + 1, clock - rng.choice((0, 2, 6)))
            events.append(watermark)
        timestamp = clock - rng.choice((0, 0, 1, 3, 8, 20))
        events.append(((rng.choice("ab"), number, rng.randint(1, 9)), timestamp))
    return [*events, END]


# Running an operator ------------------------------------------------------------------------------------


class Listed(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield key, getattr(window, "start", 0), getattr(window, "end", 0), tuple(e[1] for e in elements)


class Gathered(WindowFunction):  # type: ignore[type-arg]
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        (found,) = inputs
        return [(key, window.start, window.end, tuple(found[1]))]


class Gather(AggregateFunction):
    """Accumulates in place, as user code does, so that a forgotten copy would show."""

    def create_accumulator(self) -> Any:
        return ["", []]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] = value[0]
        accumulator[1].append(value[1])
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        merged = [acc_a[0], acc_a[1] + acc_b[1]]
        acc_a[1].clear()
        acc_b[1].clear()
        return merged


class GatherWithoutMerge(Gather):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError("only windows that merge may do that")


@merges_exactly
class GatherSorted(Gather):
    """Says that merging is exact, and gives the same in whatever order."""

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0], sorted(accumulator[1])


def joined(a: Any, b: Any) -> Any:
    numbers = [n for each in (a[1], b[1]) for n in (each if isinstance(each, tuple) else (each,))]
    return a[0], tuple(numbers), 0


class Reduced(WindowFunction):  # type: ignore[type-arg]
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        (found,) = inputs
        numbers = found[1] if isinstance(found[1], tuple) else (found[1],)
        return [(key, window.start, window.end, numbers)]


class OwnTrigger(EventTimeTrigger):
    """Does what its base does, but is not its type: the general operator has to do the work."""


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "list": (None, Listed()),
    "aggregate": (Gather(), Gathered()),
    "aggregate, no merge": (GatherWithoutMerge(), Gathered()),
    "aggregate, exact": (GatherSorted(), Gathered()),
    "reduce": (joined, Reduced()),
}
_shipped: dict[int, Shipped] = {}


def shipped(thing: Any) -> Shipped:
    return _shipped.setdefault(id(thing), Shipped.of(thing, "test"))


def key_of(record: Record) -> str:
    return record[0]


def operator(
    assigner: WindowAssigner[Any, Any], trigger: Any, functions: tuple[Any, Any], **more: Any
) -> OperatorHarness:
    aggregator, function = (None if each is None else shipped(each) for each in functions)
    trigger = trigger or assigner.get_default_trigger(None)
    evictor = more.pop("evictor", None)
    spec = WindowSpec(
        Shipped.of(assigner, "test"),
        Shipped.of(trigger, "test"),
        aggregator,
        function,
        None if evictor is None else Shipped.of(evictor, "test"),
        more.get("lateness", 0),
        "late",
    )
    return remade(spec, None, more.get("backend", "hashmap"))


def remade(spec: WindowSpec, snapshot: Any, backend: str) -> OperatorHarness:
    pace = SimulatedPace(random.Random(7))  # cuts batches
    harness: Any = OperatorHarness(
        spec, keys=(key_of,), snapshot=snapshot, options=BACKENDS[backend], pace=pace
    )

    def restarted(rng: random.Random) -> OperatorHarness:
        again = remade(spec, harness.snapshot(), some_backend(rng))
        harness.state.close()
        return again

    harness.restarted = restarted
    return harness


BACKENDS = {
    "hashmap": {"state.backend.type": "hashmap"},
    "disk": {"state.backend.type": "disk", "state.backend.disk.cache-entries": "2"},
    "custom": {"state.backend.type": f"{__name__}:open_store"},
}


def open_store(context: Any) -> DictStore:
    return DictStore()


def some_backend(rng: random.Random) -> str:
    """Mostly the fastest one; opening a file takes longer than a case."""
    return rng.choices(("hashmap", "custom", "disk"), (12, 3, 1))[0]


def run(
    harness: OperatorHarness, events: list[Event], rng: random.Random, restarts: float = 0.1
) -> list[tuple[list[Any], list[Any]]]:
    """For each watermark what came out before it: firings with timestamps in order, and late numbers."""
    found: list[tuple[list[Any], list[Any]]] = []
    batch: list[tuple[Record, int]] = []
    for event in events:
        if isinstance(event, tuple):
            batch.append(event)
            if rng.random() < 0.3:
                push(harness, batch)
                batch = []
            continue
        push(harness, batch)
        batch = []
        harness.watermark(event)
        found.append(taken(harness))
        if rng.random() < restarts:  # from a snapshot, which changes nothing
            harness = harness.restarted(rng)  # type: ignore[attr-defined]
            harness.watermark(event)
            assert taken(harness) == ([], [])
    harness.state.close()
    return found


def push(harness: OperatorHarness, batch: list[tuple[Record, int]]) -> None:
    if batch:
        harness.process([record for record, _ in batch], [timestamp for _, timestamp in batch])


def taken(harness: OperatorHarness) -> tuple[list[Any], list[Any]]:
    output = harness.output
    fired = list(zip(output.values, output.timestamps, strict=True))
    late = [record[1] for record in output.sides.get("late", [])]
    output.values, output.timestamps = [], []
    output.sides.clear()
    return fired, late


def check(harness: OperatorHarness, events: list[Event], rng: random.Random, model: Iterator[Any]) -> None:
    for (fired, late), (expected, expected_late) in zip(run(harness, events, rng), model, strict=True):
        assert sorted(fired) == sorted(((key, s, e, n), e - 1) for key, s, e, n in expected)
        assert late == expected_late


# Tumbling and sliding windows ---------------------------------------------------------------------------


def grid_model(
    events: list[Event], size: int, slide: int, offset: int, lateness: int, order: Callable[[list[int]], Any]
) -> Iterator[tuple[list[Firing], list[int]]]:
    """Every window that could exist, tried for every record: which are open, which fire now?"""
    taken: dict[tuple[str, int], list[int]] = {}
    clock = MIN
    fired: list[Firing] = []
    late: list[int] = []
    starts = [offset + slide * n for n in range(-200, 400)]
    for event in events:
        if isinstance(event, tuple):
            (key, number, _), timestamp = event
            windows = [s for s in starts if s <= timestamp < s + size]
            open_ = [s for s in windows if s + size - 1 + lateness > clock]
            for start in open_:
                taken.setdefault((key, start), []).append(number)
                if start + size - 1 <= clock:
                    fired.append((key, start, start + size, order(taken[key, start])))
            if not open_ and timestamp + lateness <= clock:
                late.append(number)
            continue
        for (key, start), numbers in taken.items():
            if clock < start + size - 1 <= event:
                fired.append((key, start, start + size, order(numbers)))
        clock = event
        yield fired, late
        fired, late = [], []


def in_order(numbers: list[int]) -> tuple[int, ...]:
    return tuple(numbers)


def by_size(numbers: list[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers))


def compare_grid(seed: int, sliding: bool) -> None:
    rng = random.Random(seed)
    events = stream(rng)
    size = rng.randint(1, 12)
    slide = rng.randint(1, 12) if sliding else size
    offset = rng.randint(1 - slide, slide - 1)
    lateness = rng.choice((0, 0, 1, 4, 15))
    name = rng.choice(list(FUNCTIONS))
    kind = (
        (lambda: SlidingEventTimeWindows(size, slide, offset))
        if sliding
        else (lambda: TumblingEventTimeWindows(size, offset))
    )
    order = by_size if name == "aggregate, exact" else in_order
    for trigger in (None, OwnTrigger()):
        backend = some_backend(rng)
        harness = operator(kind(), trigger, FUNCTIONS[name], lateness=lateness, backend=backend)
        is_general = trigger is not None or backend != "hashmap"
        assert isinstance(harness.operator, WindowOperator) == is_general
        check(harness, events, rng, grid_model(events, size, slide, offset, lateness, order))


@many
@seeds
def test_tumbling_windows_agree_with_the_model(seed: int) -> None:
    compare_grid(seed, sliding=False)


@many
@seeds
def test_sliding_windows_agree_with_the_model(seed: int) -> None:
    compare_grid(seed, sliding=True)


# Folding ------------------------------------------------------------------------------------------------

# Functions that any difference in what is folded, in which order, shared with whom would show of. A record is
# [key, [number], gap], and everything may be changed in place.


def last(a: Any, b: Any) -> Any:
    return b


def counted(a: Any, b: Any) -> Any:
    return [a[0], [*a[1][:1], len(a[1])], a[2] + 1]


def taken_over(a: Any, b: Any) -> Any:
    a[1] += b[1]
    b[1].append("spoilt")
    return a


def handed_over(a: Any, b: Any) -> Any:
    b[1] = a[1] + b[1]
    a[1].append("spoilt")
    return b


class Kept(AggregateFunction):
    """Keeps the records themselves, and changes each that comes and each that is there."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        for number, each in enumerate(accumulator):
            each[1].append(number)
        value[1].append("new")
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError("only windows that merge may do that")


class Floats(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0.0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value[1][0] * 0.1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Tally(AggregateFunction):
    """One object for all results, which is made again for each."""

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}

    def create_accumulator(self) -> Any:
        return {"count": 0}

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator["count"] += 1
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        self.row["count"] = accumulator["count"]
        accumulator["count"] += 100  # so that a second result tells that there was a first one
        return self.row

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError("only windows that merge may do that")


@merges_exactly
class Total(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value[1][0]
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a[0] += acc_b[0]
        return acc_a


class Spoiling(ProcessWindowFunction):  # type: ignore[type-arg]
    """Yields what it was given, and changes it before and after."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterable[Any]:
        everything = list(elements)
        yield everything
        for element in everything:
            if isinstance(element, list):
                element.append("spoilt")
                for part in element:
                    if isinstance(part, list):
                        part.append("spoilt")
            if isinstance(element, dict):
                element["count"] = "spoilt"
        yield everything
        everything.clear()


FOLDS: list[tuple[Any, Any]] = [
    (aggregator, function)
    for aggregator in (last, counted, taken_over, handed_over, Kept(), Floats(), Tally(), Total())
    for function in (None, Spoiling())
] + [(None, Spoiling())]


class Naive:
    """Windows of one grid, record by record: whatever a function gets or gives is a copy."""

    def __init__(self, size: int, slide: int, lateness: int, functions: tuple[Any, Any]) -> None:
        self.size, self.slide, self.lateness = size, slide, lateness
        self.aggregator, self.function = copy.deepcopy(functions)
        self.windows: dict[tuple[int, str], Any] = {}
        self.clock = MIN
        self.emitted: list[Any] = []

    def record(self, record: Any, timestamp: int) -> None:
        latest = timestamp - timestamp % self.slide
        for start in range(latest, timestamp - self.size, -self.slide):
            last_timestamp = start + self.size - 1
            if last_timestamp + self.lateness > self.clock:
                self.add((start, record[0]), copy.deepcopy(record))
                if last_timestamp <= self.clock:
                    self.fire((start, record[0]))

    def add(self, start_and_key: tuple[int, str], record: Any) -> None:
        contents, aggregator = self.windows.get(start_and_key), self.aggregator
        if aggregator is None:
            self.windows[start_and_key] = [*(contents or []), record]
        elif isinstance(aggregator, AggregateFunction):
            if start_and_key not in self.windows:
                contents = aggregator.create_accumulator()
            self.windows[start_and_key] = aggregator.add(record, contents)
        else:
            self.windows[start_and_key] = (
                record if start_and_key not in self.windows else aggregator(contents, record)
            )

    def fire(self, start_and_key: tuple[int, str]) -> None:
        contents, aggregator = self.windows[start_and_key], self.aggregator
        result = aggregator.get_result(contents) if isinstance(aggregator, AggregateFunction) else contents
        timestamp = start_and_key[0] + self.size - 1
        if self.function is None:
            self.emitted.append((copy.deepcopy(result), timestamp))
            return
        elements = copy.deepcopy(result if aggregator is None else [result])
        for output in self.function.process(start_and_key[1], None, elements):
            self.emitted.append((copy.deepcopy(output), timestamp))

    def watermark(self, timestamp: int) -> None:
        for start_and_key in sorted(self.windows):
            if self.clock < start_and_key[0] + self.size - 1 <= timestamp:
                self.fire(start_and_key)
        self.clock = timestamp
        self.windows = {
            start_and_key: contents
            for start_and_key, contents in self.windows.items()
            if start_and_key[0] + self.size - 1 + self.lateness > timestamp
        }


def cut(rng: random.Random, events: list[Any], chunk: int) -> Iterator[list[Any]]:
    """Runs of records, cut into chunks of a size, or of any size when that is 0; watermarks stand alone."""
    batch: list[Any] = []
    for event in events:
        is_full = len(batch) >= (chunk or rng.randint(1, 5))
        if batch and (is_full or isinstance(event, int)):
            yield batch
            batch = []
        if isinstance(event, int):
            yield [event]
        else:
            batch.append(event)


@many
@seeds
def test_windows_fold_as_a_naive_interpreter_does(seed: int) -> None:
    rng = random.Random(seed)
    events: list[Any] = [
        each if isinstance(each, int) else ([each[0][0], [each[0][1]], each[0][2]], each[1])
        for each in stream(rng)
    ]
    size, slide = rng.randint(1, 40), rng.randint(1, 12)
    slide = rng.choice((slide, size))
    lateness = rng.choice((0, 0, 4, 15))
    functions = rng.choice(FOLDS)
    naive = Naive(size, slide, lateness, functions)
    for event in events:
        if isinstance(event, int):
            naive.watermark(event)
        else:
            naive.record(*event)
    for trigger in (None, None, OwnTrigger()):
        assigner = SlidingEventTimeWindows(size, slide)
        harness = operator(assigner, trigger, functions, lateness=lateness, backend=some_backend(rng))
        found: list[Any] = []
        for batch in cut(rng, copy.deepcopy(events), rng.choice((1, 2, 7, 1024, 0))):
            if isinstance(batch[0], int):
                harness.watermark(batch[0])
            else:
                push(harness, batch)
            found += taken(harness)[0]
        harness.state.close()
        assert sorted(map(repr, found)) == sorted(map(repr, naive.emitted))


# Session windows ----------------------------------------------------------------------------------------


def session_model(
    events: list[Event], gap_of: Callable[[Record], int], lateness: int, order: Callable[[list[int]], Any]
) -> Iterator[tuple[list[Firing], list[int]]]:
    """Sessions as plain lists: a record unites all that it touches."""
    sessions: list[tuple[str, int, int, list[int]]] = []
    clock = MIN
    fired: list[Firing] = []
    late: list[int] = []
    for event in events:
        if isinstance(event, tuple):
            record, timestamp = event
            key, start, end, numbers = record[0], timestamp, timestamp + gap_of(record), [record[1]]
            touched = sorted(s for s in sessions if s[0] == key and s[1] <= end and s[2] >= start)
            numbers = [
                n for *_, others in touched for n in others
            ] + numbers  # in order of time, then the new one
            for _, other_start, other_end, _ in touched:
                start, end = min(start, other_start), max(end, other_end)
            if end - 1 + lateness <= clock:
                late.append(record[1])
                continue
            sessions = [s for s in sessions if s not in touched] + [(key, start, end, numbers)]
            if end - 1 <= clock:
                fired.append((key, start, end, order(numbers)))
            continue
        fired += [(k, s, e, order(n)) for k, s, e, n in sessions if clock < e - 1 <= event]
        sessions = [s for s in sessions if s[2] - 1 + lateness > event]
        clock = event
        yield fired, late
        fired, late = [], []


def gap_of_record(record: Record) -> int:
    return record[2]


@many
@seeds
def test_session_windows_agree_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    events = stream(rng)
    lateness = rng.choice((0, 0, 1, 4, 15))
    gap = rng.randint(1, 9)
    is_dynamic = rng.random() < 0.5
    name = rng.choice(("list", "aggregate", "reduce"))
    for trigger in (None, OwnTrigger()):
        backend = some_backend(rng)
        assigner: Any = (
            DynamicEventTimeSessionWindows(gap_of_record) if is_dynamic else EventTimeSessionWindows(gap)
        )
        harness = operator(assigner, trigger, FUNCTIONS[name], lateness=lateness, backend=backend)
        model = session_model(events, gap_of_record if is_dynamic else lambda record: gap, lateness, in_order)
        check(harness, events, rng, model)


# Count windows ------------------------------------------------------------------------------------------


@many
@seeds
def test_count_windows_agree_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    events = stream(rng, records=40)
    size, slide = rng.randint(1, 6), rng.randint(1, 6)
    is_tumbling = rng.random() < 0.3
    slide = size if is_tumbling else slide
    assigner: Any = (
        CountTumblingWindowAssigner(size) if is_tumbling else CountSlidingWindowAssigner(size, slide)
    )
    keyed: dict[str, list[int]] = {}
    expected = []
    for event in events:
        if isinstance(event, tuple):
            (key, number, _), _ = event
            numbers = keyed.setdefault(key, [])
            numbers.append(number)
            # Windows that end with this record, latest first, as they are asked.
            starts = [s for s in range(0, len(numbers), slide) if s + size == len(numbers)]
            expected += [((key, 0, 0, tuple(numbers[s:])), END) for s in reversed(starts)]
    for trigger in (None, CountTriggerOfOurs(size)):
        harness = operator(assigner, trigger, FUNCTIONS["list"], backend=some_backend(rng))
        fired = [each for found, _ in run(harness, events, rng) for each in found]
        assert fired == expected


class CountTriggerOfOurs(CountTrigger):
    pass


# Triggers -----------------------------------------------------------------------------------------------


@many
@seeds
def test_count_and_delta_triggers_on_global_windows_agree_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    events = stream(rng, records=40)
    n, purges, by_delta = rng.randint(1, 6), rng.random() < 0.5, rng.random() < 0.4
    trigger: Any = DeltaTrigger.of(n, lambda a, b: abs(a[2] - b[2])) if by_delta else CountTrigger.of(n)
    harness = operator(
        GlobalWindows.create(), PurgingTrigger.of(trigger) if purges else trigger, FUNCTIONS["list"]
    )
    expected = []
    content: dict[str, list[int]] = {}
    since: dict[str, int] = {}
    for event in events:
        if not isinstance(event, tuple):
            continue
        (key, number, size), _ = event
        content.setdefault(key, []).append(number)
        if by_delta:
            fires = abs(since.setdefault(key, size) - size) > n
            since[key] = size if fires else since[key]
        else:
            since[key] = since.get(key, 0) + 1
            fires = since[key] == n
            since[key] = 0 if fires else since[key]
        if fires:
            expected.append(((key, 0, 0, tuple(content[key])), END))
            content[key] = [] if purges else content[key]
    assert [each for found, _ in run(harness, events, rng) for each in found] == expected


def continuous_model(
    events: list[Event], size: int, interval: int, lateness: int, purges: bool
) -> Iterator[tuple[list[Firing], list[int]]]:
    """Tumbling windows that also fire whenever the clock passes the next multiple of an interval."""
    windows: dict[tuple[str, int], list[int]] = {}
    armed: dict[tuple[str, int], int] = {}
    waiting: set[tuple[str, int]] = set()  # for the end of their window
    clock = MIN
    fired: list[Firing] = []
    late: list[int] = []

    def fire(key: str, start: int) -> None:
        if windows.get((key, start)):
            fired.append((key, start, start + size, tuple(windows[key, start])))
            if purges:
                windows[key, start] = []

    for event in events:
        if isinstance(event, tuple):
            (key, number, _), timestamp = event
            start = timestamp // size * size
            last = start + size - 1
            if last + lateness <= clock:
                late.append(number)
                continue
            windows.setdefault((key, start), []).append(number)
            if last <= clock:
                fire(key, start)
                continue
            waiting.add((key, start))
            if (key, start) not in armed:
                armed[key, start] = min(timestamp // interval * interval + interval, last)
            continue
        for moment in range(-100, 400):
            if moment > event:
                break
            for key, start in [*windows]:
                last = start + size - 1
                if moment == last and (key, start) in waiting:
                    waiting.discard((key, start))
                    fire(key, start)
                elif armed.get((key, start), END) <= moment < last:
                    armed[key, start] = min(armed[key, start] + interval, last)
                    fire(key, start)
        clock = event
        windows = {k: v for k, v in windows.items() if k[1] + size - 1 + lateness > clock}
        armed = {k: v for k, v in armed.items() if k in windows}
        waiting &= windows.keys()
        yield fired, late
        fired, late = [], []


@many
@seeds
def test_continuous_event_time_trigger_agrees_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    events = stream(rng)
    size, interval, lateness = rng.randint(1, 20), rng.randint(1, 9), rng.choice((0, 0, 3, 12))
    purges = rng.random() < 0.3
    trigger: Any = ContinuousEventTimeTrigger(interval)
    harness = operator(
        TumblingEventTimeWindows(size),
        PurgingTrigger.of(trigger) if purges else trigger,
        FUNCTIONS["list"],
        lateness=lateness,
    )
    check(harness, events, rng, continuous_model(events, size, interval, lateness, purges))


# Evictors -----------------------------------------------------------------------------------------------


def evicted(kind: str, n: int, elements: list[tuple[Record, int]]) -> list[tuple[Record, int]]:
    if kind == "count":
        return elements[-n:]
    if kind == "time":
        newest = max((t for _, t in elements), default=0)
        return [e for e in elements if e[1] > newest - n]
    return [e for e in elements if abs(e[0][2] - elements[-1][0][2]) < n]


@many
@seeds
def test_evictors_agree_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    events = stream(rng, records=40)
    every, n = rng.randint(1, 4), rng.randint(1, 6)
    kind, after = rng.choice(("count", "time", "delta")), rng.random() < 0.5
    name = rng.choice(("list", "aggregate", "reduce")) if not after else "list"
    evictor: Any = {
        "count": lambda: CountEvictor.of(n, after),
        "time": lambda: TimeEvictor.of(n, after),
        "delta": lambda: DeltaEvictor.of(n, lambda a, b: abs(a[2] - b[2]), after),
    }[kind]()
    harness = operator(GlobalWindows.create(), CountTrigger.of(every), FLAT[name], evictor=evictor)
    expected = []
    content: dict[str, list[tuple[Record, int]]] = {}
    count: dict[str, int] = {}
    for event in events:
        if not isinstance(event, tuple):
            continue
        key = event[0][0]
        content.setdefault(key, []).append(event)
        count[key] = count.get(key, 0) + 1
        if count[key] % every == 0:
            if not after:
                content[key] = evicted(kind, n, content[key])
            expected.append(((key, 0, 0, tuple(record[1] for record, _ in content[key])), END))
            if after:
                content[key] = evicted(kind, n, content[key])
    assert [each for found, _ in run(harness, events, rng) for each in found] == expected


class Flat(WindowFunction):  # type: ignore[type-arg]
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        (found,) = inputs
        numbers = found[1] if isinstance(found[1], tuple | list) else (found[1],)
        return [(key, 0, 0, tuple(numbers))]


FLAT: dict[str, tuple[Any, Any]] = {
    "list": (None, Listed()),
    "aggregate": (Gather(), Flat()),
    "reduce": (joined, Flat()),
}


# Processing time ----------------------------------------------------------------------------------------


@many
@seeds
def test_processing_time_windows_agree_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    size, slide = rng.randint(1, 12), rng.randint(1, 12)
    is_tumbling = rng.random() < 0.5
    slide = size if is_tumbling else slide
    name = rng.choice(list(FUNCTIONS))
    assigner: Any = (
        TumblingProcessingTimeWindows(size) if is_tumbling else SlidingProcessingTimeWindows(size, slide)
    )
    harness = operator(assigner, None, FUNCTIONS[name])
    base = int(harness.services.clock.now() * 1000)
    arrived: list[tuple[str, int, int]] = []  # key, number, time
    for number in range(rng.randint(0, 20)):
        if rng.random() < 0.5:
            harness.services.clock.advance(rng.randint(0, 9) / 1000)
            due(harness)
        key = rng.choice("ab")
        arrived.append((key, number, round(harness.services.clock.now() * 1000)))
        harness.process([(key, number, 0)])
    harness.services.clock.advance(0.1)
    due(harness)
    expected = []
    for key in "ab":
        for start in range((base - 100) // slide * slide, base + 400, slide):
            numbers = tuple(n for k, n, time in arrived if k == key and start <= time < start + size)
            if numbers:
                expected.append(((key, start, start + size, numbers), start + size - 1))
    assert sorted(taken(harness)[0]) == sorted(expected)


def due(harness: OperatorHarness) -> None:
    while harness.operator.next_deadline() <= harness.services.clock.now():
        harness.link.on_time(harness.services.clock.now())


# Chunks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=300)
@seeds
def test_results_do_not_depend_on_chunk_boundaries(name: str, seed: int) -> None:
    rng = random.Random(seed)
    events = stream(rng)
    assigners: list[Any] = [
        TumblingEventTimeWindows(rng.randint(1, 12)),
        SlidingEventTimeWindows(rng.randint(1, 12), rng.randint(1, 12)),
        EventTimeSessionWindows(rng.randint(1, 6))
        if name != "aggregate, no merge"
        else TumblingEventTimeWindows(3),
    ]
    lateness = rng.choice((0, 5))
    for assigner in assigners:
        found = [
            run(operator(assigner, None, FUNCTIONS[name], lateness=lateness), events, random.Random(cut), 0)
            for cut in range(3)
        ]
        assert found[0] == found[1] == found[2]
