"""Who holds event time back: asks from task to task, and says it once.

A task that notices a stall knows why only if the watermark begins in its own chain. Otherwise it names the operator before it,
and that one's task is asked, and so on: every edge leads to a later stage, so the way back ends at a source or an assigner.
"""

from __future__ import annotations

from firesteel.common import options
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.jobmaster.instructions import SendToTasks
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    ExplainWatermark,
    TaskId,
    WatermarkCause,
    WatermarkExplained,
    WatermarkStalled,
)

__all__ = ["WatermarkStalls"]

#: How many stalls are remembered, asked for or told.
_MOST = 256


class WatermarkStalls:
    """The questions of one job; a pure machine."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._asked = 0
        self._open: dict[
            int, tuple[WatermarkStalled, int, int]
        ] = {}  # with whom was asked: vertex and subtask
        self._told: dict[tuple[str, str], None] = {}
        self._news: list[str] = []

    def change_plan(self, plan: JobPlan) -> None:
        """Tasks of another plan take the place of those that have ended."""
        self.end_attempt()
        self._plan = plan

    def end_attempt(self) -> None:
        """Nobody answers any more: say at least who has not, unless the reason is known from another subtask."""
        unanswered, self._open = self._open, {}
        known = {operator for operator, _ in self._told}
        for stall, vertex, subtask in unanswered.values():
            if stall.operator in known:
                continue
            plan = self._plan.vertices[vertex]
            where = f"'{plan.name}' ({subtask + 1}/{plan.parallelism})"
            self._tell(stall, f"it lies behind {where}, whose task has not answered before it ended")

    def drain_news(self) -> list[str]:
        """What has happened since the last time that people should read: stalls with their reasons."""
        news, self._news = self._news, []
        return news

    def stalled(self, stall: WatermarkStalled) -> list[SendToTasks]:
        """A task has noticed a stall; whom to ask."""
        return self._follow(stall, stall.cause)

    def explained(self, answer: WatermarkExplained) -> list[SendToTasks]:
        """A task has answered; whom to ask next."""
        asked = self._open.pop(answer.question, None)
        return [] if asked is None else self._follow(asked[0], answer.cause)

    def _follow(self, stall: WatermarkStalled, cause: WatermarkCause) -> list[SendToTasks]:
        if cause.reason:
            self._tell(stall, cause.reason)
            return []
        self._asked += 1
        self._open[self._asked] = (stall, cause.vertex, cause.subtask)
        if len(self._open) > _MOST:
            del self._open[next(iter(self._open))]
        vertex = self._plan.vertices[cause.vertex]
        task = TaskId(vertex.stage, vertex.first_task + cause.subtask)
        return [SendToTasks((task,), ExplainWatermark(self._asked, cause.vertex, cause.operator))]

    def _tell(self, stall: WatermarkStalled, reason: str) -> None:
        """Say it, unless another subtask of the same operator has the same to say."""
        if (stall.operator, reason) in self._told:
            return
        self._told[stall.operator, reason] = None
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]
        where = f"'{stall.operator}' ({stall.subtask + 1}/{stall.parallelism})"
        stands = "has not begun" if stall.watermark == MIN_TIMESTAMP else f"stands at {stall.watermark}"
        self._news.append(
            f"event time stands still in job '{self._plan.name}': {where} has got records for {stall.seconds:.0f} s, but its "
            f"watermark {stands}, so its windows and timers wait. The reason: {reason}. "
            f"('{options.WATERMARK_STALL_WARNING.key}')"
        )
