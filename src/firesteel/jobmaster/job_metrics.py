"""The metrics of a job as a whole, and of processes, under Flink's names."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from firesteel.common._metric_values import MetricKind
from firesteel.common._process_figures import CpuLoad, collections, resident_bytes, threads
from firesteel.jobmaster.checkpoints.statistics import CheckpointStatistics
from firesteel.metrics.metricbase import Reading
from firesteel.plan.messages import ProcessStatistics
from firesteel.plan.metric_variables import this_process

__all__ = ["DriverProcess", "checkpoint_metrics", "gauges", "process_metrics", "process_readings"]


def gauges(values: Mapping[str, Any], scope: tuple[str, ...] = ()) -> list[Reading]:
    """Values that are no more than that."""
    return [(scope, name, MetricKind.GAUGE, value, ()) for name, value in values.items()]


def checkpoint_metrics(checkpoints: CheckpointStatistics) -> dict[str, Any]:
    """How checkpoints come along. What there is none of yet is -1 or a text that says so, as in Flink."""
    newest, restoration = checkpoints.newest, checkpoints.restoration
    return {
        "totalNumberOfCheckpoints": checkpoints.begun,
        "numberOfInProgressCheckpoints": checkpoints.in_progress,
        "numberOfCompletedCheckpoints": checkpoints.completed,
        # One that was not needed any more has failed for Flink, too.
        "numberOfFailedCheckpoints": checkpoints.failed + checkpoints.superseded,
        "lastCheckpointRestoreTimestamp": -1 if restoration is None else restoration.time,
        "lastCompletedCheckpointId": -1 if newest is None else newest.id,
        "lastCheckpointDuration": -1 if newest is None else newest.duration_ms,
        "lastCheckpointSize": -1 if newest is None else newest.bytes_written,
        "lastCheckpointFullSize": -1 if newest is None else newest.state_bytes,
        "lastCheckpointExternalPath": "n/a" if newest is None or not newest.path else newest.path,
    }


def process_readings(process: ProcessStatistics) -> list[Reading]:
    """A process of Python under the names that Flink has for a JVM, so that boards find them."""
    memory: dict[str, Any] = {"Used": process.resident_bytes, "Committed": process.resident_bytes}
    if process.memory_limit is not None:
        memory["Max"] = process.memory_limit
    return [
        *gauges({"Load": process.cpu_load, "Time": int(process.cpu_seconds * 1e9)}, ("Status", "JVM", "CPU")),
        *gauges(memory, ("Status", "JVM", "Memory", "Heap")),
        *gauges({"Count": process.threads}, ("Status", "JVM", "Threads")),
        *gauges({"Count": process.collections}, ("Status", "JVM", "GarbageCollector", "All")),
    ]


def process_metrics(process: ProcessStatistics) -> dict[str, Any]:
    """The same by their whole names, as Flink's REST interface has them."""
    return {".".join((*groups, name)): value for groups, name, _, value, _ in process_readings(process)}


class DriverProcess:
    """The process of the driver, in which job masters are."""

    def __init__(self) -> None:
        self._load = CpuLoad()
        self._host, _, pid = this_process()["<tm_id>"].rpartition(":")
        self._pid = int(pid)

    def read(self) -> ProcessStatistics:
        """What it uses now; the load is that since the last time."""
        return ProcessStatistics(
            self._host,
            self._pid,
            self._load.look(),
            time.process_time(),
            resident_bytes(),
            None,
            threads(),
            collections(),
        )
