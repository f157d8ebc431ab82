"""The connected parts of a plan, and who is told about them."""

from __future__ import annotations

import pytest

from firesteel.common.configuration import Configuration
from firesteel.jobmaster.regions import regions, warn_about_regions
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import EdgePlan, JobPlan, VertexPlan
from firesteel.plan.operator_specs import RuntimeMode


def plan(vertices: int, *edges: tuple[int, int]) -> JobPlan:
    return JobPlan(
        "job",
        RuntimeMode.STREAMING,
        (),
        tuple(VertexPlan(n, f"v{n}", n, 0, 1, 128, ()) for n in range(vertices)),
        tuple(
            EdgePlan(n, source, 0, None, target, 0, Rebalance()) for n, (source, target) in enumerate(edges)
        ),
    )


def test_parts_are_found_however_their_edges_lie() -> None:
    assert regions(plan(1)) == [{0}]
    assert regions(plan(3, (0, 1), (1, 2))) == [{0, 1, 2}]
    assert regions(plan(5, (0, 3), (1, 4), (2, 4))) == [{0, 3}, {1, 2, 4}]
    assert regions(plan(4, (0, 2), (1, 3), (0, 3))) == [{0, 1, 2, 3}]


def test_who_asks_for_regions_is_told_when_there_are_several(caplog: pytest.LogCaptureFixture) -> None:
    region = Configuration.from_dict({"jobmanager.execution.failover-strategy": "region"})
    warn_about_regions(plan(2), Configuration())
    warn_about_regions(plan(2, (0, 1)), region)
    assert caplog.records == []
    warn_about_regions(plan(2), region)
    assert "consists of 2 parts" in caplog.text
