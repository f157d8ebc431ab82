"""Plans of one program for other parallelisms."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidArgumentError, ProgramError
from firesteel.compiler.compile import compile_job
from firesteel.compiler.program_plans import Bounds, ProgramPlans
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import JobPlan


@pytest.fixture
def p(new_program: Any) -> Any:
    return new_program()


def plans_of(p: Any, parallelism: int = 2, **options: str) -> ProgramPlans:
    configuration = Configuration.from_dict({"parallelism.default": str(parallelism), **options})
    graph = p.builder.build()
    return ProgramPlans(graph, configuration, compile_job(graph, configuration, "job"))


def shape(plan: JobPlan) -> list[tuple[str, int]]:
    return [(vertex.name, vertex.parallelism) for vertex in plan.vertices]


def test_another_default_parallelism_is_that_of_operators_that_have_none_of_their_own(p: Any) -> None:
    p.map(p.reduce(p.source(limit=3)), "sink", parallelism=1)
    plans = plans_of(p)
    wide = plans.plan(plans.with_default(5))
    assert [parallelism for _, parallelism in shape(wide)] == [3, 5, 1]


def test_vertices_and_their_order_stay_where_operators_could_be_chained_now(p: Any) -> None:
    p.map(p.map(p.source(limit=1), "a"), "b", parallelism=3)
    plans = plans_of(p)
    narrow = plans.plan(plans.with_default(1))
    names = [name for name, _ in shape(plans.plan(plans.bounds))]
    assert [name for name, _ in shape(narrow)] == names


def test_a_chain_is_split_where_only_some_of_its_operators_follow_the_default(p: Any) -> None:
    p.map(p.source(), "fixed", parallelism=2)
    plans = plans_of(p)
    assert len(plans.plan(plans.bounds).vertices) == 1
    split = plans.plan(plans.with_default(4))
    assert [parallelism for _, parallelism in shape(split)] == [4, 2]
    assert split.edges[0].distribution == Rebalance()


def test_the_number_of_key_groups_never_changes(p: Any) -> None:
    p.reduce(p.source())
    plans = plans_of(p, parallelism=100)  # 256 groups; of parallelism 2 it would be 128
    assert {v.max_parallelism for v in plans.plan(plans.with_default(2)).vertices} == {256}
    with pytest.raises(ProgramError, match="parallelism 300 but max parallelism 256"):
        plans.plan(plans.with_default(300))


def test_the_largest_plan_makes_the_most_of_the_slots(p: Any) -> None:
    p.reduce(p.source(limit=1))
    plans = plans_of(p, parallelism=4)  # 1 + 4 slots
    bounds = plans.bounds
    widths = [plans.largest(bounds, slots) for slots in (0, 1, 2, 3, 5, 50)]
    assert [None if plan is None else plan.slots for plan in widths] == [None, None, 2, 3, 5, 5]
    assert plans.smallest(bounds).slots == 2


def test_slots_are_of_use_from_the_next_larger_plan_on(p: Any) -> None:
    p.reduce(p.source())
    plans = plans_of(p, parallelism=3)
    found = [plans.slots_of_larger(plans.bounds, slots) for slots in (0, 2, 3, 4, 5, 6, 50)]
    assert found == [2, 4, 4, 6, 6, 6, 6]


def test_lower_bounds_are_kept(p: Any) -> None:
    p.reduce(p.source())
    plans = plans_of(p, parallelism=4)
    bounds = {operator: Bounds(2, 4) for operator in plans.bounds}
    assert plans.largest(bounds, 3) is None
    largest = plans.largest(bounds, 7)
    assert largest is not None
    assert {v.parallelism for v in largest.vertices} == {3}


def test_a_parallelism_below_one_is_refused(p: Any) -> None:
    p.reduce(p.source())
    with pytest.raises(InvalidArgumentError, match="at least 1, got 0"):
        plans_of(p).with_default(0)


def test_what_the_first_plan_has_adopted_from_saved_state_stays(p: Any) -> None:
    p.reduce(p.source())
    plans = plans_of(p)
    assert plans.plan(plans.bounds) == plans._first
