"""Run a compiled plan in the simulator and look at everything it did, without a job master."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from firesteel.jobmaster.watermark_alignment import WatermarkGroups
from firesteel.plan.executor import ON_LOOPBACK, ControlEndpoint, Deployment, Listening, SlotWait
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    MasterMessage,
    TaskId,
    TaskMessage,
    TaskReport,
    TextOutput,
    WatermarkReport,
)
from firesteel.testing._remembered_results import RememberedResults
from firesteel.testing.simulator import SEED, SimulatedAttempt

__all__ = ["LocalMaster", "OperatorCounts", "SimulatedResult", "run_plan"]


@dataclass(frozen=True, slots=True)
class OperatorCounts:
    """Records of one operator, summed over its subtasks."""

    records_in: int
    records_out: int


@dataclass(frozen=True, slots=True)
class SimulatedResult:
    """What a job did: records by collecting sink, printed text, counters by operator name."""

    collected: Mapping[str, list[Any]]
    stdout: str
    stderr: str
    statistics: Mapping[str, OperatorCounts]
    accumulators: Mapping[str, Any]
    metrics: Mapping[str, Any]


class LocalMaster:
    """The least that can be a `plan.executor.Master`: it remembers everything and decides next to nothing."""

    def __init__(self) -> None:
        self.senders: dict[TaskId, Callable[[MasterMessage], None]] = {}
        self.messages: list[tuple[TaskId, TaskMessage]] = []
        self.records: dict[str, list[Any]] = {}
        self._groups = WatermarkGroups()

    def endpoint(self, listening: Listening = ON_LOOPBACK) -> ControlEndpoint:
        """There is none."""
        raise NotImplementedError("tasks of other processes cannot reach a LocalMaster")

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        """Remember how to reach the task."""
        self.senders[task] = send

    def deliver(self, task: TaskId, message: TaskMessage) -> None:
        """Remember the message; reports for alignment are answered."""
        self.messages.append((task, message))
        if isinstance(message, WatermarkReport):
            for instruction in self._groups.report(task, message):
                for member in instruction.tasks:
                    self.senders[member](instruction.message)

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> RememberedResults:
        """Remember the records."""
        records = self.records.setdefault(collect_id, [])
        return RememberedResults(lambda blob: records.extend(pickle.loads(blob)), start)

    def is_wanted(self) -> bool:
        """Nobody ends the attempt."""
        return True

    def awaits_slots(self, wait: SlotWait | None) -> None:
        """There are always enough."""

    def broadcast(self, message: MasterMessage) -> None:
        """Send to all tasks."""
        for send in self.senders.values():
            send(message)

    def of_kind(self, kind: type) -> list[Any]:
        """The messages of one kind, in the order they came."""
        return [message for _, message in self.messages if isinstance(message, kind)]

    def result(self, plan: JobPlan) -> SimulatedResult:
        """What the job has done so far."""
        texts: list[TextOutput] = self.of_kind(TextOutput)
        # Figures count from the start of a task: the last report of each says everything.
        last = {task: message for task, message in self.messages if isinstance(message, TaskReport)}
        reports = list(last.values())
        return SimulatedResult(
            collected=self.records,
            stdout="".join(text.text for text in texts if text.stream == "stdout"),
            stderr="".join(text.text for text in texts if text.stream == "stderr"),
            statistics=_counts(plan, reports),
            accumulators=_accumulators(reports),
            metrics={
                f"{value.operator}.{value.full_name}": value.value
                for report in reports
                for value in report.metrics
            },
        )


def run_plan(plan: JobPlan, seed: int | None = None, *, patience: float = 60.0) -> SimulatedResult:
    """Run ``plan`` in this thread; raises what made it fail, with the seed in a note."""
    chosen = int(plan.options.get(SEED, 0)) if seed is None else seed
    master = LocalMaster()
    attempt = SimulatedAttempt(Deployment("0" * 32, 0, plan), master, chosen, patience)
    attempt.run()
    error = attempt.error()
    if error is not None:
        raise error
    return master.result(plan)


def _counts(plan: JobPlan, reports: list[TaskReport]) -> dict[str, OperatorCounts]:
    names = {operator.id: operator.name for vertex in plan.vertices for operator in vertex.operators}
    counts: dict[str, OperatorCounts] = {}
    for report in reports:
        for entry in report.operators:
            name = names[entry.operator_id]
            old = counts.get(name, OperatorCounts(0, 0))
            counts[name] = OperatorCounts(
                old.records_in + entry.records_in, old.records_out + entry.records_out
            )
    return counts


def _accumulators(reports: list[TaskReport]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for report in reports:
        for name, accumulator in report.accumulators.items():
            if name in merged:
                merged[name].merge(accumulator)
            else:
                merged[name] = copy.deepcopy(accumulator)
    return {name: accumulator.get_local_value() for name, accumulator in merged.items()}
