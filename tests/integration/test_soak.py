"""The soak in its short form: nothing grows over some jobs, checkpoints and splits, and growth would be noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import soak
from conftest import SparkEnvironment
from service_soak import soak_service

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="it looks at Linux's /proc")

HELD: list[int] = []

#: Well above what else this process opens and closes meanwhile: the garbage of earlier tests holds connections, too.
LEAK = 40


def test_many_jobs_leave_nothing_behind(tmp_path: Path) -> None:
    assert soak.many_jobs(60, tmp_path).growth() == []


def test_many_checkpoints_leave_nothing_behind(tmp_path: Path) -> None:
    assert soak.many_checkpoints(150, tmp_path).growth() == []


def test_many_splits_leave_nothing_behind(tmp_path: Path) -> None:
    assert soak.many_splits(30_000, tmp_path).growth() == []


def test_a_descriptor_that_every_job_leaves_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = soak.Looks.look

    def leak(looks: soak.Looks) -> None:
        HELD.extend(os.dup(0) for _ in range(LEAK))
        look(looks)

    monkeypatch.setattr(soak.Looks, "look", leak)
    try:
        (grown,) = soak.many_jobs(24, tmp_path).growth()
    finally:
        while HELD:
            os.close(HELD.pop())
    assert grown.startswith("jobs: descriptors grew from ")


def test_counts_that_move_without_growing_are_no_growth() -> None:
    counts = [10, 40, 12, 30, 11, 45, 13, 44, 12, 41, 10, 30]
    samples = [soak.Usage(n, n, n, n) for n in counts]
    assert soak.Series("moving", samples).growth() == []
    grown = soak.Series("growing", [soak.Usage(5, 5, 5.0, n * 10) for n in range(12)]).growth()
    assert grown == ["growing: files grew from 70 to 80"]


@pytest.mark.spark
def test_jobs_on_spark_leave_nothing_behind(environment: SparkEnvironment, tmp_path: Path) -> None:
    series = soak.many_spark_jobs(tmp_path, lambda number: number < 9)
    assert [grown for each in series for grown in each.growth()] == []


@pytest.mark.spark
def test_the_tasks_of_a_long_job_on_spark_do_not_grow(environment: SparkEnvironment, tmp_path: Path) -> None:
    driver, tasks = soak.long_spark_job(tmp_path, lambda number: number < 9)
    assert driver.growth() + tasks.growth() == []
    assert tasks.samples[-1].descriptors > 0


@pytest.mark.spark
def test_a_service_holds_no_more_after_jobs_that_end_fail_are_cancelled_killed_and_rescaled(
    tmp_path: Path,
) -> None:
    series = soak_service(tmp_path / "soak", lambda number: number < 6, spares=0)
    assert [grown for each in series for grown in each.growth()] == []
    assert all(len(each.samples) == 6 for each in series)
