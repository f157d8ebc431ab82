"""What is known about the checkpoints of a job: how many, how large, how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from firesteel.plan.messages import SnapshotAcknowledged
from firesteel.plan.state_handles import CheckpointKind

#: So many of the newest completed checkpoints are remembered.
REMEMBERED = 10


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """A completed checkpoint. Times are in milliseconds, ``began`` since 1970; the others are of its slowest subtask.

    ``alignment_ms`` is the wait for barriers, ``pause_ms`` how long processing stood still for the snapshot.
    """

    id: int
    kind: CheckpointKind
    path: str
    began: int
    duration_ms: float
    bytes_written: int
    alignment_ms: float
    pause_ms: float


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """All checkpoints of a job since its driver started.

    ``superseded`` ones were given up because something newer took their place, which is no failure.
    """

    begun: int = 0
    completed: int = 0
    failed: int = 0
    superseded: int = 0
    restored: int | None = None
    last_failure: str = ""
    history: tuple[CheckpointSummary, ...] = ()

    @property
    def in_progress(self) -> int:
        """How many are under way."""
        return self.begun - self.completed - self.failed - self.superseded

    @property
    def newest(self) -> CheckpointSummary | None:
        """The last one that was completed."""
        return self.history[-1] if self.history else None

    def with_completed(self, summary: CheckpointSummary) -> CheckpointStatistics:
        """One more is complete."""
        return replace(self, completed=self.completed + 1, history=(*self.history, summary)[-REMEMBERED:])

    def with_failed(self, reason: str) -> CheckpointStatistics:
        """One more has failed."""
        return replace(self, failed=self.failed + 1, last_failure=reason)


def summary(
    kind: CheckpointKind,
    path: str,
    began: float,
    ended: float,
    acknowledgements: Iterable[SnapshotAcknowledged],
) -> CheckpointSummary:
    """What the acknowledgements of all subtasks tell about a checkpoint."""
    of_all = list(acknowledgements)
    return CheckpointSummary(
        id=of_all[0].checkpoint_id,
        kind=kind,
        path=path,
        began=int(began * 1000),
        duration_ms=(ended - began) * 1000,
        bytes_written=sum(one.bytes_written for one in of_all),
        alignment_ms=max(one.alignment_ms for one in of_all),
        pause_ms=max(one.pause_ms for one in of_all),
    )
