"""An event to wait for in the main thread, where Ctrl-C may strike between any two steps.

`threading.Event` and `Future` are written in Python around a lock: a KeyboardInterrupt at the wrong moment
inside their ``wait`` leaves the lock in a wrong state and comes out as "cannot release un-acquired lock".
"""

from __future__ import annotations

import threading


class Gate:
    """Closed at first; opened once, for good."""

    def __init__(self) -> None:
        self._open = False
        self._lock = threading.Lock()
        self._lock.acquire()
        self._opening = threading.Lock()  # taken by the first who opens, never given back

    def open(self) -> None:
        """Let everybody through."""
        if self._opening.acquire(blocking=False):
            self._open = True
            self._lock.release()

    def wait(self) -> None:
        """Wait until it is open."""
        while not self._open:
            # Whoever is interrupted between these two keeps the lock: others then find out by looking.
            if self._lock.acquire(timeout=1.0):
                self._lock.release()
