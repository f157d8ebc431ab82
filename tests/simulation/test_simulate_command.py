"""``scripts/simulate`` runs every simulation there is, or the one that is asked for, and says how to repeat a failure."""

from __future__ import annotations

from collections import Counter

import pytest

from firesteel_support import simulate


def test_all_simulations_share_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--seeds", "10", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(", ")[0] for line in lines] == [
        "engine: exactly once held in 10 runs",
        "kafka: exactly once held in 2 runs",
        "database: exactly once held in 2 runs",
        "files: exactly once held in 2 runs",
        lines[-1],
    ]
    assert lines[-1].endswith("first seed 0")


@pytest.mark.parametrize("of", [*simulate.SIMULATIONS])
def test_one_can_be_asked_for_from_any_seed(of: str) -> None:
    assert simulate._runs(of, 7, 2) == [(of, 7), (of, 8)]
    run, outcome = simulate._run(simulate._Run(of, 7))
    assert run == (of, 7)
    assert isinstance(outcome, Counter)
    assert outcome["runs"] == 1


def test_a_failure_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int) -> Counter[str]:
        raise AssertionError(f"lost {seed}")

    monkeypatch.setitem(simulate.SIMULATIONS, "kafka", fails)
    _, said = simulate._run(simulate._Run("kafka", 42))
    assert isinstance(said, str)
    assert "lost 42" in said
    assert said.endswith("to repeat it: scripts/simulate --of kafka --first 42 --seeds 1")
