"""One answer out of those of several drivers."""

from __future__ import annotations

from typing import Any

from firesteel.service.merging import merged_lines, overview
from firesteel_support.rest_client import check_shape


def line(job: str, state: str, start: int = 0) -> dict[str, Any]:
    return {"jid": job, "state": state, "start-time": start}


def test_a_job_is_listed_once_as_the_one_who_knows_best_says() -> None:
    driver, archive = [line("b", "RUNNING", 2)], [line("a", "FINISHED", 1), line("b", "FAILED", 2)]
    assert merged_lines(driver, archive) == [line("a", "FINISHED", 1), line("b", "RUNNING", 2)]


def test_figures_count_every_job_once_and_waiting_ones_as_running() -> None:
    lines = [line("a", "RUNNING"), line("b", "CREATED"), line("c", "FAILED"), line("d", "FINISHED")]
    found = overview(lines, 2, 64, 10)
    check_shape(found, "ClusterOverview")
    assert (found["jobs-running"], found["jobs-failed"], found["jobs-finished"], found["jobs-cancelled"]) == (
        2,
        1,
        1,
        0,
    )
    assert (found["taskmanagers"], found["slots-total"], found["slots-available"]) == (2, 64, 10)
