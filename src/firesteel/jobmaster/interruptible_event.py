"""What the main thread does with the end of a job, where Ctrl-C may strike between any two steps.

`threading.Event` and `Future` are written in Python around a lock. A KeyboardInterrupt at the wrong moment inside their
``wait`` leaves the lock in a wrong state and comes out as "cannot release un-acquired lock"; one inside ``add_done_callback``
leaves it locked, and whoever completes the future waits for ever.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["CallsAtEnd", "InterruptibleEvent"]

_LOG = logging.getLogger(__name__)


class InterruptibleEvent:
    """Not set at first; set once, for good."""

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()
        self._setting = threading.Lock()  # acquired by the first who sets it, never released

    def set(self) -> None:
        """Wake everybody who waits; only the first call does anything."""
        if self._setting.acquire(blocking=False):
            self._is_set = True
            self._lock.release()

    def wait(self) -> None:
        """Wait until it is set."""
        while not self._is_set:
            # Whoever is interrupted between these two keeps the lock: others then find out by looking.
            if self._lock.acquire(timeout=1.0):
                self._lock.release()


class CallsAtEnd:
    """What is to be done when something is over; `add` may be interrupted anywhere, and then has added the call or not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a plain one, which ``with`` takes and remembers in one step
        self._calls: list[Callable[[], None]] | None = []

    def add(self, call: Callable[[], None]) -> None:
        """Have something done at the end; at once if that was before. Errors are logged."""
        with self._lock:
            if self._calls is not None:
                self._calls.append(call)
                return
        self._make([call])

    def make(self) -> None:
        """It is over: make the calls."""
        with self._lock:
            calls, self._calls = self._calls or [], None
        self._make(calls)

    def _make(self, calls: list[Callable[[], None]]) -> None:
        for call in calls:
            try:
                call()
            except Exception:  # noqa: BLE001 - the other calls are to be made nevertheless
                _LOG.exception("something that was to be done at the end of a job has failed")
