"""Barriers of several channels: when the snapshot is due, what waits, what a newer barrier or an abort does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.alignment import Alignment, WaitingInput
from firesteel.runtime.payload_queue import PayloadQueue


def order(checkpoint_id: int) -> CheckpointOrder:
    return CheckpointOrder(checkpoint_id, 0)


def test_the_snapshot_is_due_when_every_channel_has_delivered_the_barrier() -> None:
    alignment = Alignment(3, exactly_once=True)
    assert not alignment.barrier(0, order(1))
    assert not alignment.barrier(2, order(1))
    assert alignment.blocked == {0, 2}
    assert alignment.barrier(1, order(1))
    assert alignment.blocked == set()


def test_a_single_channel_never_waits() -> None:
    alignment = Alignment(1, exactly_once=True)
    assert alignment.barrier(0, order(1))
    assert alignment.barrier(0, order(2))
    assert not alignment.blocked


def test_without_alignment_nothing_is_blocked_and_checkpoints_may_overlap() -> None:
    alignment = Alignment(2, exactly_once=False)
    assert not alignment.barrier(0, order(1))
    assert not alignment.barrier(0, order(2))
    assert not alignment.blocked
    assert alignment.barrier(1, order(1))
    assert alignment.barrier(1, order(2))
    assert not alignment.given_up


def test_a_newer_barrier_gives_the_older_checkpoint_up() -> None:
    alignment = Alignment(2, exactly_once=True)
    alignment.barrier(0, order(1))
    assert not alignment.barrier(1, order(2))
    assert alignment.given_up == [1]
    assert alignment.blocked == {1}
    assert not alignment.barrier(1, order(1)), "of a checkpoint that was given up"
    assert alignment.barrier(0, order(2))


def test_an_aborted_checkpoint_frees_its_channels_and_its_late_barriers_are_ignored() -> None:
    alignment = Alignment(2, exactly_once=True)
    alignment.barrier(0, order(1))
    alignment.abort(1)
    assert not alignment.blocked
    assert not alignment.barrier(1, order(1))
    assert not alignment.blocked
    assert not alignment.barrier(0, order(2))
    assert alignment.barrier(1, order(2))


def test_an_abort_that_comes_before_the_barriers_holds() -> None:
    alignment = Alignment(2, exactly_once=True)
    alignment.abort(1)
    assert not alignment.barrier(0, order(1))
    assert not alignment.blocked


def test_an_abort_of_another_checkpoint_changes_nothing() -> None:
    alignment = Alignment(2, exactly_once=True)
    alignment.barrier(0, order(2))
    alignment.abort(1)
    assert alignment.blocked == {0}
    assert alignment.barrier(1, order(2))


def test_what_waited_is_read_before_what_came_later() -> None:
    waiting = WaitingInput()
    waiting.hold(b"a1")
    waiting.hold(b"a2")
    assert not waiting.is_due
    waiting.release()
    assert waiting.take() == b"a1"
    waiting.queue_up(b"b1")
    waiting.hold(b"a2 again")  # a barrier blocked its channel once more
    assert waiting.take() == b"a2"
    waiting.release()
    assert [waiting.take(), waiting.take()] == [b"a2 again", b"b1"]
    assert not waiting.is_due


@given(st.lists(st.one_of(st.binary(max_size=30), st.none()), max_size=60), st.integers(0, 60))
def test_a_payload_queue_keeps_order_whatever_part_of_it_is_in_a_file(
    steps: list[bytes | None], in_memory: int
) -> None:
    queue, model = PayloadQueue(in_memory), []
    for step in steps:
        if step is not None:
            queue.add(memoryview(step))
            model.append(step)
        elif model:
            assert queue.take() == model.pop(0)
        assert len(queue) == len(model)
    assert [queue.take() for _ in range(len(queue))] == model
    queue.close()
