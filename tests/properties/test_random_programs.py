"""Random programs give what a naive evaluation on lists gives, whatever the order of events."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from firesteel.plan.operator_specs import RuntimeMode
from firesteel_support.local_master import run_plan
from firesteel_support.program_model import check_results, expected_values
from firesteel_support.programs import Program, compile_program
from firesteel_support.strategies import programs

SEEDS = st.integers(0, 2**32)


def small_enough(program: Program, mode: RuntimeMode) -> bool:
    return sum(sum(values.values()) for values in expected_values(program, mode).values()) < 1500


@given(program=programs(), seed=SEEDS)
def test_streaming_gives_what_the_model_gives(program: Program, seed: int) -> None:
    assume(small_enough(program, RuntimeMode.STREAMING))
    result = run_plan(compile_program(program), seed)
    check_results(program, result.collected)


@given(program=programs(), seed=SEEDS)
def test_batch_gives_what_the_model_gives(program: Program, seed: int) -> None:
    assume(small_enough(program, RuntimeMode.BATCH))
    result = run_plan(compile_program(program, RuntimeMode.BATCH), seed)
    check_results(program, result.collected, RuntimeMode.BATCH)


@settings(max_examples=max(10, settings().max_examples // 10))
@given(program=programs(max_operators=4), seed=SEEDS)
def test_the_same_seed_gives_the_same_run(program: Program, seed: int) -> None:
    assume(small_enough(program, RuntimeMode.STREAMING))
    plan = compile_program(program)
    assert run_plan(plan, seed) == run_plan(plan, seed)
