"""Reports of tasks, added up: records, watermarks where records leave the job, back pressure, metrics."""

from __future__ import annotations

from firesteel.jobmaster.statistics import ReportBook
from firesteel.metrics import MetricKind, MetricValue
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import OperatorStatistics, TaskId, TaskReport
from firesteel_support.flow import Flow


def two_stages() -> JobPlan:
    flow = Flow()
    flow.collect(flow.map(flow.source([1]), lambda v: v, by=Rebalance()), "out")
    return flow.plan()


def book(*reports: tuple[TaskId, TaskReport]) -> ReportBook:
    found = ReportBook(two_stages())
    for task, report in reports:
        found.record(task, report)
    return found


def ids() -> list[str]:
    return [operator.id for vertex in two_stages().vertices for operator in vertex.operators]


def counts(operator: int, subtask: int, watermark: int | None = None) -> OperatorStatistics:
    return OperatorStatistics(ids()[operator], subtask, 1, 2, watermark)


def test_the_watermark_of_the_job_is_the_least_where_records_leave_it() -> None:
    source = (TaskId(0, 0), TaskReport((counts(0, 0, 50),), {}))
    assert book().statistics().watermark is None
    assert book(source).statistics().watermark is None, "it has not come to the end"
    ends = [(TaskId(1, n), TaskReport((counts(1, n, 45), counts(2, n, 40 + n)), {})) for n in range(2)]
    statistics = book(source, *ends).statistics()
    assert statistics.watermark == 40
    assert [operator.watermark for operator in statistics.operators] == [50, 45, 40]
    assert [operator.records_out for operator in statistics.operators] == [2, 4, 4]
    idle = (TaskId(1, 0), TaskReport((counts(1, 0, None), counts(2, 0, None)), {}))
    assert book(source, *ends, idle).statistics().watermark == 41


def test_back_pressure_is_that_of_the_slowest_task_and_unknown_where_nobody_measures_it() -> None:
    measured = [
        (TaskId(1, n), TaskReport((counts(1, n),), {}, back_pressure=share))
        for n, share in enumerate((0.2, 0.9))
    ]
    statistics = book((TaskId(0, 0), TaskReport((counts(0, 0),), {})), *measured).statistics()
    assert [operator.back_pressure for operator in statistics.operators] == [None, 0.9, None]


def test_metrics_are_in_the_order_of_operators_and_go_with_the_attempt() -> None:
    def value(operator: int, subtask: int) -> MetricValue:
        return MetricValue(f"op {operator}", ids()[operator], subtask, (), "n", MetricKind.COUNTER, 3)

    reports = book(
        (TaskId(1, 1), TaskReport((), {}, (value(2, 1), value(1, 1)))),
        (TaskId(0, 0), TaskReport((), {}, (value(0, 0),))),
        (TaskId(1, 0), TaskReport((), {}, (value(1, 0),))),
    )
    found = reports.statistics().metrics.values
    assert [(each.operator, each.subtask) for each in found] == [
        ("op 0", 0),
        ("op 1", 0),
        ("op 1", 1),
        ("op 2", 1),
    ]
    reports.clear()
    assert reports.statistics().metrics.values == ()
