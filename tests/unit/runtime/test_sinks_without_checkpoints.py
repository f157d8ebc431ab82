"""Sinks that wait for checkpoints, in jobs that have none: a savepoint that fails must not keep anything back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from firesteel.contracts.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from firesteel.plan.operator_specs import SinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness
from firesteel_support.ledger import Ledger, LedgerSink


class NoNotes(CheckpointCommitter):
    def commit_checkpoint(self, subtask: int, checkpoint_id: int) -> None:
        """Remembers nothing."""

    def is_checkpoint_committed(self, subtask: int, checkpoint_id: int) -> bool:
        return False


SENT: list[Any] = []


class Outbox(GenericWriteAheadSink):
    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        SENT.extend(values)
        return True


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"test {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


def run_through_a_failed_savepoint(sink: Any) -> None:
    running = CheckpointHarness(SinkSpec(Shipped.of(sink, "add_sink")), checkpointing=False)
    running[0].process(["a"])
    running.checkpoint(1, CheckpointKind.SAVEPOINT)
    running.abort(1)
    running[0].process(["b"])
    running.finish()


def test_transactions_of_a_failed_savepoint_are_committed_at_the_end(ledger: str) -> None:
    run_through_a_failed_savepoint(LedgerSink(ledger))
    assert Ledger.named(ledger).committed == ["a", "b"]


def test_the_log_of_a_failed_savepoint_is_sent_at_the_end() -> None:
    SENT.clear()
    run_through_a_failed_savepoint(Outbox(NoNotes()))
    assert SENT == ["a", "b"]
