"""Exactly once, whatever dies: the crash simulation on some seeds. `scripts/simulate` runs thousands more."""

from __future__ import annotations

import pytest

from firesteel.runtime import alignment
from firesteel.testing.crash_simulation import simulate


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_every_record_counts_exactly_once_whatever_crashes(first: int) -> None:
    outcomes = [simulate(seed) for seed in range(first, first + 25)]
    assert any(outcome.faults for outcome in outcomes)
    assert any(outcome.attempts > 1 for outcome in outcomes)
    assert all(outcome.checkpoints for outcome in outcomes)


def test_the_same_seed_gives_the_same_run() -> None:
    assert simulate(7) == simulate(7)


def test_l21_without_alignment_records_behind_the_barrier_would_count_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The simulation would notice: with barriers that block nothing some seed fails."""
    whole = alignment.Alignment.__init__
    monkeypatch.setattr(
        alignment.Alignment, "__init__", lambda self, channels, exactly_once: whole(self, channels, False)
    )

    def some_seed_fails() -> None:
        for seed in range(1000):
            simulate(seed)

    with pytest.raises(AssertionError):
        some_seed_fails()
