"""The lock under which a source function collects records and advances its position.

The function's thread takes it for every record, the task's thread once for each checkpoint. An ordinary lock would
let the function take it again and again while the task waits, so whoever asks for it after the task has to wait for
the task's turn. A thread that already holds it may take it again.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Self

_LOG = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0


class CheckpointLock:
    """Used as ``with lock:`` by the function.

    `acquire_for_checkpoint` and `release_after_checkpoint` are for the task. ``left_by_error`` tells whether the function's last
    visit ended with an error.
    """

    __slots__ = ("_depth", "_free", "_lock", "_wanted", "left_by_error")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0  # of the function's visits; changed only by who holds the lock
        self._wanted = False
        self._free = threading.Event()
        self._free.set()
        self.left_by_error = False

    def __enter__(self) -> Self:
        if self._wanted:
            self._let_the_task_go_first()
        self._lock.acquire()
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        self._depth -= 1
        self.left_by_error = kind is not None
        self._lock.release()

    def _let_the_task_go_first(self) -> None:
        if self._lock.acquire(blocking=False):
            visits = self._depth > 0  # this thread's own, as it has got the lock
            self._lock.release()
            if visits:
                return
        self._free.wait()

    def acquire_for_checkpoint(self, function: str) -> None:
        """Wait until the function is outside; it stays outside until `release_after_checkpoint`."""
        self._free.clear()
        self._wanted = True
        while not self._lock.acquire(timeout=_PATIENCE_SECONDS):
            _LOG.warning(
                "a checkpoint waits for %s, which has held the checkpoint lock for %d seconds; it must not wait for "
                "anything while it holds it",
                function,
                _PATIENCE_SECONDS,
            )

    def release_after_checkpoint(self) -> None:
        """Let the function continue."""
        self._wanted = False
        self._free.set()
        self._lock.release()
