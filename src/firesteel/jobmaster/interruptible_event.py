"""An event to wait for in the main thread, where Ctrl-C may strike between any two steps.

`threading.Event` and `Future` are written in Python around a lock: a KeyboardInterrupt at the wrong moment
inside their ``wait`` leaves the lock in a wrong state and comes out as "cannot release un-acquired lock".
"""

from __future__ import annotations

import threading


class InterruptibleEvent:
    """Not set at first; set once, for good."""

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()
        self._setting = threading.Lock()  # acquired by the first who sets it, never released

    def set(self) -> None:
        """Wake everybody who waits."""
        if self._setting.acquire(blocking=False):
            self._is_set = True
            self._lock.release()

    def wait(self) -> None:
        """Wait until it is set."""
        while not self._is_set:
            # Whoever is interrupted between these two keeps the lock: others then find out by looking.
            if self._lock.acquire(timeout=1.0):
                self._lock.release()
