"""How the benchmarks read what the programs print on two engines."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def contest(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("_contest")


def printing(*lines: str) -> list[str]:
    """A program that prints these lines, whatever its jobs are."""
    return [sys.executable, "-c", f"print({chr(10).join(lines)!r})"]


def test_rate_is_what_the_larger_size_has_more_over_what_it_takes_longer(contest: ModuleType) -> None:
    assert contest.rate_of((100, 1100), [2.0, 4.0]) == 500
    assert contest.rate_of((100, 1100), [2.0, 4.0, 2.0, 3.0, 2.0, 12.0]) == 500


def test_pair_in_which_the_larger_size_was_quicker_says_nothing(contest: ModuleType) -> None:
    assert contest.rate_of((100, 1100), [4.0, 2.0, 2.0, 3.0]) == 1000
    assert math.isnan(contest.rate_of((100, 1100), [4.0, 2.0]))


def test_seconds_and_results_are_found_with_and_without_the_number_of_a_task(contest: ModuleType) -> None:
    command = printing("2> result a 1", "noise", "seconds 1.5", "result b 2", "seconds 0.250")
    assert contest.run_jobs(command, ["1", "2"]) == contest.Outcome([1.5, 0.25], ["a 1", "b 2"])


def test_program_that_did_not_run_all_jobs_ends_the_benchmark(contest: ModuleType) -> None:
    with pytest.raises(SystemExit, match="ran 1 of 2 jobs"):
        contest.run_jobs(printing("seconds 1.5"), ["1", "2"])


def test_program_that_fails_ends_the_benchmark_with_what_it_said(contest: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"(?s)failed.*no such thing"):
        contest.run_jobs([sys.executable, "-c", "raise SystemExit('no such thing')"], ["1"])


def test_every_job_must_print_the_same(contest: ModuleType) -> None:
    assert contest.each_job(["b", "a", "a", "b", "b", "b"], 2) == ["a", "b", "b"]
    with pytest.raises(SystemExit, match="not every one of 2 runs printed the result 'b': 1 did"):
        contest.each_job(["a", "b", "a"], 2)


def test_engines_must_agree(contest: ModuleType) -> None:
    contest.must_agree("q0", ["a", "b"], ["b", "a"])
    with pytest.raises(SystemExit, match=r"(?s)q0: .*only Firesteel: \['c'\].*only PyFlink: \['b'\]"):
        contest.must_agree("q0", ["a", "c"], ["b", "a"])
