"""Where queries of state wait for a task, and who answers them.

The task does, between two batches. While it hands rows over it cannot, and that lasts as long as its receivers are busy; but
then, too, it stands between two batches, unless it has paused in one. So what is in memory is read by the thread that brings
the query, and the task goes on when that has been done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from firesteel.plan.messages import QueryState, StateAnswered
from firesteel.runtime.queryable_states import TaskQueryableStates

__all__ = ["QueryDesk"]


class QueryDesk:
    """The queries of one task; answers are given to ``send``."""

    def __init__(self, send: Callable[[StateAnswered], None]) -> None:
        self._send = send
        #: Those that nobody has answered yet; a task looks whether there are any.
        self.waiting: deque[QueryState] = deque()
        self._lock = threading.Lock()
        self._readable: TaskQueryableStates | None = None  # while anybody may read what is in memory

    def put(self, query: QueryState) -> None:
        """Somebody asks. Called in the thread that brings messages of the job master."""
        self.waiting.append(query)
        with self._lock:
            if self._readable is not None:
                self._answer_from_memory(self._readable)

    def answer(self, states: TaskQueryableStates) -> None:
        """Answer all; for the task, between two batches."""
        while self.waiting:
            self._send(states.answer(self.waiting.popleft()))

    def begin_to_wait(self, states: TaskQueryableStates) -> None:
        """The task waits between two batches, perhaps for long: others may read its states meanwhile."""
        with self._lock:
            self._readable = states
            self._answer_from_memory(states)

    def end_to_wait(self) -> None:
        """The task goes on, and nobody else may read; also at its end."""
        with self._lock:
            self._readable = None

    def _answer_from_memory(self, states: TaskQueryableStates) -> None:
        for _ in range(len(self.waiting)):
            query = self.waiting.popleft()
            if states.in_memory(query.name):
                self._send(states.answer(query))
            else:
                self.waiting.append(query)  # a store may belong to the thread of the task
