"""The metrics of subtasks and operators, from what their task has reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from firesteel.common._metric_values import MeterSummary, MetricKind, MetricValue
from firesteel.jobmaster.rate_history import MeasuredTask
from firesteel.metrics.metricbase import Reading
from firesteel.plan.job_plan import JobPlan, OperatorPlan, VertexPlan
from firesteel.plan.messages import TaskReport, TaskTimes

__all__ = ["LATENCY", "SubtaskMetrics", "distinct_names", "subtasks_of"]

#: The group of what latency markers tell; it is not the operator's, but belongs to two of them.
LATENCY = "latency"

_INPUT_WATERMARK = "currentInputWatermark"
_COUNTED = {
    "numRecordsIn": "records_in",
    "numRecordsOut": "records_out",
    "numBytesIn": "bytes_in",
    "numBytesOut": "bytes_out",
    "numBuffersIn": "buffers_in",
    "numBuffersOut": "buffers_out",
}
_TIMES = {"busy": "busy_ms", "idle": "idle_ms", "backPressured": "back_pressured_ms"}


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """One vertex's subtask: its own metrics, those of its operators, and latencies that they have seen."""

    vertex: VertexPlan
    subtask: int
    report: TaskReport
    own: list[Reading]
    operators: list[tuple[OperatorPlan, list[Reading]]]
    latencies: list[tuple[OperatorPlan, Reading]]


def subtasks_of(plan: JobPlan, measured: MeasuredTask) -> Iterator[SubtaskMetrics]:
    """The subtasks of a task. Its report has their operators in the order of the plan."""
    kept: dict[str, list[MetricValue]] = {}
    for value in (*measured.report.system, *measured.report.metrics):
        kept.setdefault(value.operator_id, []).append(value)
    first = 0
    for index, statistics in enumerate(measured.report.subtasks):
        vertex = plan.vertices[statistics.vertex]
        operators, latencies = [], []
        for position, operator in enumerate(vertex.operators, first):
            values = kept.get(operator.id, [])
            own = [_reading(value) for value in values if value.scope[:1] != (LATENCY,)]
            operators.append((operator, _once([*_records(measured, position), *own])))
            latencies += [(operator, _reading(each)) for each in values if each.scope[:1] == (LATENCY,)]
        own = [*_subtask_readings(measured, index), *_watermark(kept.get(vertex.operators[0].id, []))]
        yield SubtaskMetrics(vertex, statistics.subtask, measured.report, own, operators, latencies)
        first += len(vertex.operators)


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names of the operators of a chain such that no two are alike: of equal ones the second is called ``Map 2``.

    In Flink's REST interface the metrics of one would hide those of the other.

    >>> distinct_names(["Map", "Map 2", "Map", "Map"])
    ['Map', 'Map 2', 'Map 3', 'Map 4']
    """
    new_names: list[str] = []
    for name in names:
        number, shown = 1, name
        while shown in new_names or (number > 1 and shown in names):
            number += 1
            shown = f"{name} {number}"
        new_names.append(shown)
    return new_names


def _once(readings: list[Reading]) -> list[Reading]:
    """A function may have used a name of the system's: then that of the system stays, as in Flink."""
    by_name: dict[tuple[tuple[str, ...], str], Reading] = {}
    for reading in readings:
        by_name.setdefault(reading[:2], reading)
    return list(by_name.values())


def _reading(value: MetricValue) -> Reading:
    return value.scope, value.name, value.kind, value.value, value.value_indexes


def _counted(measured: MeasuredTask, name: str, count: Callable[[TaskReport], int]) -> list[Reading]:
    total = count(measured.report)
    meter = MeterSummary(total, measured.rate(count))
    return [
        ((), name, MetricKind.COUNTER, total, ()),
        ((), f"{name}PerSecond", MetricKind.METER, meter, ()),
    ]


def _records(measured: MeasuredTask, position: int) -> list[Reading]:
    return [
        *_counted(measured, "numRecordsIn", lambda report: report.operators[position].records_in),
        *_counted(measured, "numRecordsOut", lambda report: report.operators[position].records_out),
    ]


def _subtask_readings(measured: MeasuredTask, index: int) -> list[Reading]:
    readings: list[Reading] = []
    for name, field in _COUNTED.items():
        readings += _counted(
            measured,
            name,
            lambda report, field=field: getattr(report.subtasks[index], field),  # type: ignore[misc]
        )
    if measured.report.times is not None:
        readings += _times(measured, measured.report.times)
    subtask = measured.report.subtasks[index]
    delays = {
        "checkpointAlignmentTime": subtask.alignment_ms,
        "checkpointStartDelayNanos": subtask.start_delay_ms,
    }
    return readings + [
        ((), name, MetricKind.GAUGE, int(millis * 1e6), ())
        for name, millis in delays.items()
        if millis is not None
    ]


def _times(measured: MeasuredTask, times: TaskTimes) -> list[Reading]:
    """What the task does with its time; its subtasks share a thread, and so these figures."""
    readings: list[Reading] = []
    for name, field in _TIMES.items():

        def spent(report: TaskReport, field: str = field) -> float:
            return 0.0 if report.times is None else float(getattr(report.times, field))

        per_second = round(min(1000.0, measured.rate(spent)), 3)
        total = int(getattr(times, field))
        readings.append(((), f"{name}TimeMsPerSecond", MetricKind.GAUGE, per_second, ()))
        readings.append(((), f"accumulate{name[0].upper()}{name[1:]}TimeMs", MetricKind.GAUGE, total, ()))
    return readings


def _watermark(of_head: list[MetricValue]) -> list[Reading]:
    """That of the first operator is that of the subtask."""
    return [_reading(value) for value in of_head if value.name == _INPUT_WATERMARK and not value.scope]
