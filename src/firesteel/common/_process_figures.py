"""What this process uses: processors, memory, threads."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import time

__all__ = ["CpuLoad", "collections", "resident_bytes", "threads"]


def resident_bytes() -> int:
    """What this process has in memory now; where the system does not tell, the most that it ever had."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def threads() -> int:
    """How many threads Python knows of."""
    return threading.active_count()


def collections() -> int:
    """How often the garbage collector has run."""
    return sum(int(generation["collections"]) for generation in gc.get_stats())


class CpuLoad:
    """The part of the machine's processors that this process has used between two looks, from 0 to 1."""

    def __init__(self) -> None:
        self._cpus = os.cpu_count() or 1
        self._cpu, self._at = time.process_time(), time.monotonic()

    def look(self) -> float:
        """Since the last look, or since the beginning."""
        cpu, at = time.process_time(), time.monotonic()
        used, passed = cpu - self._cpu, at - self._at
        self._cpu, self._at = cpu, at
        return min(1.0, used / passed / self._cpus) if passed > 0 else 0.0
