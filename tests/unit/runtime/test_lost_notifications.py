"""Rule L22: a notification may get lost, and commits are repeated after a failure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from firesteel.plan.operator_specs import SinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing.checkpoint_harness import CheckpointHarness
from firesteel_support.ledger import Ledger, LedgerSink


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"test {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


def sink(ledger: str) -> SinkSpec:
    return SinkSpec(Shipped.of(LedgerSink(ledger), "sink"))


def test_l22_a_notification_commits_everything_up_to_its_checkpoint(ledger: str) -> None:
    job = CheckpointHarness(sink(ledger))
    for checkpoint_id in (1, 2, 3):
        job[0].process([checkpoint_id])
        job.checkpoint(checkpoint_id)
    job[0].process([4])
    job.complete(2)  # that of checkpoint 1 got lost
    assert Ledger.named(ledger).committed == [1, 2]
    job.complete(3)
    assert Ledger.named(ledger).committed == [1, 2, 3]


@pytest.mark.parametrize("notified", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_l22_a_restored_sink_commits_once_more_what_may_have_been_committed(
    ledger: str, notified: bool, parallelism: int
) -> None:
    before = CheckpointHarness(sink(ledger), 2)
    before[0].process(["a"])
    before[1].process(["b"])
    checkpoint = before.checkpoint(1)
    before[0].process(["lost, and read again by the source"])
    if notified:
        before.complete(1)
    after = CheckpointHarness(sink(ledger), parallelism, restore=checkpoint, attempt=1)
    assert sorted(Ledger.named(ledger).committed) == ["a", "b"]
    after[0].process(["c"])
    after.checkpoint(2)
    after.complete(2)
    assert sorted(Ledger.named(ledger).committed) == ["a", "b", "c"]
