"""Pairs of records whose times are close: bounds, lateness, what is kept and how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.contracts.joins import ProcessJoinFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.plan.operator_specs import IntervalJoinSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing._operator_harness import OperatorHarness


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        assert ctx.timestamp() == max(ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield (left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp())


def first(value: Any) -> Any:
    return value[0]


def join(lower: int, upper: int, options: dict[str, str] | None = None, **tags: str) -> OperatorHarness:
    spec = IntervalJoinSpec(Shipped.of(Pair(), "test"), lower, upper, **tags)
    return OperatorHarness(spec, keys=(first, first), options=options)


def pairs(op: OperatorHarness) -> list[tuple[Any, Any]]:
    return [(left, right) for left, right, _, _ in op.output.values]


def test_both_bounds_are_inclusive() -> None:
    op = join(-2, 1)
    op.process([("k", "left")], [10])
    op.process_second([("k", time) for time in range(6, 14)], list(range(6, 14)))
    assert [right[1] for _, right in pairs(op)] == [8, 9, 10, 11]


def test_pairs_are_found_from_either_side() -> None:
    op = join(0, 5)
    op.process_second([("k", "right")], [12])
    op.process([("k", "left")], [10])
    assert pairs(op) == [(("k", "left"), ("k", "right"))]


def test_only_equal_keys_meet() -> None:
    op = join(-5, 5)
    op.process([("a", 1), ("b", 2)], [10, 10])
    op.process_second([("b", 3)], [10])
    assert pairs(op) == [(("b", 2), ("b", 3))]


def test_a_result_has_the_later_time_of_the_two() -> None:
    op = join(-5, 5)
    op.process([("k", 1)], [10])
    op.process_second([("k", 2), ("k", 3)], [7, 13])
    assert op.output.timestamps == [10, 13]


def test_equal_to_the_watermark_is_not_late_below_it_is() -> None:
    op = join(-5, 5, left_late_tag="late-left", right_late_tag="late-right")
    op.process([("k", "early")], [12])
    op.watermark(10)
    op.process_second([("k", "on time")], [10])
    op.process_second([("k", "late")], [9])
    op.process([("k", "late too")], [8])
    assert pairs(op) == [(("k", "early"), ("k", "on time"))]
    assert op.output.sides == {"late-right": [("k", "late")], "late-left": [("k", "late too")]}


def test_late_records_without_a_side_output_are_dropped() -> None:
    op = join(-5, 5)
    op.watermark(10)
    op.process([("k", 1)], [9])
    assert op.output.sides == {}
    assert not op.state.table("\0left")


def test_records_are_forgotten_when_no_partner_can_come() -> None:
    op = join(-3, 5)
    op.process([("k", "left")], [10])
    op.process_second([("k", "right")], [40])
    op.watermark(14)
    assert op.state.table("\0left")  # a right record of time 15 may still come
    op.watermark(15)
    assert not op.state.table("\0left")
    op.watermark(42)
    assert op.state.table("\0right")  # a left record of time 43 may still come
    op.watermark(43)
    assert not op.state.table("\0right")


def test_records_that_are_on_disk_are_forgotten_too() -> None:
    op = join(-3, 5, {"state.backend.type": "disk", "state.backend.disk.cache-entries": "1"})
    op.process([(key, "left") for key in "abcdefgh"], [10] * 8)
    assert sorted(op.state.keys_of("\0left")) == list("abcdefgh")
    op.watermark(15)
    assert list(op.state.keys_of("\0left")) == []
    op.state.close()


class Tagging(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        ctx.output(OutputTag("handed"), left)
        yield OutputTag("yielded"), right


def test_side_outputs_work_both_ways() -> None:
    op = OperatorHarness(IntervalJoinSpec(Shipped.of(Tagging(), "test"), 0, 0), keys=(first, first))
    op.process([("k", 1)], [10])
    op.process_second([("k", 2)], [10])
    assert op.output.sides == {"handed": [("k", 1)], "yielded": [("k", 2)]}
    assert op.output.values == []


def test_records_without_event_time_are_refused_with_the_remedy() -> None:
    with pytest.raises(UserCodeError, match="assign_timestamps_and_watermarks"):
        join(0, 1).process([("k", 1)])


def test_records_of_which_some_have_no_event_time_are_refused_with_the_remedy() -> None:
    with pytest.raises(UserCodeError, match=r"assign_timestamps_and_watermarks(.|\n)*record: +\('k', 2\)"):
        join(0, 1).process([("k", 1), ("k", 2)], [1, None])


# What can change, and many results ------------------------------------------------------------------------

BACKENDS = pytest.mark.parametrize(
    "options",
    [
        {"state.backend.type": "hashmap"},
        {"state.backend.type": "disk", "state.backend.disk.cache-entries": "2"},
    ],
    ids=["hashmap", "disk"],
)


class Changing(ProcessJoinFunction):
    """Yields one object again and again, changes its arguments, and sends the object aside, too."""

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        self.row["pair"] = [list(left[1]), list(right[1])]
        ctx.output(OutputTag("aside"), self.row)
        yield self.row
        left[1].append("changed")
        right[1].append("changed")
        self.row["pair"].append("changed")


@BACKENDS
@pytest.mark.parametrize("chunk", [1, 7])
def test_what_a_join_function_changes_changes_no_other_pair_and_no_result(
    options: dict[str, str], chunk: int
) -> None:
    spec = IntervalJoinSpec(Shipped.of(Changing(), "test"), -5, 5)
    op = OperatorHarness(spec, keys=(first, first), options=options)
    lefts = [("k", [n]) for n in range(2)]
    for at in range(0, 2, chunk):
        op.process(lefts[at : at + chunk], [10] * len(lefts[at : at + chunk]))
    op.process_second([("k", [7])], [10])
    op.process_second([("k", [8])], [11])
    op.process([("k", [9])], [12])
    expected = [
        [[0], [7]],
        [[1], [7, "changed"]],  # one call, one right record, as in Flink
        [[0], [8]],
        [[1], [8, "changed"]],
        [[9], [7]],
        [[9, "changed"], [8]],
    ]
    assert [row["pair"] for row in op.output.values] == expected
    assert [row["pair"] for row in op.output.sides["aside"]] == expected
    op.state.close()


class Bursting(ProcessJoinFunction):
    """Gives many results for a pair, to the main output or aside."""

    made = 0

    def __init__(self, aside: bool) -> None:
        self.aside = aside

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        for number in range(5_000):
            Bursting.made += 1
            if self.aside:
                ctx.output(OutputTag("aside"), number)
            else:
                yield number


@pytest.mark.parametrize("aside", [False, True])
def test_results_leave_while_they_are_made(aside: bool) -> None:
    function = Bursting(aside)
    spec = IntervalJoinSpec(Shipped.of(function, "test"), -5, 5)
    op = OperatorHarness(spec, keys=(first, first))
    left, most = [0], [0]

    def emit(values: list[Any], timestamps: Any) -> None:
        most[0] = max(most[0], Bursting.made - left[0])
        left[0] += len(values)
        assert timestamps == [12] * len(values)

    op.output.emit = emit  # type: ignore[method-assign]
    op.output.emit_side = lambda tag, values, stamps: emit(values, stamps)  # type: ignore[method-assign]
    Bursting.made = 0
    op.process([("k", n) for n in range(3)], [10] * 3)
    op.process_second([("k", 1)], [12])
    assert (left[0], most[0]) == (15_000, 1024)
