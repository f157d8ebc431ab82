"""Savepoints of every format version so far can be read, and a job resumes from them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # state refers to the program's classes by name

import golden_job

from firesteel_support.ledger import Ledger

GOLDEN = sorted((Path(__file__).parent.parent / "golden" / "savepoints").glob("v*/savepoint-*"))


def whole_run() -> Counter[object]:
    """What the program gives when it runs from the beginning to the end."""
    Ledger.forget("whole")
    env = golden_job.environment(1)
    golden_job.build(env, golden_job.Numbers(2 * golden_job.HALF, bounded=True), "whole")
    env.execute()
    return Counter(Ledger.named("whole").committed)


def second_half(path: Path, parallelism: int, **options: str) -> Counter[object]:
    """What it gives when it resumes from a savepoint of its middle."""
    Ledger.forget("second half")
    # Whom a checkout belongs to means nothing.
    given = {"execution.state-recovery.path": str(path), "firesteel.checkpoint.trust-directory": "true"}
    env = golden_job.environment(parallelism, **{**given, **options})
    golden_job.build(env, golden_job.Numbers(2 * golden_job.HALF, bounded=True), "second half")
    env.execute()
    return Counter(Ledger.named("second half").committed)


def first_half(directory: Path) -> tuple[Path, Counter[object]]:
    Ledger.forget("first half")
    path = Path(golden_job.stop_at_the_middle(directory, "first half"))
    return path, Counter(Ledger.named("first half").committed)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_job_goes_on_from_a_savepoint_of_an_earlier_version(
    path: Path, parallelism: int, tmp_path: Path
) -> None:
    _, before = first_half(tmp_path)
    assert before + second_half(path, parallelism) == whole_run()


def test_a_savepoint_of_every_version_is_kept() -> None:
    assert [path.parent.name for path in GOLDEN] == ["v1"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_state_of_every_kind_goes_on_from_a_new_savepoint(tmp_path: Path, parallelism: int) -> None:
    path, before = first_half(tmp_path)
    assert before + second_half(path, parallelism) == whole_run()
