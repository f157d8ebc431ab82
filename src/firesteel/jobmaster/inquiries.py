"""Questions to the tasks of an attempt that their connections answer beside their work: what threads do, samples of stacks.

None of it passes the master's own thread. Whoever asks waits, for so long as he likes; a task that is gone, or does not answer in
time, is missing among the answers.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from firesteel.plan.messages import TaskAnswer, TaskId, TaskInquiry

__all__ = ["Inquiries"]


class _Inquiry:
    def __init__(self, tasks: Iterable[TaskId]) -> None:
        self.missing = set(tasks)
        self.answers: dict[TaskId, TaskAnswer] = {}


class Inquiries:
    """Everything that is asked now; may be used from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._open: dict[int, _Inquiry] = {}

    def ask(
        self,
        tasks: Iterable[TaskId],
        make: Callable[[int], TaskInquiry],
        send: Callable[[TaskInquiry], None],
        seconds: float,
    ) -> Mapping[TaskId, TaskAnswer]:
        """Have the question sent, and wait ``seconds`` at most for the answers of ``tasks``."""
        deadline = time.monotonic() + seconds
        inquiry = _Inquiry(tasks)
        with self._changed:
            number = next(self._numbers)
            self._open[number] = inquiry
        try:
            send(make(number))
            with self._changed:
                while inquiry.missing and (left := deadline - time.monotonic()) > 0:
                    self._changed.wait(left)
                return dict(inquiry.answers)
        finally:
            with self._changed:
                del self._open[number]

    def answered(self, task: TaskId, answer: TaskAnswer) -> None:
        """A task has answered; nobody may be waiting for it any more."""
        with self._changed:
            inquiry = self._open.get(answer.question)
            if inquiry is not None and task in inquiry.missing:
                inquiry.missing.remove(task)
                inquiry.answers[task] = answer
                self._changed.notify_all()

    def lost(self, task: TaskId) -> None:
        """A task is gone: nobody waits for it."""
        with self._changed:
            for inquiry in self._open.values():
                inquiry.missing.discard(task)
            self._changed.notify_all()

    def close(self) -> None:
        """All tasks are gone: whoever waits gets the answers that have come."""
        with self._changed:
            for inquiry in self._open.values():
                inquiry.missing.clear()
            self._changed.notify_all()
