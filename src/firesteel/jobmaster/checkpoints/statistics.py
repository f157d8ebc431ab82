"""What is known about the checkpoints of a job: how many, how large, how long, and the newest ones of all, one by one.

A checkpoint is remembered from its trigger on, so that one sees which are in progress, who has acknowledged them, and
why others have failed. Everything is frozen: any thread may read what the coordinator's has made.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from firesteel.common.time import to_millis
from firesteel.plan.messages import SnapshotAcknowledged
from firesteel.plan.state_handles import CheckpointKind

__all__ = [
    "CheckpointStatistics",
    "CheckpointStatus",
    "CheckpointSummary",
    "Restoration",
    "SubtaskAcknowledgement",
]


class CheckpointStatus(enum.Enum):
    """What has become of a checkpoint; all but the first are final."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    #: Declined by a subtask, not complete in time, not published, or the attempt has failed.
    FAILED = "FAILED"
    #: Aborted because nobody needs it any more: a newer one is complete, or the job is over. That is no failure.
    SUPERSEDED = "SUPERSEDED"


@dataclass(frozen=True, slots=True)
class SubtaskAcknowledgement:
    """One subtask has saved its state; ``acknowledged`` is when the master heard of it, in milliseconds since 1970.

    ``alignment_ms`` is the wait for barriers, ``pause_ms`` how long processing stood still for the snapshot, and
    ``duration_ms`` how long all of it took the subtask. ``state_bytes`` are all bytes of its state, those that earlier
    checkpoints wrote included.
    """

    vertex: int
    subtask: int
    acknowledged: int
    bytes_written: int
    alignment_ms: float
    pause_ms: float
    duration_ms: float
    state_bytes: int = 0

    @classmethod
    def of(cls, message: SnapshotAcknowledged, now: float) -> SubtaskAcknowledgement:
        """What a message says that came at ``now``, in seconds."""
        return cls(
            message.vertex,
            message.subtask,
            to_millis(now),
            message.bytes_written,
            message.alignment_ms,
            message.pause_ms,
            message.duration_ms,
            sum(segment.length for handle in message.operators for segment in handle.keyed)
            + sum(handle.lists.length for handle in message.operators if handle.lists is not None),
        )


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """One checkpoint. ``began`` and ``ended`` are milliseconds since 1970; ``subtasks``: how many have to acknowledge it.

    ``path`` is set when it is completed, ``failure_message`` when it has failed or was superseded.
    """

    id: int
    kind: CheckpointKind
    began: int
    subtasks: int = 0
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    ended: int | None = None
    path: str = ""
    failure_message: str = ""
    acknowledgements: tuple[SubtaskAcknowledgement, ...] = ()

    @property
    def duration_ms(self) -> int:
        """From the trigger to the end; while it is in progress, to the last acknowledgement."""
        if self.ended is not None:
            return self.ended - self.began
        return max((each.acknowledged for each in self.acknowledgements), default=self.began) - self.began

    @property
    def bytes_written(self) -> int:
        """By all subtasks together."""
        return sum(each.bytes_written for each in self.acknowledgements)

    @property
    def state_bytes(self) -> int:
        """All state of all subtasks."""
        return sum(each.state_bytes for each in self.acknowledgements)

    @property
    def alignment_ms(self) -> float:
        """Of the slowest subtask that has acknowledged it; 0 when none has."""
        return max((each.alignment_ms for each in self.acknowledgements), default=0.0)

    @property
    def pause_ms(self) -> float:
        """Of the slowest subtask that has acknowledged it; 0 when none has."""
        return max((each.pause_ms for each in self.acknowledgements), default=0.0)


@dataclass(frozen=True, slots=True)
class Restoration:
    """What the newest attempt has started from; ``time`` is in milliseconds since 1970."""

    checkpoint_id: int
    time: int
    path: str = ""
    is_savepoint: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """All checkpoints of a job since its driver started.

    ``history`` has the newest ones in the order in which they began, ``remembered`` at most, whatever has become of
    them. ``newest`` is the last that was completed; it and the last that has failed are never forgotten.
    """

    begun: int = 0
    completed: int = 0
    failed: int = 0
    superseded: int = 0
    restored: int | None = None
    history: tuple[CheckpointSummary, ...] = ()
    newest: CheckpointSummary | None = None
    newest_failed: CheckpointSummary | None = None
    newest_savepoint: CheckpointSummary | None = None
    #: How many attempts have started from a checkpoint or savepoint, and the newest of them.
    restorations: int = 0
    restoration: Restoration | None = None
    remembered: int = 10

    @property
    def in_progress(self) -> int:
        """How many are under way."""
        return self.begun - self.completed - self.failed - self.superseded

    @property
    def completions(self) -> tuple[CheckpointSummary, ...]:
        """The completed ones of the history."""
        return self._with(CheckpointStatus.COMPLETED)

    @property
    def failures(self) -> tuple[CheckpointSummary, ...]:
        """The failed ones of the history."""
        return self._with(CheckpointStatus.FAILED)

    @property
    def last_failure(self) -> str:
        """Why the last one failed; empty when none has."""
        return "" if self.newest_failed is None else self.newest_failed.failure_message

    def _with(self, status: CheckpointStatus) -> tuple[CheckpointSummary, ...]:
        return tuple(each for each in self.history if each.status is status)

    def with_restored(self, restoration: Restoration) -> CheckpointStatistics:
        """One more attempt has started from something."""
        return replace(
            self,
            restored=restoration.checkpoint_id,
            restorations=self.restorations + 1,
            restoration=restoration,
        )

    def with_begun(self, checkpoint: CheckpointSummary) -> CheckpointStatistics:
        """One more is in progress."""
        history = (*self.history, checkpoint)
        forgotten = max(0, len(history) - self.remembered)
        return replace(self, begun=self.begun + 1, history=history[forgotten:])

    def with_changed(self, checkpoint: CheckpointSummary) -> CheckpointStatistics:
        """More is known about a checkpoint; one that is not remembered any more is not remembered again."""
        return replace(
            self,
            history=tuple(checkpoint if each.id == checkpoint.id else each for each in self.history),
        )

    def with_ended(self, checkpoint: CheckpointSummary) -> CheckpointStatistics:
        """One more has ended, in the way that its status says."""
        changed = self.with_changed(checkpoint)
        match checkpoint.status:
            case CheckpointStatus.COMPLETED:
                changed = replace(changed, completed=self.completed + 1, newest=checkpoint)
                is_savepoint = checkpoint.kind.is_savepoint
                return replace(changed, newest_savepoint=checkpoint) if is_savepoint else changed
            case CheckpointStatus.FAILED:
                return replace(changed, failed=self.failed + 1, newest_failed=checkpoint)
            case CheckpointStatus.SUPERSEDED:
                return replace(changed, superseded=self.superseded + 1)
            case CheckpointStatus.IN_PROGRESS:
                raise ValueError(f"checkpoint {checkpoint.id} has not ended")
