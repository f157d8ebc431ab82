"""Sinks with writer and committer: what is called when, and what survives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.contracts.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkContext,
    SinkFunction,
    SinkWriter,
    at_record,
)
from firesteel.plan.operator_specs import RuntimeMode, WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness

SEEN: list[Any] = []
CALLS: list[Any] = []
FLAKY: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen_yet() -> None:
    for kept in (SEEN, CALLS, FLAKY):
        kept.clear()


class Boxes(Sink):
    """Writes boxes of two records; a box that is not full yet is state."""

    def create_writer(self, context: SinkContext) -> SinkWriter:
        return Packer(context, [])

    def restore_writer(self, context: SinkContext, states: Sequence[Any]) -> SinkWriter:
        CALLS.append(("restore", list(states)))
        return Packer(context, [value for state in states for value in state])

    def create_committer(self, context: SinkContext) -> Committer:
        return Shipper()


class Packer(SinkWriter):
    def __init__(self, context: SinkContext, open_box: list[Any]) -> None:
        self.context = context
        self._box = open_box
        self._full: list[tuple[Any, ...]] = []
        self._deadline = math.inf

    def write(self, value: Any, context: SinkFunction.Context) -> None:
        if value == "bad":
            raise ValueError("does not fit")
        CALLS.append((value, context.timestamp()))
        self._box.append(value)
        self._deadline = self.context.now() + 10
        if len(self._box) == 2:
            self._close_box()

    def _close_box(self) -> None:
        self._full.append(tuple(self._box))
        self._box = []

    def flush(self, end_of_input: bool) -> None:
        CALLS.append(("flush", end_of_input))
        if end_of_input and self._box:
            self._close_box()

    def prepare_commit(self) -> list[Any]:
        full, self._full = self._full, []
        return full

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [list(self._box)] if self._box else []

    def next_deadline(self) -> float:
        return self._deadline

    def on_time(self, now: float) -> None:
        self._deadline = math.inf
        if self._box:
            self._close_box()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(("complete", checkpoint_id))

    def close(self) -> None:
        CALLS.append("writer closed")


class Shipper(Committer):
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        for request in requests:
            if request.get_committable() in FLAKY:
                FLAKY.remove(request.get_committable())
                request.retry_later()
            elif request.get_committable() in SEEN:
                request.signal_already_committed()
            else:
                SEEN.append(request.get_committable())

    def close(self) -> None:
        CALLS.append("committer closed")


def boxes(parallelism: int = 1, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(
        WriterSinkSpec(Shipped.of(Boxes(), "sink_to"), Types.STRING()), parallelism, **more
    )


def test_nothing_is_seen_before_its_checkpoint_is_complete() -> None:
    running = boxes()
    running[0].process(list("abc"))
    running.checkpoint(1)
    assert SEEN == []
    running.complete(1)
    assert SEEN == [("a", "b")]


def test_a_lost_notification_is_made_up_for_by_the_next_one() -> None:
    running = boxes()
    running[0].process(list("ab"))
    running.checkpoint(1)
    running[0].process(list("cd"))
    running.checkpoint(2)
    running[0].process(list("ef"))
    running.abort(1)
    running.complete(2)
    assert SEEN == [("a", "b"), ("c", "d")]


def test_what_waited_in_the_checkpoint_is_committed_when_the_job_continues() -> None:
    before = boxes(2)
    before[0].process(list("abc"))
    before[1].process(list("xyz"))
    before.checkpoint(1)
    before[0].process(list("d"))
    checkpoint = before.checkpoint(2)
    after = boxes(1, restore=checkpoint)
    assert sorted(SEEN) == [("a", "b"), ("c", "d"), ("x", "y")]
    assert ("restore", [["z"]]) in CALLS
    after[0].process(["!"])
    after.checkpoint(3)
    after.complete(3)
    assert SEEN[-1] == ("z", "!")


def test_committing_again_after_a_failure_changes_nothing() -> None:
    before = boxes()
    before[0].process(list("ab"))
    checkpoint = before.checkpoint(1)
    before.complete(1)
    boxes(restore=checkpoint)
    boxes(restore=checkpoint)
    assert SEEN == [("a", "b")]


def test_committed_ones_leave_the_next_checkpoint() -> None:
    running = boxes()
    running[0].process(list("ab"))
    first = running.checkpoint(1)
    running.complete(1)
    assert len(running.checkpoint(2).subtasks[0]) < len(first.subtasks[0])


@pytest.mark.parametrize("mode", RuntimeMode)
def test_without_checkpoints_everything_is_committed_at_the_end(mode: RuntimeMode) -> None:
    running = boxes(checkpointing=False, mode=mode)
    running[0].process(list("abc"))
    running.finish()
    assert SEEN == [("a", "b"), ("c",)]


def test_with_checkpoints_the_last_one_commits_the_end() -> None:
    running = boxes()
    running[0].process(list("abc"))
    running.finish()
    running.checkpoint(9, CheckpointKind.FINAL)
    assert SEEN == []
    running.complete(9)
    assert SEEN == [("a", "b"), ("c",)]


def test_a_commit_that_wants_to_wait_is_tried_again_later() -> None:
    FLAKY.append(("a", "b"))
    running = boxes()
    running[0].process(list("abcd"))
    running.checkpoint(1)
    running.complete(1)
    assert SEEN == [("c", "d")]
    running[0].advance(1.0)
    assert SEEN == [("c", "d"), ("a", "b")]


def test_at_the_end_of_the_job_a_commit_is_tried_again_at_once() -> None:
    FLAKY.extend([("a", "b")] * 3)
    running = boxes()
    running[0].process(list("ab"))
    running.finish()
    running.checkpoint(1, CheckpointKind.FINAL)
    running.complete(1)
    assert SEEN == [("a", "b")]


def test_writers_have_timers() -> None:
    running = boxes()
    running[0].process(["a"])
    running[0].advance(10)
    running.checkpoint(1)
    running.complete(1)
    assert SEEN == [("a",)]


def test_the_order_of_calls() -> None:
    running = boxes()
    running[0].process(["a"], [7])
    running.checkpoint(1)
    running.complete(1)
    running.finish()
    running.close()
    assert CALLS == [
        ("a", 7),
        ("flush", False),
        ("complete", 1),
        ("flush", True),
        "writer closed",
        "committer closed",
    ]


def test_a_record_that_cannot_be_written_is_named() -> None:
    running = boxes()
    with pytest.raises(UserCodeError, match="does not fit") as caught:
        running[0].process(["a", "bad", "c"])
    assert "'bad'" in str(caught.value)


def test_the_writer_knows_its_place() -> None:
    running = boxes(3, attempt=2)
    context = running[1].operator._writer.context  # type: ignore[attr-defined]
    assert (context.subtask, context.parallelism, context.attempt) == (1, 3, 2)
    assert (context.input_type, context.restored_checkpoint_id) == (Types.STRING(), None)


class Forgetful(Boxes):
    """Has state that nobody takes back."""

    restore_writer = Sink.restore_writer


def test_state_that_nobody_takes_back_is_refused() -> None:
    spec = WriterSinkSpec(Shipped.of(Forgetful(), "sink_to"))
    before = CheckpointHarness(spec)
    before[0].process(["a"])
    with pytest.raises(UserCodeError, match="it must have a method restore_writer"):
        CheckpointHarness(spec, restore=before.checkpoint(1))


# Batches ------------------------------------------------------------------------------------------------


class TakesBatches(Sink):
    def create_writer(self, context: SinkContext) -> SinkWriter:
        return BatchWriter()


class BatchWriter(SinkWriter):
    def write(self, value: Any, context: SinkFunction.Context) -> None:
        raise AssertionError("records come by write_batch")

    def write_batch(
        self, values: list[Any], timestamps: Sequence[int | None] | None, context: SinkFunction.Context
    ) -> None:
        CALLS.append((values, timestamps, context.timestamp()))
        if "bad" in values:
            raise at_record(ValueError("does not fit"), values.index("bad"))
        if "awful" in values:
            raise ValueError("one of them does not fit")


def test_a_writer_that_takes_batches_gets_them_with_their_timestamps() -> None:
    harness = CheckpointHarness(TakesBatches())
    harness[0].process(["a", "b"], [1, None])
    harness[0].process(["c"])
    assert CALLS == [(["a", "b"], [1, None], None), (["c"], None, None)]


def test_a_writer_that_takes_batches_can_say_which_record_does_not_fit() -> None:
    harness = CheckpointHarness(TakesBatches())
    with pytest.raises(UserCodeError) as raised:
        harness[0].process(["a", "bad", "b"])
    assert "record:   'bad'" in str(raised.value)


def test_a_writer_that_takes_batches_need_not_know_which_record_does_not_fit() -> None:
    harness = CheckpointHarness(TakesBatches())
    with pytest.raises(UserCodeError) as raised:
        harness[0].process(["a", "awful"])
    assert "record:" not in str(raised.value)
