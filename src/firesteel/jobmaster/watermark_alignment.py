"""Watermark alignment: groups of sources that wait for each other, as a pure machine: reports in, announcements out.

Every source subtask of a group reports how far it has come; everybody in the group is told how far the
slowest has, and adds the drift it allows itself. An idle or ended subtask reports the greatest watermark and
so holds nobody back; one that has not reported yet does not either.
"""

from __future__ import annotations

from firesteel.jobmaster.instructions import SendToTasks
from firesteel.plan.messages import TaskId, WatermarkAlignmentUpdate, WatermarkReport

Member = tuple[str, int]


class _Group:
    """One group: who is in it, in which task, how far each has come, and what all were told."""

    def __init__(self) -> None:
        self.tasks: dict[Member, TaskId] = {}
        self.watermarks: dict[Member, int] = {}
        self.announced: int | None = None


class WatermarkGroups:
    """All watermark alignment groups of one attempt of a job."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def report(self, task: TaskId, report: WatermarkReport) -> list[SendToTasks]:
        """A member has come to a watermark; whom to tell what."""
        group = self._groups.setdefault(report.group, _Group())
        member = (report.operator_id, report.subtask)
        is_new = member not in group.tasks
        group.tasks[member] = task
        group.watermarks[member] = report.watermark
        slowest = min(group.watermarks.values())
        update = WatermarkAlignmentUpdate(report.group, slowest)
        if slowest != group.announced:
            group.announced = slowest
            return [SendToTasks(tuple(sorted(set(group.tasks.values()))), update)]
        return [SendToTasks((task,), update)] if is_new else []
