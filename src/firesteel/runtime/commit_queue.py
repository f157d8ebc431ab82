"""What a sink has written and not yet made seen: committables by checkpoint, and the rules of committing them.

Notifications may get lost, so a completed checkpoint commits its own committables and those of all earlier ones.
What the committer wants to try again stays in the queue, and with it in the checkpoints that come meanwhile.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firesteel.common.errors import ProgramError, short_repr
from firesteel.contracts.sink import CommitOutcome, CommitRequest, Committer
from firesteel.metrics import MetricGroup

RETRY_SECONDS = 1.0
MAX_RETRIES = 10
#: Stands for the last checkpoint of all, where there are none.
EVERYTHING = 2**63 - 1

_ENDS = (CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED, CommitOutcome.FAILED)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pending:
    """A committable and the checkpoint it belongs to."""

    checkpoint_id: int
    committable: Any
    retries: int = 0


class CommitQueue:
    """Committables that wait for their checkpoint, oldest first."""

    def __init__(self, committer: Committer | None, restored: Iterable[Pending] = ()) -> None:
        self._committer = committer
        self._pending = sorted(restored, key=lambda entry: entry.checkpoint_id)
        #: What became of committables so far; a committable may be tried again several times.
        self.outcomes = dict.fromkeys(CommitOutcome, 0)
        self._complete = -1  # the newest checkpoint known to be complete
        self.retry_at = math.inf

    @property
    def pending(self) -> list[Pending]:
        """What has to be part of every checkpoint until it is committed."""
        return list(self._pending)

    def register_metrics(self, group: MetricGroup) -> None:
        """Tell under Flink's names how many committables wait, and what became of the others."""
        group.gauge("pendingCommittables", lambda: len(self._pending))
        group.gauge("totalCommittables", lambda: len(self._pending) + sum(map(self._ended, _ENDS)))
        group.gauge("successfulCommittables", lambda: self._ended(CommitOutcome.COMMITTED))
        group.gauge("alreadyCommittedCommittables", lambda: self._ended(CommitOutcome.ALREADY_COMMITTED))
        group.gauge("failedCommittables", lambda: self._ended(CommitOutcome.FAILED))
        group.gauge("retriedCommittables", lambda: self._ended(CommitOutcome.RETRY))

    def _ended(self, outcome: CommitOutcome) -> int:
        return self.outcomes[outcome]

    def add(self, checkpoint_id: int, committables: Sequence[Any]) -> None:
        """Something more waits."""
        if committables and self._committer is None:
            raise ProgramError(
                "prepare_commit() handed over something to commit, but the sink has no committer: "
                "create_committer() must return one"
            )
        self._pending += [Pending(checkpoint_id, committable) for committable in committables]

    def commit(self, checkpoint_id: int, now: float) -> None:
        """Commit what belongs to the checkpoint or to an earlier one."""
        self._complete = max(self._complete, checkpoint_id)
        self._try(now)

    def retry(self, now: float) -> None:
        """Try again what is due."""
        if self.retry_at <= now:
            self._try(now)

    def insist(self, now: float) -> None:
        """Try until everything that may be committed is, or tries run out; for the end of a job."""
        while self.retry_at < math.inf:
            self._try(now)

    def _try(self, now: float) -> None:
        self.retry_at = math.inf
        due = [entry for entry in self._pending if entry.checkpoint_id <= self._complete]
        if not due:
            return
        assert self._committer is not None
        requests = [CommitRequest(entry.committable, entry.retries, _known(entry)) for entry in due]
        self._committer.commit(requests)
        for request in requests:
            self.outcomes[request.outcome] += 1
        again = [
            left
            for entry, request in zip(due, requests, strict=True)
            if (left := _left_over(entry, request)) is not None
        ]
        self._pending = again + [e for e in self._pending if e.checkpoint_id > self._complete]
        if again:
            self.retry_at = now + RETRY_SECONDS


def _known(entry: Pending) -> int | None:
    return None if entry.checkpoint_id == EVERYTHING else entry.checkpoint_id


def _left_over(entry: Pending, request: CommitRequest) -> Pending | None:
    """What is to be tried again."""
    if request.outcome is CommitOutcome.FAILED:
        _log.warning(
            "%s of checkpoint %d was given up, it will never be seen: %s",
            short_repr(entry.committable),
            entry.checkpoint_id,
            request.error,
        )
    if request.outcome is not CommitOutcome.RETRY:
        return None
    if entry.retries >= MAX_RETRIES:
        raise RuntimeError(
            f"{short_repr(entry.committable)} of checkpoint {entry.checkpoint_id} could not be committed in "
            f"{entry.retries + 1} tries"
        )
    return replace(entry, committable=request.get_committable(), retries=entry.retries + 1)
