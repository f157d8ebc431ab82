"""Regions of a job: vertices that records connect. All regions restart together: see decision 0022."""

from __future__ import annotations

import logging

from firesteel.common.configuration import Configuration
from firesteel.common.options import FAILOVER_STRATEGY
from firesteel.plan.job_plan import JobPlan

__all__ = ["regions", "warn_about_regions"]

_LOG = logging.getLogger(__name__)


def regions(plan: JobPlan) -> list[set[int]]:
    """The vertices of each region, in the order of the plan."""
    connected: list[set[int]] = [{vertex.id} for vertex in plan.vertices]
    for edge in plan.edges:
        joined = [region for region in connected if edge.source in region or edge.target in region]
        joined[0].update(*joined[1:])
        connected = [region for region in connected if region not in joined[1:]]
    return connected


def warn_about_regions(plan: JobPlan, configuration: Configuration) -> None:
    """Tell somebody who asked for regions that a failure of one restarts the others too."""
    count = len(regions(plan))
    if configuration.get(FAILOVER_STRATEGY) == "region" and count > 1:
        _LOG.warning(
            "option '%s': job '%s' consists of %d parts that no record connects, and a failure restarts all of them; "
            "make them jobs of their own, with execute_async() for each",
            FAILOVER_STRATEGY.key,
            plan.name,
            count,
        )
