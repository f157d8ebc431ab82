"""Window operators against naive models, over random disorder, watermarks and chunk boundaries.

Every case is drawn from a seed, which a failure prints. The models look at all records of a window anew at
every step, and share nothing with the operators.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.contracts.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
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
from firesteel.runtime.operators.window import WindowOperator
from firesteel.testing.harness import OperatorHarness

END = 2**63 - 1
MIN = -(2**63)
CASES = 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 2_000
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
        return [(key, window.start, window.end, tuple(sorted(found[1])))]


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
        acc_b[1].extend(acc_a[1])
        return acc_b


class GatherWithoutMerge(Gather):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        pass


def joined(a: Any, b: Any) -> Any:
    numbers = [n for each in (a[1], b[1]) for n in (each if isinstance(each, tuple) else (each,))]
    return a[0], tuple(sorted(numbers)), 0


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
    return OperatorHarness(spec, keys=(key_of,))


def run(harness: OperatorHarness, events: list[Event], rng: random.Random) -> list[tuple[list[Any], list[Any]]]:
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
    kind = (lambda: SlidingEventTimeWindows(size, slide, offset)) if sliding else (
        lambda: TumblingEventTimeWindows(size, offset)
    )
    order = in_order if name == "list" else by_size
    for trigger in (None, OwnTrigger()):
        harness = operator(kind(), trigger, FUNCTIONS[name], lateness=lateness)
        assert isinstance(harness.operator, WindowOperator) == (trigger is not None)
        check(harness, events, rng, grid_model(events, size, slide, offset, lateness, order))


@many
@seeds
def test_tumbling_windows_agree_with_the_model(seed: int) -> None:
    compare_grid(seed, sliding=False)


@many
@seeds
def test_sliding_windows_agree_with_the_model(seed: int) -> None:
    compare_grid(seed, sliding=True)
