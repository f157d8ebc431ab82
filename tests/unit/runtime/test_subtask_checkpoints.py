"""A subtask's side of checkpoints: what deltas build on, how long changes are tracked, what an abort undoes."""

from __future__ import annotations

import gc
import weakref

import pytest

from firesteel.common.errors import CheckpointError
from firesteel.connectors.number_sequence import NumberSequenceSource
from firesteel.plan.operator_specs import ReduceSpec, SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder
from firesteel.runtime.subtask_snapshot import SnapshotFile, SnapshotForm, SubtaskSnapshot
from firesteel.testing._operator_harness import OperatorHarness

CHECKPOINT, SAVEPOINT, STOP = CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT, CheckpointKind.STOP


def reducing(incremental: str = "true") -> OperatorHarness:
    spec = ReduceSpec(Shipped.of(lambda a, b: (a[0], a[1] + b[1]), "reduce"))
    options = {"execution.checkpointing.incremental": incremental}
    return OperatorHarness(spec, keys=(lambda record: record[0],), options=options)


def counting() -> OperatorHarness:
    return OperatorHarness(SourceSpec(Shipped.of(NumberSequenceSource(1, 10), "source"), True))


def begun(
    harness: OperatorHarness, number: int, kind: CheckpointKind = CHECKPOINT, completed: int = 0
) -> SubtaskSnapshot:
    return harness.vertex.trigger(CheckpointOrder(number, number * 1000, kind, completed=completed))


def durable(
    harness: OperatorHarness, number: int, kind: CheckpointKind = CHECKPOINT, completed: int = 0
) -> SubtaskSnapshot:
    """A snapshot of the subtask, written to its end."""
    snapshot = begun(harness, number, kind, completed)
    while not snapshot.is_serialised:
        snapshot.step(1000)
    file = SnapshotFile(snapshot, harness.services)
    file.write(snapshot.drain())
    file.finish()
    return snapshot


def base(snapshot: SubtaskSnapshot) -> int:
    """How many segments a snapshot builds on."""
    return len(snapshot.sections[0].base)


def test_too_much_state_for_the_memory_of_the_master_is_refused() -> None:
    subtask = reducing()
    subtask.process([(f"key {n}", n) for n in range(100)])
    snapshot = begun(subtask, 1)
    while not snapshot.is_serialised:
        snapshot.step(1000)
    pieces = snapshot.drain()
    file = SnapshotFile(snapshot, subtask.services, SnapshotForm(inline_limit=100))
    with pytest.raises(CheckpointError, match=r"larger than the 100 bytes .* execution.checkpointing.dir"):
        file.write(pieces)
    SnapshotFile(snapshot, subtask.services, SnapshotForm(inline_limit=100_000)).write(pieces)


# What deltas build on ----------------------------------------------------------------------------------


def test_late_news_of_the_completion_of_an_older_checkpoint_does_not_replace_a_newer_base() -> None:
    subtask = reducing()
    subtask.process([("a", 1), ("b", 1)])
    durable(subtask, 1)
    subtask.vertex.checkpoint_completed(1)
    subtask.process([("a", 1)])
    durable(subtask, 2)
    subtask.process([("b", 1)])
    newer = durable(subtask, 3)
    assert newer.handles is not None
    following = durable(subtask, 4, completed=3)  # so the subtask learns that 3 is complete
    subtask.vertex.checkpoint_completed(2)  # and only then of 2
    last = durable(subtask, 5, completed=2)
    assert following.sections[0].base == newer.handles[0].keyed
    assert last.sections[0].base == newer.handles[0].keyed


def test_checkpoints_older_than_the_base_are_forgotten() -> None:
    subtask = reducing()
    subtask.process([("a", 1)])
    older = weakref.ref(durable(subtask, 1))
    durable(subtask, 2)
    durable(subtask, 3, completed=2)
    gc.collect()
    assert older() is None


def test_a_checkpoint_that_was_overtaken_before_it_was_written_ends_tracking_when_it_is_aborted() -> None:
    subtask = reducing(incremental="false")
    subtask.process([("a", 1)])
    slow = begun(subtask, 1)
    durable(subtask, 2)
    durable(subtask, 3, completed=2)
    assert not slow.is_serialised
    assert subtask.state.tracks
    subtask.vertex.checkpoint_aborted(1)
    assert not subtask.state.tracks


def test_an_older_savepoint_goes_on_when_a_newer_checkpoint_is_complete() -> None:
    subtask = reducing()
    subtask.process([("a", 1)])
    savepoint = begun(subtask, 1, SAVEPOINT)
    durable(subtask, 2)
    subtask.vertex.checkpoint_completed(2)
    subtask.process([("a", 1)])
    savepoint.step(1000)
    assert [piece.is_keyed for piece in savepoint.drain()].count(True) == 1


# Savepoints --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["completed", "aborted"])
def test_what_a_savepoint_tracks_ends_with_it(outcome: str) -> None:
    subtask = reducing()
    subtask.process([("a", 1)])
    durable(subtask, 1, SAVEPOINT)
    assert subtask.state.tracks
    getattr(subtask.vertex, f"checkpoint_{outcome}")(1)
    assert not subtask.state.tracks


def test_what_was_touched_before_a_savepoint_is_in_the_next_delta() -> None:
    subtask = reducing()
    subtask.process([("a", 1), ("b", 1)])
    durable(subtask, 1)
    subtask.vertex.checkpoint_completed(1)
    subtask.process([("a", 1)])
    durable(subtask, 2, SAVEPOINT)
    subtask.vertex.checkpoint_completed(2)
    delta = durable(subtask, 3)
    assert base(delta) == 1
    assert delta.handles is not None
    assert len(delta.handles[0].keyed) == 2


# Stopping ----------------------------------------------------------------------------------------------


def test_only_the_abort_of_the_stop_itself_lets_the_source_go_on() -> None:
    subtask = counting()
    source = subtask.vertex.source
    assert source is not None
    begun(subtask, 1, SAVEPOINT)
    begun(subtask, 2, STOP)
    subtask.vertex.checkpoint_aborted(1)
    assert not source.ready(0.0)
    subtask.vertex.checkpoint_aborted(2)
    assert source.ready(0.0)


def test_an_abort_that_is_heard_of_twice_does_not_end_a_later_stop() -> None:
    subtask = counting()
    source = subtask.vertex.source
    assert source is not None
    begun(subtask, 1, STOP)
    subtask.vertex.checkpoint_aborted(1)
    begun(subtask, 2, STOP)
    subtask.vertex.checkpoint_aborted(1)
    assert not source.ready(0.0)
