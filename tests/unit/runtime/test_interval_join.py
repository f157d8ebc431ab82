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
from firesteel.testing.harness import OperatorHarness


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
