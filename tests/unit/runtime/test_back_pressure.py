"""Input that waits for barriers does not grow: a task takes nothing new while there is something to read."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import SnapshotDeclined, TaskId
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.elements import Barrier, Chunk, Element
from firesteel.runtime.stage_task import StageTask
from firesteel.runtime.wire_format import encode
from firesteel.testing._operator_harness import RecordingServices
from firesteel_support.flow import Flow

BEHIND_THE_BARRIER = 40


def two_senders(**options: Any) -> JobPlan:
    """Two source subtasks, and one map that hears both."""
    flow = Flow()
    first, second = flow.source([1]), flow.source([1])
    flow.collect(flow.map([first, second], lambda v: v, by=Rebalance(), parallelism=1), "out")
    return flow.plan(**{"execution.checkpointing.interval": "1 s", **options})


class Input:
    """Rows as two senders make them, with one of them far behind the other."""

    def __init__(self, **options: Any) -> None:
        self.services = RecordingServices()
        self.task = StageTask(two_senders(**options), TaskId(1, 0), self.services, checkpointing=True)
        self.task.open()
        self._sequence = {0: count(), 1: count()}

    def row(self, edge: int, element: Element) -> bytes:
        return encode(element, edge, 0, 0, next(self._sequence[edge]))

    def checkpoint(self, number: int) -> list[bytes]:
        """A barrier, what comes behind it on the same channel, the barrier of the other channel."""
        order = CheckpointOrder(number, 0)
        barrier = self.row(0, Barrier(order))
        behind = [self.row(0, Chunk([(number, i)])) for i in range(BEHIND_THE_BARRIER)]
        return [barrier, *behind, self.row(1, Barrier(order))]

    @property
    def waiting(self) -> int:
        (vertex,) = self.task._vertices
        return vertex.gate.waiting_bytes

    @property
    def collected(self) -> int:
        return len(self.services.blobs)


def test_what_waits_does_not_grow_from_checkpoint_to_checkpoint() -> None:
    """The mailbox always has something, and a round of the loop takes more payloads than are read in it."""
    input = Input()
    rows = [row for number in range(1, 30) for row in input.checkpoint(number)]
    one_alignment = sum(len(row) for row in rows[:BEHIND_THE_BARRIER]) + len(rows[-1])
    while rows:
        for _ in range(32):  # as many as Spark's shell takes at once
            if rows and input.task.may_receive:
                input.task.receive(rows.pop(0))
        assert input.waiting <= one_alignment
        input.task.poll()
    while input.task.poll():
        pass
    assert input.waiting == 0


def test_nothing_is_received_before_the_last_waiting_payload_has_been_read() -> None:
    input = Input()
    rows = input.checkpoint(1)
    for row in rows:
        assert input.task.may_receive
        input.task.receive(row)
    assert not input.task.may_receive
    with pytest.raises(AssertionError, match="what came before"):
        input.task.receive(input.row(0, Chunk([0])))
    while not input.task.may_receive:
        assert input.task.poll()
    assert input.waiting == 0


def test_barriers_among_what_waits_leave_room_for_those_that_are_missing() -> None:
    """The fast sender is two checkpoints ahead: its second barrier is found when what waited is read."""
    input = Input()
    first, second = input.checkpoint(1), input.checkpoint(2)
    late = [first.pop(), second.pop()]  # of the slow sender
    for row in [*first, *second, late[0]]:
        input.task.receive(row)
    while not input.task.may_receive:
        input.task.poll()
    assert input.waiting > 0, "what came behind the second barrier"
    input.task.receive(late[1])
    while not input.task.may_receive:
        input.task.poll()
    assert input.waiting == 0
    assert not input.task.take_messages()


def test_what_waited_for_a_checkpoint_that_a_newer_one_has_overtaken_keeps_its_place() -> None:
    """Before the second sender heard of the first checkpoint, it was over: there is no barrier of it on that channel."""
    input = Input()
    *first, _ = input.checkpoint(1)
    input = Input()
    for row in first:
        input.task.receive(row)
    input.task.receive(encode(Barrier(CheckpointOrder(2, 0)), 1, 0, 0, 0))
    (declined,) = [m for m in input.task.take_messages() if isinstance(m, SnapshotDeclined)]
    assert declined.checkpoint_id == 1
    while not input.task.may_receive:
        input.task.poll()
    input.task.receive(encode(Barrier(CheckpointOrder(2, 0)), 0, 0, 0, len(first)))
    assert input.task.has_snapshots


def test_a_checkpoint_that_makes_too_much_wait_is_aborted_with_a_reason() -> None:
    input = Input(**{"firesteel.input.waiting-limit": "500 b"})
    *rows, last = input.checkpoint(1)
    while rows:
        if input.task.may_receive:
            input.task.receive(rows.pop(0))
        else:
            input.task.poll()
        assert input.waiting <= 600
    input.task.receive(last)
    (declined,) = [m for m in input.task.take_messages() if isinstance(m, SnapshotDeclined)]
    assert declined.checkpoint_id == 1
    assert "bytes waited at 'Map" in declined.reason
    assert (
        "barriers of 1 of 2 channels, more than the 500 that firesteel.input.waiting-limit allows"
        in declined.reason
    )
    assert not input.task.has_snapshots
    for row in (input.row(0, Barrier(CheckpointOrder(2, 0))), input.row(1, Barrier(CheckpointOrder(2, 0)))):
        input.task.receive(row)
    assert input.task.has_snapshots, "the next one has its chance"


def test_what_waits_goes_to_the_configured_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.runtime.inputs.payload_queue._IN_MEMORY", 0)
    input = Input(**{"io.tmp.dirs": str(tmp_path / "here")})
    *rows, last = input.checkpoint(1)
    for row in rows:
        input.task.receive(row)
    assert (tmp_path / "here").is_dir()
    input.task.receive(last)
    while not input.task.may_receive:
        input.task.poll()
    assert input.waiting == 0
