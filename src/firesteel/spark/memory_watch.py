"""How much memory the Python process of a task uses, and how much it may use.

Nothing else bounds a Python process: the kernel lets it grow until the machine has no memory left, and then kills whom it
likes, the driver perhaps. So a task looks at itself whenever it reports (a read of one line of ``/proc``), and fails with
a sentence when it is too large. For what grows too fast for that, it puts itself first in the kernel's list.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from firesteel.common._process_figures import resident_bytes
from firesteel.common.configuration import Configuration
from firesteel.common.options import TASK_MEMORY_LIMIT

__all__ = [
    "MemoryLimit",
    "MemoryWatch",
    "be_killed_first",
    "collect_less_often",
    "machine_memory",
    "memory_limit",
    "resident_bytes",
]

#: Without a limit of the user's, a single task may have this share of what there is for all.
_SHARE_OF_MACHINE = 0.8
_SHARE_OF_WORKER = 0.95
#: Set by Spark in workers of executors with spark.executor.pyspark.memory, and enforced by it as address space.
_SPARKS_LIMIT = "PYSPARK_EXECUTOR_MEMORY_MB"
_COLLECT_SECONDS = 30.0
#: Of 1000, which would be all memory: enough to come before any driver that uses less than half of the machine.
_KILLED_FIRST = 500
#: Python looks for cycles of objects when n more have been made than freed, by default 700. Batches of records have
#: thousands under way, which all are freed without that, and looking at them took a sixth of a task's time.
_OBJECTS_BEFORE_COLLECTION = 10_000
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Most bytes, and who says so."""

    size: int
    origin: str


def memory_limit(configuration: Configuration) -> MemoryLimit | None:
    """The limit for a task of this job; None: there is none, because it was switched off or nothing is known."""
    configured = configuration.get(TASK_MEMORY_LIMIT)
    if configured is not None:
        return MemoryLimit(configured, TASK_MEMORY_LIMIT.key) if configured else None
    sparks = os.environ.get(_SPARKS_LIMIT, "")
    if sparks.isdigit():
        size = int(int(sparks) * 2**20 * _SHARE_OF_WORKER)
        return MemoryLimit(
            size, f"{_SHARE_OF_WORKER:.0%} of what spark.executor.pyspark.memory leaves a worker"
        )
    total = machine_memory()
    if total is None:
        return None
    return MemoryLimit(
        int(total * _SHARE_OF_MACHINE), f"{_SHARE_OF_MACHINE:.0%} of the memory of this machine"
    )


def machine_memory() -> int | None:
    """The memory of the machine, or of the container that this process is in; None when nobody says."""
    limits = []
    with contextlib.suppress(ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUPS:
        with contextlib.suppress(ValueError, OSError):  # not there, or "max"
            limits.append(int(Path(path).read_text(encoding="ascii")))
    return min(limits, default=None)


def be_killed_first() -> None:
    """Let the kernel kill this process rather than the driver or Spark when the machine runs out of memory."""
    path = Path("/proc/self/oom_score_adj")
    with contextlib.suppress(OSError, ValueError):  # another system; or somebody has forbidden it
        if int(path.read_text(encoding="ascii")) < _KILLED_FIRST:
            path.write_text(str(_KILLED_FIRST), encoding="ascii")


def collect_less_often() -> None:
    """Let Python look for cycles less often, unless somebody has switched that off or chosen a larger number already."""
    objects, *older = gc.get_threshold()
    if 0 < objects < _OBJECTS_BEFORE_COLLECTION:
        gc.set_threshold(_OBJECTS_BEFORE_COLLECTION, *older)


class MemoryWatch:
    """Compares what the process uses with what it may use."""

    def __init__(
        self,
        limit: MemoryLimit | None,
        measure: Callable[[], int] = resident_bytes,
        collect: Callable[[], object] = gc.collect,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self._measure = measure
        self._collect = collect
        self._now = now
        self._collected_at = -_COLLECT_SECONDS

    def excess(self) -> int | None:
        """How many bytes the process has, if that is too much; what is only garbage does not count, once in a while."""
        if self.limit is None or (size := self._measure()) <= self.limit.size:
            return None
        if self._now() - self._collected_at >= _COLLECT_SECONDS:
            self._collected_at = self._now()
            self._collect()
            size = self._measure()
        return size if size > self.limit.size else None
