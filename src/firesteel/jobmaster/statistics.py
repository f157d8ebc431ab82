"""What the tasks of a job report, added up over subtasks."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.errors import JobExecutionError
from firesteel.jobmaster.checkpoint_statistics import CheckpointStatistics
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import TaskId, TaskReport


@dataclass(frozen=True, slots=True)
class OperatorTotals:
    """One operator, summed over its subtasks."""

    operator_id: str
    name: str
    parallelism: int
    records_in: int
    records_out: int


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """All operators of a job, in the order in which records pass them, and its checkpoints."""

    operators: tuple[OperatorTotals, ...]
    checkpoints: CheckpointStatistics = field(default_factory=CheckpointStatistics)

    def __getitem__(self, name: str) -> OperatorTotals:
        """The first operator with that name."""
        for operator in self.operators:
            if operator.name == name:
                return operator
        raise KeyError(name)


class ReportBook:
    """The newest report of every task. May be used from any thread."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._reports: dict[TaskId, TaskReport] = {}

    def record(self, task: TaskId, report: TaskReport) -> None:
        """Replace what the task reported before: its figures count from its start."""
        with self._lock:
            self._reports[task] = report

    def clear(self) -> None:
        """A new attempt begins."""
        with self._lock:
            self._reports.clear()

    def statistics(self) -> JobStatistics:
        """Records in and out by operator."""
        sums: dict[str, list[int]] = {}
        for report in self._newest():
            for counts in report.operators:
                both = sums.setdefault(counts.operator_id, [0, 0])
                both[0] += counts.records_in
                both[1] += counts.records_out
        return JobStatistics(
            tuple(
                OperatorTotals(operator.id, operator.name, vertex.parallelism, *sums.get(operator.id, (0, 0)))
                for vertex in self._plan.vertices
                for operator in vertex.operators
            )
        )

    def accumulators(self) -> dict[str, Any]:
        """The accumulators' results, merged over all tasks."""
        merged: dict[str, Any] = {}
        for report in self._newest():
            _merge_into(merged, report.accumulators)
        return {name: accumulator.get_local_value() for name, accumulator in merged.items()}

    def _newest(self) -> list[TaskReport]:
        with self._lock:
            return [report for _, report in sorted(self._reports.items())]


def _merge_into(merged: dict[str, Any], accumulators: Mapping[str, Any]) -> None:
    for name, accumulator in accumulators.items():
        if name not in merged:
            merged[name] = copy.deepcopy(accumulator)  # merging changes it, and it may still be in use
        elif type(merged[name]) is not type(accumulator):
            raise JobExecutionError(
                f"accumulator '{name}' is a {type(merged[name]).__name__} in one task and a "
                f"{type(accumulator).__name__} in another; use one name for each"
            )
        else:
            merged[name].merge(accumulator)
