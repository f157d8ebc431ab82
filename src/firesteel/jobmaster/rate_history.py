"""What per-second rates are counted from: earlier reports of each task, over the last minute.

As in Flink's MeterView a rate is that of the last 60 seconds, between figures that are 5 seconds apart. A task that is younger
than that has the rate since it started, where Flink divides by the whole minute and shows too little. Time is that of the
task, so that reports which come late, or a simulated clock, change no rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from firesteel.plan.messages import TaskId, TaskReport

__all__ = ["MeasuredTask", "RateHistory"]

_SPAN_SECONDS = 60.0
_STEP_SECONDS = 5.0


class RateHistory:
    """Some reports of each task, without what can be large."""

    def __init__(self) -> None:
        self._reports: dict[TaskId, deque[TaskReport]] = {}

    def add(self, task: TaskId, report: TaskReport) -> None:
        """A new report has come."""
        kept = self._reports.setdefault(task, deque())
        if not kept or report.at - kept[-1].at >= _STEP_SECONDS:
            kept.append(replace(report, accumulators={}, metrics=(), system=(), process=None))
        while len(kept) > 1 and report.at - kept[1].at >= _SPAN_SECONDS:
            kept.popleft()

    def base_of(self, task: TaskId) -> TaskReport | None:
        """The report from which rates are counted; None: from the start of the task."""
        oldest = self._reports[task][0]
        newest = self._reports[task][-1]
        return oldest if newest.at - oldest.at >= _SPAN_SECONDS - _STEP_SECONDS else None

    def clear(self) -> None:
        """A new attempt begins: rates of its tasks are counted from their own start."""
        self._reports.clear()


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A task's newest report, and the earlier one that its rates are counted from."""

    id: TaskId
    report: TaskReport
    base: TaskReport | None

    def rate(self, count: Callable[[TaskReport], float]) -> float:
        """How much something that reports count grows in a second."""
        report, base = self.report, self.base
        seconds = report.at - (report.began if base is None else base.at)
        grown = count(report) - (0 if base is None else count(base))
        return grown / seconds if seconds > 0 else 0.0
