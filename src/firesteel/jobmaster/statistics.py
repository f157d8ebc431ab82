"""What the tasks of a job report, added up over subtasks."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common._metric_values import JobMetrics, MetricValue
from firesteel.common.accumulators import IntCounter
from firesteel.common.errors import JobExecutionError
from firesteel.jobmaster.checkpoints.statistics import CheckpointStatistics
from firesteel.jobmaster.rate_history import MeasuredTask, RateHistory
from firesteel.plan.job_plan import JobPlan, OperatorPlan
from firesteel.plan.messages import OperatorStatistics, TaskId, TaskReport
from firesteel.plan.on_error import count_name, ignored_name
from firesteel.plan.operator_specs import SourceSpec


@dataclass(frozen=True, slots=True)
class OperatorTotals:
    """One operator, summed over its subtasks.

    ``watermark`` is the smallest of those that are not idle and have one. ``back_pressure`` is the part of its time, from 0
    to 1, in which the slowest task of the operator last waited for its receivers; None where that is not measured.
    """

    operator_id: str
    name: str
    parallelism: int
    records_in: int
    records_out: int
    watermark: int | None = None
    back_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """All operators of a job, in the order in which records pass them, and its checkpoints.

    ``watermark`` is how far event time has come where records leave the job, in milliseconds; None when no watermark has
    come there yet. ``elapsed`` are the seconds since the job was submitted, until its end when it has ended.
    """

    operators: tuple[OperatorTotals, ...]
    checkpoints: CheckpointStatistics = field(default_factory=CheckpointStatistics)
    metrics: JobMetrics = field(default_factory=JobMetrics)
    watermark: int | None = None
    restarts: int = 0
    elapsed: float = 0.0

    def __getitem__(self, name: str) -> OperatorTotals:
        """The first operator with that name."""
        for operator in self.operators:
            if operator.name == name:
                return operator
        raise KeyError(name)


class ReportBook:
    """The newest report of every task. May be used from any thread."""

    def __init__(self, plan: JobPlan) -> None:
        self._lock = threading.Lock()
        self._reports: dict[TaskId, TaskReport] = {}
        self._history = RateHistory()
        #: What the tasks do that report.
        self.plan = plan
        self._last = _operators_at_ends(plan)

    def change_plan(self, plan: JobPlan) -> None:
        """The attempts from now on are of another plan."""
        with self._lock:
            self._reports.clear()
            self._history.clear()
            self.plan, self._last = plan, _operators_at_ends(plan)

    def record(self, task: TaskId, report: TaskReport) -> None:
        """Replace what the task reported before: its figures count from its start."""
        with self._lock:
            self._reports[task] = report
            self._history.add(task, report)

    def clear(self) -> None:
        """A new attempt begins: what the tasks of the last one have reported does not count any more."""
        with self._lock:
            self._reports.clear()
            self._history.clear()

    def statistics(self) -> JobStatistics:
        """Records, watermarks, back pressure and metrics by operator."""
        sums: dict[str, _Sums] = {}
        metrics: dict[str, list[MetricValue]] = {}
        for report in self._newest():
            for counts in report.operators:
                sums.setdefault(counts.operator_id, _Sums()).add(counts, report.back_pressure)
            for value in report.metrics:
                metrics.setdefault(value.operator_id, []).append(value)
        planned = [(vertex, operator) for vertex in self.plan.vertices for operator in vertex.operators]
        totals = tuple(
            sums.get(operator.id, _Sums()).totals(operator, vertex.parallelism)
            for vertex, operator in planned
        )
        at_ends = [each.watermark for each in totals if each.operator_id in self._last]
        return JobStatistics(
            totals,
            metrics=JobMetrics(tuple(value for _, each in planned for value in metrics.get(each.id, ()))),
            watermark=min((watermark for watermark in at_ends if watermark is not None), default=None),
        )

    def measured_tasks(self) -> tuple[JobPlan, list[MeasuredTask]]:
        """The newest report of every task, with what its rates are counted from, and the plan that they belong to."""
        with self._lock:
            measured = [
                MeasuredTask(task, report, self._history.base_of(task))
                for task, report in sorted(self._reports.items())
            ]
            return self.plan, measured

    def accumulators(self) -> dict[str, Any]:
        """The accumulators' results, merged over all tasks."""
        merged: dict[str, Any] = {}
        for report in self._newest():
            _merge_into(merged, report.accumulators)
        return {name: accumulator.get_local_value() for name, accumulator in merged.items()}

    def bad_records(self) -> list[str]:
        """Operators with ``on_error`` that could not process some records, in words: what became of how many."""
        texts: list[str] = []
        for operator in (operator for vertex in self.plan.vertices for operator in vertex.operators):
            texts += self._ignored_errors(operator)
            on_error = getattr(operator.spec, "on_error", None)
            count = 0 if on_error is None else self._sum(count_name(operator.name))
            if on_error is None or not count:
                continue
            records = "1 record" if count == 1 else f"{count:,} records"
            tag = on_error.dead_letter
            became = "has dropped" if tag is None else "has sent"
            where = "" if tag is None else f" to the side output {tag!r}"
            if tag is not None and tag not in operator.side_types:
                where += ", which nobody reads"
            why = (
                f"which '{operator.name}' could not deserialize"
                if isinstance(operator.spec, SourceSpec)
                else f"for which '{operator.name}' raised"
            )
            texts.append(f"{became} {records}{where}, {why} (on_error)")
        return texts

    def _ignored_errors(self, operator: OperatorPlan) -> list[str]:
        count = self._sum(ignored_name(operator.name)) if isinstance(operator.spec, SourceSpec) else 0
        errors = "1 error" if count == 1 else f"{count:,} errors"
        return [f"has passed over {errors} in messages of '{operator.name}' (ignore_parse_errors)"] * bool(
            count
        )

    def _sum(self, name: str) -> int:
        counts = [report.accumulators[name] for report in self._newest() if name in report.accumulators]
        return sum(count.get_local_value() for count in counts if isinstance(count, IntCounter))

    def reports(self) -> dict[TaskId, TaskReport]:
        """The newest report of each task that has made one."""
        with self._lock:
            return dict(self._reports)

    def _newest(self) -> list[TaskReport]:
        with self._lock:
            return [report for _, report in sorted(self._reports.items())]


@dataclass(slots=True)
class _Sums:
    """What the subtasks of one operator have reported."""

    records_in: int = 0
    records_out: int = 0
    watermark: int | None = None
    back_pressure: float | None = None

    def add(self, counts: OperatorStatistics, back_pressure: float | None) -> None:
        self.records_in += counts.records_in
        self.records_out += counts.records_out
        if counts.watermark is not None:
            known = self.watermark
            self.watermark = counts.watermark if known is None else min(known, counts.watermark)
        if back_pressure is not None:
            self.back_pressure = max(self.back_pressure or 0.0, back_pressure)

    def totals(self, operator: OperatorPlan, parallelism: int) -> OperatorTotals:
        return OperatorTotals(
            operator.id,
            operator.name,
            parallelism,
            self.records_in,
            self.records_out,
            self.watermark,
            self.back_pressure,
        )


def _operators_at_ends(plan: JobPlan) -> set[str]:
    """The operators that nothing in the job follows."""
    ids: set[str] = set()
    for vertex in plan.vertices:
        followed = {operator.parent for operator in vertex.operators}
        followed |= {edge.source_operator for edge in plan.edges_from(vertex.id)}
        ids |= {operator.id for index, operator in enumerate(vertex.operators) if index not in followed}
    return ids


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
