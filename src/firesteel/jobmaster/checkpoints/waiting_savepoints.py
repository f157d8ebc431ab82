"""Requests for savepoints, or for another parallelism, of a job that takes no checkpoints: they wait until no task can end any more.

The tasks of such a job end when they have processed everything, each by itself. A savepoint needs all of them, from its
beginning to its end, so they are asked to stay first, and told that they may end when it is over. A job of which
nobody wants a savepoint is not concerned.
"""

from __future__ import annotations

from firesteel.jobmaster.events import RescaleRequested, SavepointRequested, StopWithSavepointRequested
from firesteel.plan.messages import TaskId

#: What needs all tasks from its beginning to its end.
SavepointRequest = SavepointRequested | StopWithSavepointRequested | RescaleRequested


class WaitingSavepoints:
    """Who waits for the tasks to stay, and which tasks do; a pure machine."""

    def __init__(self, tasks: tuple[TaskId, ...]) -> None:
        self._tasks = frozenset(tasks)
        self._staying: set[TaskId] = set()
        self._waiting: list[SavepointRequest] = []
        self.ended: list[TaskId] = []  # tasks that have finished
        self.asked = False  # whether the tasks were asked to stay, and have not been let go since
        self.waiting_since = 0.0  # when the first of those came who wait now

    @property
    def all_stay(self) -> bool:
        """Whether every task has answered."""
        return self.asked and self._staying == self._tasks

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits for that."""
        return bool(self._waiting)

    def add(self, request: SavepointRequest, now: float) -> bool:
        """Somebody wants a savepoint, and not all tasks stay yet; whether they are to be asked now."""
        if not self._waiting:
            self.waiting_since = now
        self._waiting.append(request)
        if self.asked:
            return False
        self.asked = True
        self._staying = set()
        return True

    def task_stays(self, task: TaskId) -> None:
        """A task has answered. All are let go only when all have, or when one has ended: no answer comes too late."""
        if self.asked:
            self._staying.add(task)

    def let_go(self) -> None:
        """All tasks may end; whoever wants a savepoint after this has them asked again."""
        self.asked = False

    def take(self) -> list[SavepointRequest]:
        """Those who have waited, in their order."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def attempt_starts(self) -> None:
        """New tasks, of which none has been asked."""
        self.ended = []
        self.asked = False
