"""Measures the process of a task, with every report."""

from __future__ import annotations

import os
import time

from firesteel.common._process_figures import CpuLoad, collections, resident_bytes, threads
from firesteel.plan.messages import ProcessStatistics
from firesteel.spark.memory_watch import MemoryLimit

__all__ = ["ProcessMeter"]


class ProcessMeter:
    """The process that the task is in, as it reports it."""

    def __init__(self, limit: MemoryLimit | None) -> None:
        self._limit = None if limit is None else limit.size
        self._load = CpuLoad()

    def read(self) -> ProcessStatistics:
        """What it uses now; the load is that since the last time."""
        return ProcessStatistics(
            os.uname().nodename,
            os.getpid(),
            self._load.look(),
            time.process_time(),
            resident_bytes(),
            self._limit,
            threads(),
            collections(),
        )
