"""Joins against brute force over the whole input, whatever the disorder and however records are cut into chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.contracts.joins import ProcessJoinFunction
from firesteel.plan.operator_specs import IntervalJoinSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing._operator_harness import OperatorHarness
from firesteel_support.effort import cases

LEFT, RIGHT, WATERMARK = "left", "right", "watermark"


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield (left, right)


def key_of(record: tuple[int, int, int]) -> int:
    return record[0]


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Records (key, number, time) of both sides and watermarks, in any order."""
    steps: list[tuple[str, Any]] = []
    for number in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from([LEFT, LEFT, RIGHT, RIGHT, WATERMARK]))
        time = draw(st.integers(-20, 60))
        steps.append((kind, time) if kind == WATERMARK else (kind, (draw(st.integers(0, 2)), number, time)))
    return steps


def brute_force(steps: list[tuple[str, Any]], lower: int, upper: int) -> Counter[Any]:
    """Every pair of accepted records of one key within the bounds; below the clock is late."""
    clock = -(2**63)
    accepted: dict[str, list[Any]] = {LEFT: [], RIGHT: []}
    for kind, content in steps:
        if kind == WATERMARK:
            clock = max(clock, content)
        elif content[2] >= clock:
            accepted[kind].append(content)
    return Counter(
        (left, right)
        for left in accepted[LEFT]
        for right in accepted[RIGHT]
        if left[0] == right[0] and left[2] + lower <= right[2] <= left[2] + upper
    )


def chunks(steps: list[tuple[str, Any]], sizes: list[int]) -> Iterator[tuple[str, list[Any]]]:
    """Runs of records of one side, cut into pieces of the drawn sizes."""
    turn = 0
    for kind, run in groupby(steps, key=lambda step: step[0]):
        contents = [content for _, content in run]
        while contents:
            size = 1 if kind == WATERMARK else sizes[turn % len(sizes)]
            turn += 1
            yield kind, contents[:size]
            contents = contents[size:]


def run(steps: list[tuple[str, Any]], lower: int, upper: int, sizes: list[int]) -> OperatorHarness:
    op = OperatorHarness(
        IntervalJoinSpec(Shipped.of(Pair(), "test"), lower, upper, "late-left", "late-right"),
        keys=(key_of, key_of),
    )
    clock = -(2**63)
    for kind, contents in chunks(steps, sizes):
        if kind == WATERMARK:
            if contents[0] > clock:
                clock = contents[0]
                op.watermark(clock)
            continue
        process = op.process if kind == LEFT else op.process_second
        process(contents, [content[2] for content in contents])
    return op


@settings(max_examples=cases(1_000, 3_000))
@given(
    steps=scripts(),
    bounds=st.tuples(st.integers(-15, 15), st.integers(0, 15)),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_interval_join_finds_exactly_the_pairs_within_the_bounds(
    steps: list[tuple[str, Any]], bounds: tuple[int, int], sizes: list[int]
) -> None:
    lower, upper = bounds[0], bounds[0] + bounds[1]
    op = run(steps, lower, upper, sizes)
    assert Counter(op.output.values) == brute_force(steps, lower, upper)
    op.watermark(2**63 - 1)
    assert not op.state.table("\0left")
    assert not op.state.table("\0right")


@settings(max_examples=cases(1_000, 3_000))
@given(steps=scripts(), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_exactly_the_records_below_the_clock_are_late(steps: list[tuple[str, Any]], sizes: list[int]) -> None:
    op = run(steps, -100, 100, sizes)
    clock, late = -(2**63), []
    for kind, content in steps:
        if kind == WATERMARK:
            clock = max(clock, content)
        elif content[2] < clock:
            late.append(content)
    assert Counter(record for side in op.output.sides.values() for record in side) == Counter(late)
