"""The same program gives the same results under a hundred orders of events."""

from __future__ import annotations

from collections import Counter

import pytest

from firesteel.graph.stream_graph import Chaining
from firesteel.plan.operator_specs import RuntimeMode
from firesteel_support.local_master import run_plan
from firesteel_support.program_model import check_results
from firesteel_support.programs import Input, OperatorStep, Program, SourceStep, compile_program

EVERYTHING = Program(
    steps=(
        SourceStep((tuple(range(12)), tuple(range(100, 108))), timed=True, rhythm=5, pauses=True),
        SourceStep((tuple(range(200, 215)),), rhythm=6),
        OperatorStep("map", (Input(0, "rebalance"),), parallelism=3, number=2),
        OperatorStep("process", (Input(2), Input(1, "rescale")), parallelism=2, number=3),
        OperatorStep("count", (Input(3, side=True), Input(2, "shuffle")), parallelism=2, number=4),
        OperatorStep("co_map", (Input(4),), parallelism=2, second_inputs=(Input(1, "broadcast"),)),
        OperatorStep("keyed_co_count", (Input(5),), parallelism=3, number=1, second_inputs=(Input(3),)),
        OperatorStep("flat_map", (Input(6, "custom"),), parallelism=1, chaining=Chaining.NEVER),
        OperatorStep("filter", (Input(7, "global"), Input(0)), parallelism=2, number=2),
    ),
    extra_sinks=frozenset({3, 5}),
    options={"firesteel.source.batch": 4, "firesteel.chunk.records": 3},
)


@pytest.mark.parametrize("mode", RuntimeMode)
def test_hundred_seeds_agree(mode: RuntimeMode) -> None:
    plan = compile_program(EVERYTHING, mode)
    totals = set()
    for seed in range(100):
        result = run_plan(plan, seed)
        check_results(EVERYTHING, result.collected, mode)
        counts = Counter({name: c.records_in + c.records_out for name, c in result.statistics.items()})
        totals.add(tuple(sorted(counts.items())))
    assert len(totals) == 1
