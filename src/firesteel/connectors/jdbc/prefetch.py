"""Lists from a thread that may wait for a database, taken by a task that may not."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Prefetch"]

_ENOUGH = 4
_PAUSE_SECONDS = 0.1


class Prefetch:
    """Runs an iterator in a thread of its own, a few items ahead of whoever calls `next`.

    ``items`` gets this object, to ask whether it is to end.
    """

    def __init__(self, items: Callable[[Prefetch], Iterator[Any]], wake: Callable[[], None]) -> None:
        self._items = items
        self._wake = wake
        self._queue: queue.Queue[Any] = queue.Queue(_ENOUGH)
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="jdbc-source", daemon=True)
        self._thread.start()

    def next(self) -> Any | None:
        """The next item; None when there is none yet. Raises what the thread has raised."""
        ended = self._ended
        with contextlib.suppress(queue.Empty):
            return self._queue.get_nowait()
        if ended and self._error is not None:
            raise self._error
        return None

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return self._ended and self._queue.empty() and self._error is None

    def wait(self, seconds: float) -> None:
        """A pause of the thread, which ends early when it is to end."""
        self._stopped.wait(seconds)

    @property
    def is_stopped(self) -> bool:
        """Whether the thread is to end."""
        return self._stopped.is_set()

    def close(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._items(self)) as items:  # type: ignore[type-var]  # a generator
                for item in items:
                    self._put(item)
                    if self._stopped.is_set():
                        break
        except BaseException as error:  # noqa: BLE001 - the task's thread raises it
            self._error = error
        self._ended = True
        self._wake()

    def _put(self, item: Any) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(item, timeout=_PAUSE_SECONDS)
                self._wake()
                return
