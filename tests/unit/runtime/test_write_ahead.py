"""Write-ahead sinks: sent after the checkpoint, noted outside the job, sent again only where nobody can know better."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.contracts.write_ahead import FileCheckpointCommitter, GenericWriteAheadSink
from firesteel.plan.operator_specs import SinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness

SENT: list[Any] = []
REFUSED: list[int] = []  # checkpoints that cannot be sent now


@pytest.fixture(autouse=True)
def nothing_sent_yet() -> None:
    SENT.clear()
    REFUSED.clear()


class Outbox(GenericWriteAheadSink):
    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        if checkpoint_id in REFUSED:
            return False
        SENT.append((checkpoint_id, timestamp, list(values)))
        return True


@pytest.fixture
def spec(tmp_path: Path) -> SinkSpec:
    return SinkSpec(Shipped.of(Outbox(FileCheckpointCommitter(tmp_path), "my job"), "add_sink"))


def test_records_are_sent_when_their_checkpoint_is_complete(spec: SinkSpec) -> None:
    running = CheckpointHarness(spec)
    running[0].process(["a", "b"])
    running.checkpoint(1)
    running[0].process(["c"])
    assert SENT == []
    running.complete(1)
    assert SENT == [(1, 1000, ["a", "b"])]


def test_lost_notifications_and_refused_checkpoints_are_made_up_for_in_order(spec: SinkSpec) -> None:
    running = CheckpointHarness(spec)
    REFUSED.append(1)
    for number in (1, 2, 3):
        running[0].process([number])
        running.checkpoint(number)
    running.complete(2)
    assert SENT == []
    REFUSED.clear()
    running.complete(3)
    assert [values for _, _, values in SENT] == [[1], [2], [3]]


def test_a_restored_sink_sends_what_nobody_has_noted(spec: SinkSpec) -> None:
    before = CheckpointHarness(spec, 2)
    before[0].process(["a"])
    before[1].process(["b"])
    checkpoint = before.checkpoint(1)
    before[0].link.notify_complete(1)  # the other one dies before it hears of it
    CheckpointHarness(spec, 3, restore=checkpoint)
    assert sorted(values for _, _, values in SENT) == [["a"], ["b"]]
    CheckpointHarness(spec, restore=checkpoint)
    assert len(SENT) == 2


def test_sent_records_leave_the_log(spec: SinkSpec) -> None:
    running = CheckpointHarness(spec)
    running[0].process(["a"])
    running.checkpoint(1)
    running.complete(1)
    assert running.checkpoint(2).subtasks == ((),)


def test_notes_of_an_earlier_run_do_not_count(spec: SinkSpec) -> None:
    for _ in range(2):
        running = CheckpointHarness(spec)
        running[0].process(["a"])
        checkpoint = running.checkpoint(1)
        running.complete(1)
    fresh = CheckpointHarness(spec)
    fresh[0].process(["new"])
    checkpoint = fresh.checkpoint(1)
    CheckpointHarness(spec, restore=checkpoint)
    assert [values for _, _, values in SENT] == [["a"], ["a"], ["new"]]


def test_without_checkpoints_everything_is_sent_at_the_end(spec: SinkSpec) -> None:
    running = CheckpointHarness(spec, checkpointing=False)
    running[0].process(["a"])
    running.finish()
    assert [values for _, _, values in SENT] == [["a"]]


def test_the_last_checkpoint_must_be_sent(spec: SinkSpec) -> None:
    REFUSED.append(5)
    running = CheckpointHarness(spec)
    running[0].process(["a"])
    running.finish()
    running.checkpoint(5, CheckpointKind.FINAL)
    with pytest.raises(UserCodeError, match="the last 1 records could not be sent"):
        running.complete(5)


def test_a_sink_without_a_committer_is_refused() -> None:
    class Bare(Outbox):
        def __init__(self) -> None:
            """Forgets to call the base."""

    with pytest.raises(UserCodeError, match=r"Bare has no committer; its __init__ must call super"):
        CheckpointHarness(SinkSpec(Shipped.of(Bare(), "add_sink")))


def test_notes_survive_and_belong_to_job_operator_and_subtask(tmp_path: Path) -> None:
    def committer(job: str = "j", operator: str = "o") -> FileCheckpointCommitter:
        made = FileCheckpointCommitter(tmp_path)
        made.set_job_id(job)
        made.set_operator_id(operator)
        made.create_resource()
        made.open()
        return made

    committer().commit_checkpoint(1, 7)
    assert committer().is_checkpoint_committed(1, 7)
    assert not committer().is_checkpoint_committed(1, 6)
    assert not committer().is_checkpoint_committed(0, 7)
    assert not committer(job="k").is_checkpoint_committed(1, 7)
    assert not committer(operator="p").is_checkpoint_committed(1, 7)
    committer().commit_checkpoint(1, 0)
    assert not committer().is_checkpoint_committed(1, 7)
