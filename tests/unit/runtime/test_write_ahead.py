"""Write-ahead sinks: sent after the checkpoint, noted outside the job, sent again only where nobody can know better."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.contracts.write_ahead import FileCheckpointCommitter, GenericWriteAheadSink
from firesteel.plan.operator_specs import SinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.runtime.operators.write_ahead import LogSegment, _Committers
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


def noted_in(directory: Path, job: str = "j", operator: str = "o") -> FileCheckpointCommitter:
    made = FileCheckpointCommitter(directory)
    made.set_job_id(job)
    made.set_operator_id(operator)
    made.create_resource()
    made.open()
    return made


def test_notes_survive_and_belong_to_job_operator_and_subtask(tmp_path: Path) -> None:
    noted_in(tmp_path).commit_checkpoint(1, 7)
    assert noted_in(tmp_path).is_checkpoint_committed(1, 7)
    assert not noted_in(tmp_path).is_checkpoint_committed(1, 6)
    assert not noted_in(tmp_path).is_checkpoint_committed(0, 7)
    assert not noted_in(tmp_path, job="k").is_checkpoint_committed(1, 7)
    assert not noted_in(tmp_path, operator="p").is_checkpoint_committed(1, 7)
    noted_in(tmp_path).commit_checkpoint(1, 0)
    assert not noted_in(tmp_path).is_checkpoint_committed(1, 7)


def test_a_note_and_its_folders_are_on_disk_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the records of a checkpoint that was sent are sent again after a power loss."""
    synced: list[tuple[str, list[str]]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            synced.append((os.path.relpath(path, tmp_path), sorted(os.listdir(path))))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    committer = FileCheckpointCommitter(tmp_path / "notes")
    committer.set_job_id("job")
    committer.set_operator_id("sink")
    committer.create_resource()
    assert synced == [(".", ["notes"])]
    committer.commit_checkpoint(0, 0)
    assert os.listdir(tmp_path / "notes") == []  # a task that never sends anything leaves nothing
    committer.commit_checkpoint(0, 7)
    assert synced[1:] == [("notes", ["job"]), ("notes/job", ["sink"]), ("notes/job/sink", ["0"])]


def test_a_job_that_starts_from_a_savepoint_does_not_send_what_the_job_before_has_sent(
    spec: SinkSpec, tmp_path: Path
) -> None:
    """Notes are kept for the job that made them, and its savepoint says which one that was."""
    other = SinkSpec(Shipped.of(Outbox(FileCheckpointCommitter(tmp_path), "another job"), "add_sink"))
    first = CheckpointHarness(spec)
    first[0].process(["a"])
    savepoint = first.checkpoint(1, CheckpointKind.SAVEPOINT)
    first.complete(1)
    second = CheckpointHarness(other, restore=savepoint)
    second[0].process(["b"])
    second.checkpoint(2)
    second.complete(2)
    assert [values for _, _, values in SENT] == [["a"], ["b"]]


def test_notes_of_a_later_future_do_not_count_for_a_job_that_starts_from_an_older_savepoint(
    spec: SinkSpec,
) -> None:
    """Both continue savepoint 1 under one job id; checkpoint 2 of the second is another one than that of the first."""
    first = CheckpointHarness(spec)
    first[0].process(["a"])
    savepoint = first.checkpoint(1, CheckpointKind.SAVEPOINT)
    first.complete(1)
    first[0].process(["b"])
    first.checkpoint(2)
    first.complete(2)
    second = CheckpointHarness(spec, restore=savepoint)
    second[0].process(["b", "c"])
    checkpoint = second.checkpoint(2)  # and dies before it hears that it is complete
    CheckpointHarness(spec, restore=checkpoint)
    assert [values for _, _, values in SENT] == [["a"], ["b"], ["b", "c"]]


def test_notes_of_another_run_do_not_count_for_a_savepoint_that_was_not_sent(spec: SinkSpec) -> None:
    first = CheckpointHarness(spec, 2)
    first[1].process(["a"])
    savepoint = first.checkpoint(1, CheckpointKind.SAVEPOINT)  # and dies before it hears that it is complete
    other = CheckpointHarness(spec, 2)
    other[1].process(["b"])
    other.checkpoint(1)
    other.complete(1)
    CheckpointHarness(spec, restore=savepoint)
    assert [values for _, _, values in SENT] == [["b"], ["a"]]


def test_restored_records_are_noted_where_their_job_looks(spec: SinkSpec) -> None:
    """Two jobs in a row start from one savepoint; the second must know what the first has sent of it."""
    first = CheckpointHarness(spec)
    first[0].process(["a"])
    savepoint = first.checkpoint(1, CheckpointKind.SAVEPOINT)
    for _ in range(2):
        CheckpointHarness(spec, restore=savepoint)
    assert [values for _, _, values in SENT] == [["a"]]


def test_notes_do_not_go_away_with_time(tmp_path: Path) -> None:
    """A savepoint may be hundreds of checkpoints old when a job starts from it."""
    committer = noted_in(tmp_path)
    for checkpoint in [*range(1, 151), *range(152, 155), 156]:
        committer.commit_checkpoint(0, checkpoint)
    assert all(noted_in(tmp_path).is_checkpoint_committed(0, checkpoint) for checkpoint in (1, 150, 153))
    assert not any(noted_in(tmp_path).is_checkpoint_committed(0, checkpoint) for checkpoint in (151, 155))
    (note,) = (tmp_path / "j" / "o").iterdir()
    assert note.read_text() == "1-150 152-154 156"


def test_records_of_a_checkpoint_from_before_they_knew_their_notes_are_looked_up_by_the_job(
    tmp_path: Path,
) -> None:
    old = LogSegment.__new__(LogSegment)
    old.__setstate__([1, 0, 1000, ("a",)])  # type: ignore[attr-defined]
    committers = _Committers("op")
    committers.start(FileCheckpointCommitter(tmp_path), "my job")
    assert committers.name(old) == "my job"
