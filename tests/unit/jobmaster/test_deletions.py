"""Old checkpoints are deleted beside new ones, and never keep them waiting."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from numbered_source import enumerated_plan

from firesteel.checkpoint.local_storage import LocalStorage
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.jobmaster.checkpoints.deletions import MAX_WAITING, DeletionThread, PendingDeletions
from firesteel.jobmaster.checkpoints.store import CheckpointStore
from firesteel.jobmaster.events import CheckpointPublished
from firesteel.jobmaster.instructions import (
    CleanUp,
    Deletion,
    DiscardSnapshots,
    PublishCheckpoint,
    SubsumeOlder,
)
from firesteel.plan.state_handles import CheckpointOrder

JOB = "ab" * 16


def discard(number: int) -> DiscardSnapshots:
    return DiscardSnapshots(CheckpointOrder(number, 0), ())


def waiting(pending: PendingDeletions) -> list[Deletion]:
    found = []
    while (deletion := pending.take()) is not None:
        found.append(deletion)
    return found


def test_deletions_wait_in_order_and_the_newest_wish_to_delete_replaces_others() -> None:
    pending = PendingDeletions()
    for each in (SubsumeOlder(None, 1), discard(2), SubsumeOlder(1, 3), discard(2), discard(4)):
        pending.add(each)
    assert waiting(pending) == [SubsumeOlder(1, 3), discard(2), discard(4)]


def test_little_waits_however_slow_storage_is() -> None:
    pending = PendingDeletions()
    for number in range(10 * MAX_WAITING):
        pending.add(discard(number))
        pending.add(SubsumeOlder(None, number))
    found = waiting(pending)
    assert len(found) == MAX_WAITING + 1
    assert found[-2:] == [discard(10 * MAX_WAITING - 1), SubsumeOlder(None, 10 * MAX_WAITING - 1)]


def test_that_storage_is_too_slow_is_said_once() -> None:
    go_on, begun, said, deleted = threading.Event(), threading.Event(), list[str](), list[Deletion]()

    def delete(deletion: Deletion) -> None:
        begun.set()
        go_on.wait(60)
        deleted.append(deletion)

    deletions = DeletionThread(delete, "job", said.append)
    deletions.add(SubsumeOlder(None, 1))
    begun.wait(60)
    for number in (2, 3, 4, 5):
        deletions.add(SubsumeOlder(None, number))
    assert len(said) == 1
    assert "slower at deleting old checkpoints of job 'job'" in said[0]
    go_on.set()
    deletions.finish(drop=False)
    assert deleted == [SubsumeOlder(None, 1), SubsumeOlder(None, 5)]
    deletions.add(SubsumeOlder(None, 6))  # the thread has ended; another one begins
    deletions.finish(drop=False)
    assert deleted[-1] == SubsumeOlder(None, 6)


class SlowDeletes(LocalStorage):
    """Deleting takes until somebody says so."""

    go_on = threading.Event()
    begun = threading.Event()

    def at(self, directory: str) -> SlowDeletes:
        return SlowDeletes(self._full(directory))

    def delete_directory(self, directory: str = "") -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        super().delete_directory(directory)


def test_checkpoints_are_published_while_storage_hangs_in_deleting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowDeletes, "go_on", threading.Event())
    monkeypatch.setattr(SlowDeletes, "begun", threading.Event())
    plan = enumerated_plan()
    checkpoints = JobCheckpoints(SlowDeletes(str(tmp_path)), JOB, "job")
    store = CheckpointStore(checkpoints, plan, JOB, warn=lambda text: None, aside=DeletionThread.of("job"))
    checkpoints.claim()
    for number in range(1, 6):
        order = CheckpointOrder(number, 0, root=checkpoints.root, directory=f"chk-{number}")
        assert isinstance(store.perform(PublishCheckpoint(order, ())), CheckpointPublished)
        store.perform(SubsumeOlder(None, number))
        if number == 2:
            assert SlowDeletes.begun.wait(60), "what is older than the second one is being deleted"
    assert checkpoints.completed() == [5, 4, 3, 2], "manifests go first"
    SlowDeletes.go_on.set()
    store.perform(CleanUp(keep=True))
    assert checkpoints.completed() == [5]
    store.perform(CleanUp(keep=False))
    assert LocalStorage(str(tmp_path)).list() == []
