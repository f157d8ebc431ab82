"""Deleting old checkpoints beside publishing new ones: hop 15 of a checkpoint's life.

Here is what waits to be deleted, and the thread that does it.
Deleting may be slow, and nothing waits for it. What is published meanwhile is safe, because a deletion says which checkpoints
it is about (`instructions.Deletion`), so it does not matter how late it comes. Little waits, however slow storage is: the next
instruction to delete what is not needed replaces one that waits; and what is aborted and not deleted in its turn is not
needed when a later checkpoint is complete.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from firesteel.jobmaster.instructions import Deletion, DiscardSnapshots, SubsumeOlder

__all__ = ["DELETION_THREAD", "DeletionThread", "Deletions", "PendingDeletions"]

_LOG = logging.getLogger(__name__)

#: The name of the thread that deletes.
DELETION_THREAD = "firesteel-deletions"

#: How many checkpoints that were aborted may wait to be deleted one by one.
MAX_WAITING = 100


class Deletions(Protocol):
    """Has things deleted later."""

    def add(self, deletion: Deletion) -> None:
        """Have something deleted; returns at once."""

    def finish(self, *, drop: bool) -> None:
        """Return when nothing is being deleted; ``drop`` what has not begun."""


class PendingDeletions:
    """What waits to be deleted, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Deletion] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, deletion: Deletion) -> None:
        """Have something deleted after what waits already; it may take the place of something."""
        others: list[Deletion]
        match deletion:
            case SubsumeOlder():
                others = [each for each in self._waiting if not isinstance(each, SubsumeOlder)]
            case DiscardSnapshots(order):
                deletion = DiscardSnapshots(order, ())  # what was acknowledged would only take up memory
                others = [each for each in self._waiting if each != deletion]
            case _:
                others = list(self._waiting)
        discarded = [each for each in others if isinstance(each, DiscardSnapshots)]
        if isinstance(deletion, DiscardSnapshots) and len(discarded) >= MAX_WAITING:
            others.remove(discarded[0])
        self._waiting = deque([*others, deletion])

    def take(self) -> Deletion | None:
        """What is next; None when nothing waits."""
        return self._waiting.popleft() if self._waiting else None

    def clear(self) -> None:
        """Forget everything that waits."""
        self._waiting.clear()


class DeletionThread:
    """Calls ``delete`` for one deletion after the other; it must not raise. The thread exists while there is something to do.

    ``say`` hears, once, that storage is slower at deleting than checkpoints are taken.
    """

    def __init__(
        self,
        delete: Callable[[Deletion], object],
        job_name: str = "",
        say: Callable[[str], object] = _LOG.warning,
    ) -> None:
        self._delete = delete
        self._job_name = job_name
        self._say = say
        self._changed = threading.Condition()
        self._pending = PendingDeletions()
        self._works = False
        self._has_said = False

    @classmethod
    def of(cls, job_name: str) -> Callable[[Callable[[Deletion], object]], DeletionThread]:
        """What makes the thread of a job."""
        return lambda delete: cls(delete, job_name)

    def add(self, deletion: Deletion) -> None:
        """Have something deleted; returns at once."""
        with self._changed:
            is_late = isinstance(deletion, SubsumeOlder) and len(self._pending) > 0
            self._pending.add(deletion)
            starts, self._works = not self._works, True
            says, self._has_said = is_late and not self._has_said, self._has_said or is_late
        if says:
            self._say(
                f"storage is slower at deleting old checkpoints of job '{self._job_name}' than new ones are completed; "
                "they take up space until it has caught up"
            )
        if starts:
            threading.Thread(target=self._run, name=DELETION_THREAD, daemon=True).start()

    def finish(self, *, drop: bool) -> None:
        """Wait until nothing is being deleted; ``drop`` what has not begun."""
        with self._changed:
            if drop:
                self._pending.clear()
            self._changed.wait_for(lambda: not self._works)

    def _run(self) -> None:
        while True:
            with self._changed:
                deletion = self._pending.take()
                if deletion is None:
                    self._works = False
                    self._changed.notify_all()
                    return
            self._delete(deletion)
