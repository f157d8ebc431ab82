"""Everything that is known of a job at one moment, as frozen data: what interfaces show is made from this alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common.job_status import JobStatus
from firesteel.compiler.program_plans import Bounds
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings
from firesteel.jobmaster.failure_history import Failure
from firesteel.jobmaster.host_history import HostRecord
from firesteel.jobmaster.rescale_history import RescaleOutcome, RescaleRecord
from firesteel.jobmaster.statistics import JobStatistics
from firesteel.jobmaster.task_states import TaskStatus
from firesteel.plan.executor import SlotWait
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.messages import TaskId, TaskReport

__all__ = ["JobSnapshot"]


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """One job. Times are milliseconds since 1970.

    ``status_times`` has each state that the job has had, with the moment at which it last came to it. ``tasks`` are those of
    the current attempt, none between two of them; ``earlier_tasks`` those of attempts that have failed, the oldest
    first. ``reports`` are the newest ones of the current attempt's tasks. ``checkpoints`` None: its tasks take no part in any.
    ``hosts``: where tasks have run, and which of them were lost. ``heartbeat`` None: nobody gives signs of life.
    ``silences``: for how many seconds each task in another process was not heard.
    ``bounds`` are the numbers of subtasks that operators ask for, by operator id, ``rescales`` the changes of its parallelism,
    the newest first. ``wanted_slots``: how many it asks for, ``known_slots``: how many there were of them when they were last
    counted; None: nobody has counted them.
    """

    job_id: str
    name: str
    status: JobStatus
    now: int
    started: int
    ended: int | None = None
    status_times: tuple[tuple[JobStatus, int], ...] = ()
    attempt: int = 0
    tasks: tuple[TaskStatus, ...] = ()
    earlier_tasks: tuple[tuple[TaskStatus, ...], ...] = ()
    statistics: JobStatistics = field(default_factory=lambda: JobStatistics(()))
    reports: Mapping[TaskId, TaskReport] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    checkpoints: CheckpointSettings | None = None
    hosts: tuple[HostRecord, ...] = ()
    heartbeat: HeartbeatSettings | None = None
    silences: Mapping[TaskId, float] = field(default_factory=dict)
    slot_wait: SlotWait | None = None
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    rescales: tuple[RescaleRecord, ...] = ()
    rescale_counts: Mapping[RescaleOutcome, int] = field(default_factory=dict)
    wanted_slots: int = 0
    known_slots: int | None = None

    @property
    def duration(self) -> int:
        """How long it has run so far, or had when it ended."""
        return max(0, (self.now if self.ended is None else self.ended) - self.started)
