"""Committables wait for their checkpoint, are committed once, and tried again where that makes sense."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from firesteel.checkpoint import state_pickle
from firesteel.common.errors import ProgramError
from firesteel.contracts.sink import CommitRequest, Committer
from firesteel.runtime.operators.sink import MAX_RETRIES, CommitQueue, Pending


class Scripted(Committer):
    """Does with every request what the script says for its committable."""

    def __init__(self, **script: Callable[[CommitRequest], None]) -> None:
        self._script = script
        self.seen: list[list[Any]] = []

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        self.seen.append([request.get_committable() for request in requests])
        for request in requests:
            self._script.get(request.get_committable(), lambda _: None)(request)


def test_a_completed_checkpoint_commits_everything_up_to_it_oldest_first() -> None:
    committer = Scripted()
    queue = CommitQueue(committer)
    for checkpoint in (1, 2, 3):
        queue.add(checkpoint, [f"a{checkpoint}", f"b{checkpoint}"])
    queue.commit(2, 0.0)
    assert committer.seen == [["a1", "b1", "a2", "b2"]]
    assert queue.pending == [Pending(3, "a3"), Pending(3, "b3")]
    queue.commit(2, 0.0)  # nothing is committed twice
    assert len(committer.seen) == 1


def test_restored_ones_are_sorted_by_checkpoint() -> None:
    committer = Scripted()
    CommitQueue(committer, [Pending(5, "late"), Pending(4, "early")]).commit(5, 0.0)
    assert committer.seen == [["early", "late"]]


def test_what_is_to_be_retried_stays_in_checkpoints_and_is_due_later() -> None:
    script = {"a": lambda r: r.get_number_of_retries() or r.retry_later()}
    queue = CommitQueue(Scripted(**script))
    queue.add(1, ["a", "b"])
    queue.commit(1, 100.0)
    assert queue.pending == [Pending(1, "a", 1)]
    assert queue.retry_at == 101.0
    queue.retry(100.5)
    assert queue.pending
    queue.retry(101.0)
    assert (queue.pending, queue.retry_at) == ([], math.inf)


def test_a_retry_may_go_on_with_what_is_left() -> None:
    committer = Scripted(both=lambda r: r.update_and_retry_later("rest"))
    queue = CommitQueue(committer)
    queue.add(1, ["both"])
    queue.commit(1, 0.0)
    queue.retry(1.0)
    assert committer.seen == [["both"], ["rest"]]


def test_tries_run_out() -> None:
    queue = CommitQueue(Scripted(a=lambda r: r.retry_later()))
    queue.add(7, ["a"])
    queue.commit(7, 0.0)
    with pytest.raises(
        RuntimeError, match=f"'a' of checkpoint 7 could not be committed in {MAX_RETRIES + 1} tries"
    ):
        queue.insist(0.0)


def test_insisting_tries_until_it_works() -> None:
    queue = CommitQueue(Scripted(a=lambda r: None if r.get_number_of_retries() == 3 else r.retry_later()))
    queue.add(1, ["a"])
    queue.commit(1, 0.0)
    queue.insist(0.0)
    assert queue.pending == []


def test_known_failures_are_given_up_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    queue = CommitQueue(Scripted(a=lambda r: r.signal_failed_with_known_reason(ValueError("expired"))))
    queue.add(1, ["a"])
    with caplog.at_level(logging.WARNING):
        queue.commit(1, 0.0)
    assert queue.pending == []
    assert "'a' of checkpoint 1 was given up, it will never be seen: expired" in caplog.text


def test_unknown_failures_fail_the_job_and_lose_nothing() -> None:
    queue = CommitQueue(Scripted(a=lambda r: r.signal_failed_with_unknown_reason(ValueError("what?"))))
    queue.add(1, ["a", "b"])
    with pytest.raises(ValueError, match="what"):
        queue.commit(1, 0.0)
    assert [entry.committable for entry in queue.pending] == ["a", "b"]


def test_already_committed_counts_as_committed() -> None:
    queue = CommitQueue(Scripted(a=lambda r: r.signal_already_committed()))
    queue.add(1, ["a"])
    queue.commit(1, 0.0)
    assert queue.pending == []


def test_committables_without_a_committer_are_refused() -> None:
    with pytest.raises(ProgramError, match=r"create_committer\(\) must return one"):
        CommitQueue(None).add(1, ["a"])


def test_what_waited_in_a_savepoint_is_found_by_the_name_that_its_module_once_had() -> None:
    written = (
        b"\x80\x05\x95\xa7\x00\x00\x00\x00\x00\x00\x00]\x94\x8c!firesteel.checkpoint.state_pickle\x94\x8c\x0eclass_of_state"
        b"\x94\x93\x94\x8c\x1efiresteel.runtime.commit_queue\x94\x8c\x07Pending\x94\x8c\rcheckpoint_id\x94\x8c\x0bcommittable"
        b"\x94\x8c\x07retries\x94\x87\x94\x87\x94R\x94)\x81\x94]\x94(K\x03\x8c\x04part\x94K\x01eba."
    )
    assert state_pickle.loads(written) == [Pending(3, "part", 1)]
