"""Barriers of several channels: when the snapshot is due, what is blocked, what a newer barrier or an abort does."""

from __future__ import annotations

from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.inputs.gate import BarrierAlignment


def order(checkpoint_id: int) -> CheckpointOrder:
    return CheckpointOrder(checkpoint_id, 0)


def test_the_snapshot_is_due_when_every_channel_has_delivered_the_barrier() -> None:
    alignment = BarrierAlignment(3, exactly_once=True)
    assert not alignment.barrier(0, order(1))
    assert not alignment.barrier(2, order(1))
    assert alignment.blocked == {0, 2}
    assert alignment.barrier(1, order(1))
    assert alignment.blocked == set()


def test_a_single_channel_never_waits() -> None:
    alignment = BarrierAlignment(1, exactly_once=True)
    assert alignment.barrier(0, order(1))
    assert alignment.barrier(0, order(2))
    assert not alignment.blocked


def test_without_alignment_nothing_is_blocked_and_checkpoints_may_overlap() -> None:
    alignment = BarrierAlignment(2, exactly_once=False)
    assert not alignment.barrier(0, order(1))
    assert not alignment.barrier(0, order(2))
    assert not alignment.blocked
    assert alignment.barrier(1, order(1))
    assert alignment.barrier(1, order(2))
    assert not alignment.take_declined()


def test_a_newer_barrier_declines_the_older_checkpoint() -> None:
    alignment = BarrierAlignment(2, exactly_once=True)
    alignment.barrier(0, order(1))
    assert not alignment.barrier(1, order(2))
    assert alignment.take_declined() == [1]
    assert alignment.blocked == {1}
    assert not alignment.barrier(1, order(1)), "of a checkpoint that was declined"
    assert alignment.barrier(0, order(2))


def test_an_aborted_checkpoint_frees_its_channels_and_its_late_barriers_are_ignored() -> None:
    alignment = BarrierAlignment(2, exactly_once=True)
    alignment.barrier(0, order(1))
    alignment.abort(1)
    assert not alignment.blocked
    assert not alignment.barrier(1, order(1))
    assert not alignment.blocked
    assert not alignment.barrier(0, order(2))
    assert alignment.barrier(1, order(2))


def test_an_abort_that_comes_before_the_barriers_holds() -> None:
    alignment = BarrierAlignment(2, exactly_once=True)
    alignment.abort(1)
    assert not alignment.barrier(0, order(1))
    assert not alignment.blocked


def test_an_abort_of_another_checkpoint_changes_nothing() -> None:
    alignment = BarrierAlignment(2, exactly_once=True)
    alignment.barrier(0, order(2))
    alignment.abort(1)
    assert alignment.blocked == {0}
    assert alignment.barrier(1, order(2))


def test_an_alignment_that_is_declined_frees_its_channels_and_ignores_its_late_barriers() -> None:
    alignment = BarrierAlignment(2, exactly_once=True)
    alignment.barrier(0, order(1))
    alignment.decline()
    assert alignment.take_declined() == [1]
    assert not alignment.blocked
    assert not alignment.barrier(1, order(1))
    assert not alignment.blocked
    assert not alignment.barrier(0, order(2))
    assert alignment.barrier(1, order(2))
