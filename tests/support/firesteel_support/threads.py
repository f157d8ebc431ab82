"""Waiting for threads that somebody else has started."""

from __future__ import annotations

import threading
import time

__all__ = ["join"]


def join(thread: threading.Thread, timeout: float) -> None:
    """Wait until the thread has ended, at most so many seconds; unlike its own ``join`` also while it is being started.

    `threading.enumerate` has threads from the moment when their start begins, and they cannot be waited for then.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            thread.join(deadline - time.monotonic())
            return
        except RuntimeError:
            time.sleep(0.001)
