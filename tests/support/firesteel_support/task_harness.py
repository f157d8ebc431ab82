"""Drive one task by hand, with its rows in sight."""

from __future__ import annotations

from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import TaskId
from firesteel.runtime.elements import Element
from firesteel.runtime.stage_task import StageTask
from firesteel.runtime.wire_format import Header, decode, read_header
from firesteel.testing._operator_harness import RecordingServices

__all__ = ["TaskHarness"]


class TaskHarness:
    """One task of a plan; rows go in and come out by hand."""

    def __init__(self, plan: JobPlan, stage: int = 0, index: int = 0) -> None:
        self.services = RecordingServices()
        self.task = StageTask(plan, TaskId(stage, index), self.services)
        self.task.open()

    def elements(self, idle: bool = True) -> list[tuple[int, Header, Element]]:
        """What leaves the task now: receiving task, header and element, without flush rows."""
        rows = [(row, payload) for row, payload in self.task.take(idle) if payload]
        return [
            (row, read_header(payload), decode(read_header(payload).kind, payload)) for row, payload in rows
        ]
