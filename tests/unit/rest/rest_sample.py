"""A job as frozen data, made by hand: two vertices, of which the second has failed once."""

from __future__ import annotations

from dataclasses import replace

from firesteel.common.accumulators import IntCounter
from firesteel.common.errors import UserCodeError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings
from firesteel.jobmaster.checkpoints.statistics import (
    CheckpointStatistics,
    CheckpointStatus,
    CheckpointSummary,
    Restoration,
    SubtaskAcknowledgement,
)
from firesteel.jobmaster.failure_history import FailureHistory, FailureLocation
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.metric_registry import MetricRegistry
from firesteel.jobmaster.statistics import JobStatistics, ReportBook
from firesteel.jobmaster.task_states import ExecutionState, TaskStatus
from firesteel.metrics import MetricKind, MetricValue
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import OperatorStatistics, SubtaskStatistics, TaskId, TaskReport, TaskTimes
from firesteel.plan.state_handles import CheckpointKind
from firesteel.rest.outline import JobOutline, outline_of
from firesteel_support.flow import Flow

JOB_ID = "ab" * 16
NOW = 100_000

_PLAN_OPTIONS = {"parallelism.default": "2", "s3.secret-key": "nobody", "state.backend.type": "hashmap"}


def plan() -> JobPlan:
    flow = Flow()
    mapped = flow.map(flow.source([1]), lambda v: v, by=Rebalance(), parallelism=2)
    flow.print(mapped, parallelism=2)
    return replace(flow.plan(), options=_PLAN_OPTIONS, job_parameters={"token": "x", "day": "1"})


def outline() -> JobOutline:
    return outline_of(plan())


def metric_registry(snapshot: JobSnapshot) -> MetricRegistry:
    book = ReportBook(plan())
    for task, made in snapshot.reports.items():
        book.record(task, made)
    return MetricRegistry(JOB_ID, book, lambda: {"numRestarts": snapshot.statistics.restarts})


def status(task: TaskId, *states: ExecutionState, attempt: int = 1) -> TaskStatus:
    since = tuple((state, 1000 * (n + 1)) for n, state in enumerate(states))
    return TaskStatus("a task", states[-1], attempt, "", task, "worker-1", 40 + task.index, since)


_UP = (
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


def tasks(last: tuple[ExecutionState, ...] = (), attempt: int = 1) -> tuple[TaskStatus, ...]:
    return tuple(
        status(TaskId(vertex.stage, vertex.first_task + index), *_UP, *last, attempt=attempt)
        for vertex in outline().vertices
        for index in range(vertex.parallelism)
    )


def report(vertex_number: int, index: int) -> TaskReport:
    vertex = outline().vertices[vertex_number]
    counts = tuple(
        OperatorStatistics(operator.id, index, 10, 7 + index, 500) for operator in vertex.operators
    )
    accumulator = IntCounter()
    accumulator.add(3)
    head = vertex.operators[0]
    metrics = (
        MetricValue(head.name, head.id, index, ("cache",), "hits", MetricKind.COUNTER, 4 + index),
        MetricValue(head.name, head.id, index, (), "currentInputWatermark", MetricKind.GAUGE, 450),
    )
    subtask = SubtaskStatistics(vertex.number, index, 10, 7 + index, 100, 70, 2, 1)
    return TaskReport(
        counts,
        {"seen": accumulator},
        metrics,
        back_pressure=0.3 * (index + 1),
        subtasks=(subtask,),
        times=TaskTimes(600.0, 300.0, 100.0),
    )


def reports() -> dict[TaskId, TaskReport]:
    return {
        TaskId(vertex.stage, vertex.first_task + index): report(vertex.number, index)
        for vertex in outline().vertices
        for index in range(vertex.parallelism)
    }


def checkpoint(
    number: int, state: CheckpointStatus, kind: CheckpointKind = CheckpointKind.CHECKPOINT
) -> CheckpointSummary:
    subtasks = [(v.number, index) for v in outline().vertices for index in range(v.parallelism)]
    if state is not CheckpointStatus.COMPLETED:
        subtasks = subtasks[:1]
    acknowledged = tuple(
        SubtaskAcknowledgement(vertex, index, 5010 + index, 100, 2.5, 1.0, 8.0, 300)
        for vertex, index in subtasks
    )
    is_over = state is not CheckpointStatus.IN_PROGRESS
    return CheckpointSummary(
        number,
        kind,
        5000,
        sum(each.parallelism for each in outline().vertices),
        state,
        5020 if is_over else None,
        f"/checkpoints/chk-{number}" if state is CheckpointStatus.COMPLETED else "",
        "declined" if state in (CheckpointStatus.FAILED, CheckpointStatus.SUPERSEDED) else "",
        acknowledged,
    )


def checkpoint_statistics() -> CheckpointStatistics:
    found = CheckpointStatistics().with_restored(Restoration(3, 4000, "/savepoints/one", True))
    for number, (state, kind) in enumerate(
        (
            (CheckpointStatus.COMPLETED, CheckpointKind.CHECKPOINT),
            (CheckpointStatus.FAILED, CheckpointKind.CHECKPOINT),
            (CheckpointStatus.SUPERSEDED, CheckpointKind.CHECKPOINT),
            (CheckpointStatus.COMPLETED, CheckpointKind.SAVEPOINT),
            (CheckpointStatus.IN_PROGRESS, CheckpointKind.CHECKPOINT),
        ),
        start=4,
    ):
        one = checkpoint(number, state, kind)
        found = found.with_begun(replace(one, status=CheckpointStatus.IN_PROGRESS))
        if state is not CheckpointStatus.IN_PROGRESS:
            found = found.with_ended(one)
    return found


def failures() -> FailureHistory:
    history = FailureHistory(16)
    error = UserCodeError(
        "ValueError: boom", operator="Map", subtask=1, parallelism=2, traceback_text="File job.py"
    )
    history.add(1, 3.0, error, FailureLocation("Map", 1, "worker-1", 41), is_user_code=True)
    return history


def running() -> JobSnapshot:
    return JobSnapshot(
        JOB_ID,
        "sample",
        JobStatus.RUNNING,
        NOW,
        500,
        None,
        ((JobStatus.CREATED, 600), (JobStatus.RUNNING, 4000)),
        2,
        tasks(attempt=2),
        (tasks((ExecutionState.FAILED,)),),
        JobStatistics((), checkpoint_statistics(), restarts=1),
        reports(),
        failures().newest_first,
        CheckpointSettings(1.0, directory="/checkpoints"),
    )


def created() -> JobSnapshot:
    return JobSnapshot(JOB_ID, "sample", JobStatus.CREATED, NOW, 500)


def restarting() -> JobSnapshot:
    return replace(running(), status=JobStatus.RESTARTING, tasks=(), reports={})


def finished() -> JobSnapshot:
    ended = tasks((ExecutionState.FINISHED,), attempt=2)
    return replace(running(), status=JobStatus.FINISHED, ended=90_000, tasks=ended)
