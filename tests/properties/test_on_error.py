"""``on_error`` gives what a naive loop with one ``try`` per record gives, however the records were cut into batches.

A record is a key and a list of things to do: yield, send aside, count in state, raise. Functions of all kinds obey them. The
model calls the same code one record at a time; the operator gets random batches, which its pace cuts again.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common._override import override
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import ValueStateDescriptor
from firesteel.plan import operator_specs as specs
from firesteel.plan.on_error import OnError, count_name
from firesteel.plan.shipped import Shipped
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing._simulated_pace import SimulatedPace

BAD = "bad"
SIDE = OutputTag("side")
COUNT = ValueStateDescriptor("count", Types.INT())

Record = tuple[str, list[tuple[str, int]]]  # its key and what to do with it

ACTIONS = st.one_of(
    st.tuples(st.just("yield"), st.integers(0, 9)),
    st.tuples(st.just("aside"), st.integers(0, 9)),
    st.tuples(st.just("count"), st.just(0)),
    st.tuples(st.just("raise"), st.integers(0, 3)),
    st.tuples(st.just("many"), st.integers(1000, 1100)),  # more than leave at once
)
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.lists(ACTIONS, max_size=4)), max_size=30)


class Wrong(Exception):
    """What functions raise."""


def play(record: Record, aside: Any, count: Any) -> Iterator[Any]:
    """Do what a record says."""
    for action, number in record[1]:
        match action:
            case "yield":
                yield number
            case "many":
                yield from range(number)
            case "aside":
                yield from aside(number)
            case "count":
                yield count()
            case "raise":
                raise Wrong(f"wrong {number}")


def total(record: Record) -> int:
    """One result of a record without side outputs and state."""
    return sum(play(record, lambda number: [number], lambda: 0))


class Map(MapFunction):
    @override
    def map(self, value: Record) -> Any:
        return total(value)


class Filter(FilterFunction):
    @override
    def filter(self, value: Record) -> bool:
        return total(value) % 2 == 0


class FlatMap(FlatMapFunction):
    @override
    def flat_map(self, value: Record) -> Any:
        return play(value, lambda number: [number], lambda: 0)


class Listed(FlatMapFunction):
    """Gives all or nothing."""

    @override
    def flat_map(self, value: Record) -> Any:
        return list(play(value, lambda number: [number], lambda: 0))


class Process(ProcessFunction):
    @override
    def process_element(self, value: Record, ctx: Any) -> Any:
        return play(value, lambda number: [(SIDE, number)], lambda: 0)


class Keyed(KeyedProcessFunction):
    @override
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def _count(self) -> int:
        found: int = (self.count.value() or 0) + 1
        self.count.update(found)
        return found

    @override
    def process_element(self, value: Record, ctx: Any) -> Any:
        def aside(number: int) -> list[Any]:
            ctx.output(SIDE, number)
            return []

        return play(value, aside, self._count)


class CoMap(CoMapFunction):
    @override
    def map1(self, value: Record) -> Any:
        return total(value)

    @override
    def map2(self, value: Record) -> Any:
        return -total(value)


class CoFlatMap(CoFlatMapFunction):
    @override
    def flat_map1(self, value: Record) -> Any:
        return play(value, lambda number: [number], lambda: 0)

    @override
    def flat_map2(self, value: Record) -> Any:
        return play(value, lambda number: [-number], lambda: 0)


class CoProcess(CoProcessFunction):
    @override
    def process_element1(self, value: Record, ctx: Any) -> Any:
        return play(value, lambda number: [(SIDE, number)], lambda: 0)

    @override
    def process_element2(self, value: Record, ctx: Any) -> Any:
        return play(value, lambda number: [(SIDE, -number)], lambda: 0)


KINDS: dict[str, tuple[Any, Any]] = {
    "map": (specs.MapSpec, Map),
    "filter": (specs.FilterSpec, Filter),
    "flat_map": (specs.FlatMapSpec, FlatMap),
    "listed": (specs.FlatMapSpec, Listed),
    "process": (specs.ProcessSpec, Process),
    "keyed": (specs.ProcessSpec, Keyed),
    "co_map": (specs.CoMapSpec, CoMap),
    "co_flat_map": (specs.CoFlatMapSpec, CoFlatMap),
    "co_process": (specs.CoProcessSpec, CoProcess),
}


class Model:
    """One record at a time."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.main: list[tuple[Any, int | None]] = []
        self.aside: list[tuple[Any, int | None]] = []
        self.letters: list[tuple[Any, str, str, int | None]] = []
        self.counts: defaultdict[str, int] = defaultdict(int)

    def receive(self, record: Record, timestamp: int | None, second: bool) -> None:
        try:
            for result in self._results(record, timestamp, -1 if second else 1):
                self.main.append((result, timestamp))
        except Wrong as error:
            self.letters.append((record, f"{__name__}.Wrong", str(error), timestamp))

    def _results(self, record: Record, timestamp: int | None, sign: int) -> Iterator[Any]:
        def aside(number: int) -> list[Any]:
            if self.kind not in ("process", "keyed", "co_process"):
                return [sign * number]
            self.aside.append((sign * number, timestamp))
            return []

        def count() -> int:
            if self.kind == "keyed":
                self.counts[record[0]] += 1
            return self.counts[record[0]]

        match self.kind:
            case "map" | "co_map":
                yield sign * total(record)
            case "filter":
                if total(record) % 2 == 0:
                    yield record
            case "listed":
                yield from list(play(record, aside, count))
            case _:
                yield from play(record, aside, count)


def batches(rng: random.Random, count: int) -> Iterator[slice]:
    begin = 0
    while begin < count:
        size = rng.choice((1, 2, 7, count))
        yield slice(begin, begin + size)
        begin += size


def sent(harness: OperatorHarness, tag: str) -> list[tuple[Any, int | None]]:
    output = harness.output
    return list(zip(output.sides.get(tag, []), output.side_timestamps.get(tag, []), strict=True))


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(records=RECORDS, seed=st.integers(0, 1000))
def test_a_function_that_may_raise_is_a_loop_with_a_try(
    kind: str, timed: bool, records: list[Record], seed: int
) -> None:
    rng = random.Random(seed)
    spec, function = KINDS[kind]
    harness = OperatorHarness(
        spec(Shipped.of(function(), "test"), on_error=OnError(BAD)),
        keys=(lambda record: record[0],) if kind == "keyed" else (),
        pace=SimulatedPace(rng),
    )
    model = Model(kind)
    for piece in batches(rng, len(records)):
        values = records[piece]
        stamps = list(range(piece.start, piece.start + len(values))) if timed else None
        second = kind.startswith("co") and rng.random() < 0.5
        (harness.process_second if second else harness.process)(list(values), stamps)  # type: ignore[arg-type]
        for number, value in enumerate(values):
            model.receive(value, None if stamps is None else stamps[number], second)
    assert list(zip(harness.output.values, harness.output.timestamps, strict=True)) == model.main
    assert sent(harness, SIDE.tag_id) == model.aside
    letters = [(each.value, each.error_type, each.message, each.timestamp) for each, _ in sent(harness, BAD)]
    assert letters == model.letters
    assert [stamp for _, stamp in sent(harness, BAD)] == [stamp for *_, stamp in model.letters]
    counted = harness.runtime.accumulators[count_name("Operator")]
    assert counted.get_local_value() == len(model.letters)
