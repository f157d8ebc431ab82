"""Exactly once, whatever dies: the crash simulation on some seeds. `scripts/simulate` runs thousands more."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.runtime import alignment, payload_queue
from firesteel.testing.crash_simulation import simulate


@pytest.mark.parametrize("first", range(0, 100, 25))
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

    with pytest.raises(AssertionError):
        run_seeds(1000)


@pytest.mark.parametrize("kind", ["last in, first out", "behind what was released before", "overtaken"])
def test_payloads_of_a_channel_in_the_wrong_order_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """So much waits at alignments, and so often, that few seeds are enough."""
    take = payload_queue.PayloadQueue.take

    def take_last(queue: Any) -> bytes:
        queue._memory.rotate(1)
        return take(queue)

    def release_behind(waiting: Any) -> None:
        if len(waiting._blocked):
            waiting._due.append(waiting._blocked)
            waiting._blocked = payload_queue.PayloadQueue()

    def queue_up_first(waiting: Any, payload: bytes) -> None:
        waiting._due[-1].add(payload)
        waiting._due[-1]._memory.rotate(1)

    match kind:
        case "last in, first out":
            monkeypatch.setattr(payload_queue.PayloadQueue, "take", take_last)
        case "behind what was released before":
            monkeypatch.setattr(alignment.WaitingInput, "release", release_behind)
        case _:
            monkeypatch.setattr(alignment.WaitingInput, "queue_up", queue_up_first)
    with pytest.raises(AssertionError, match=r"no fault was the cause: .*payload"):
        run_seeds(50)


def run_seeds(count: int) -> None:
    for seed in range(count):
        simulate(seed)
