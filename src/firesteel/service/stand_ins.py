"""Jobs that no driver shows: they wait to begin, or their driver has died. They look like others, without a dataflow."""

from __future__ import annotations

import time
from dataclasses import dataclass

from firesteel.common.errors import JobCancelledError, JobExecutionError
from firesteel.common.job_status import JobStatus
from firesteel.common.time import to_millis
from firesteel.jobmaster.failure_history import Failure, FailureLabel
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.rest.metric_source import KeptMetrics
from firesteel.rest.outline import JobOutline
from firesteel.rest.served_jobs import EndedJob

__all__ = ["StandIn"]


class _NoMetrics(KeptMetrics):
    """Nothing was measured."""

    def __init__(self) -> None:
        self._job = {}
        self._vertices = {}
        self._operators = {}


@dataclass(frozen=True, slots=True)
class StandIn:
    """What the service itself knows of a job. ``sentence``: why it has ended as it has; times are in milliseconds."""

    id: str
    name: str
    status: JobStatus
    started: int
    ended: int = 0
    sentence: str = ""
    mode: str = "STREAMING"
    slots: int = 0

    def served(self) -> EndedJob:
        """As views want it; there is nothing that can be asked of it."""
        now = self.ended or to_millis(time.time())
        outline = JobOutline(self.name, RuntimeMode[self.mode], (), self.slots)
        times = [(JobStatus.CREATED, self.started)]
        if self.ended:
            times.append((self.status, self.ended))
        snapshot = JobSnapshot(
            self.id,
            self.name,
            self.status,
            now,
            self.started,
            self.ended or None,
            tuple(times),
            failures=self._failures(now),
        )
        return EndedJob(outline, snapshot, {}, _NoMetrics(), self._error())

    def _failures(self, now: int) -> tuple[Failure, ...]:
        if self.status is not JobStatus.FAILED:
            return ()
        return (Failure(0, now, FailureLabel.ENGINE, "JobExecutionError", self.sentence),)

    def _error(self) -> BaseException | None:
        match self.status:
            case JobStatus.FAILED:
                return JobExecutionError(self.sentence)
            case JobStatus.CANCELED:
                return JobCancelledError(self.sentence)
            case _:
                return None
