"""The progress of a job as lines of text for a terminal of some width: what is there, and what of it fits.

Everything here is a function of figures: no clock, no terminal. Lines never contain control characters, whatever
operators are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from firesteel.common._metric_values import (
    DistributionSummary,
    GaugeSummary,
    HistogramSummary,
    JobMetrics,
    MeterSummary,
    MetricTotal,
)
from firesteel.common.time import MAX_WATERMARK
from firesteel.jobmaster.checkpoints.statistics import CheckpointStatistics
from firesteel.jobmaster.statistics import JobStatistics, OperatorTotals

__all__ = [
    "block_lines",
    "checkpoint_text",
    "clean",
    "duration",
    "metric_lines",
    "metric_text",
    "short",
    "summary_lines",
    "totals_to_show",
]

#: Metrics that every operator has; how far event time has come is shown once for the job.
_OF_EVERY_OPERATOR = ("currentInputWatermark", "currentOutputWatermark")
_MOST_NAME, _LEAST_NAME = 48, 12
#: Handing records over takes a little of the time in the best of times.
_NOTEWORTHY_PRESSURE = 0.2
_MOST_METRIC_LINES = 4
_HALF_A_DAY_MS = 12 * 3_600_000
_MOST_SUMMARY_METRICS = 40


def block_lines(
    before: JobStatistics, after: JobStatistics, seconds: float, width: int, height: int, now_ms: int
) -> list[str]:
    """What is shown while a job runs: the job as a whole, its operators, back pressure, checkpoints, metrics."""
    last = [
        line
        for line in (_pressure_line(after), _checkpoint_line(after.checkpoints, width, now_ms))
        if line is not None
    ]
    last += metric_lines(totals_to_show(after.metrics), width)[:_MOST_METRIC_LINES]
    operators = _operator_lines(before, after, seconds, width)
    room = max(1, height - 2 - len(last))
    if len(operators) > room:
        operators = [*operators[: room - 1], f"  ... and {len(operators) - room + 1} more operators"]
    lines = [_fitting(_job_parts(after, now_ms), width), *operators, *last]
    return [_cut(line, width) for line in lines]


def summary_lines(statistics: JobStatistics, width: int | None = None) -> list[str]:
    """What is said when a job has ended: how long it took, restarts, checkpoints, and its functions' metrics."""
    parts = [f"after {duration(statistics.elapsed)}", *_restart_parts(statistics)]
    checkpoints = statistics.checkpoints
    if checkpoints.begun:
        parts.append(_counted(checkpoints))
    lines = [f"  {', '.join(parts)}"]
    totals = totals_to_show(statistics.metrics)
    lines += [
        f"  {clean(total.operator)}: {clean(total.full_name)} {metric_text(total.value, exact=True)}"
        for total in totals[:_MOST_SUMMARY_METRICS]
    ]
    if len(totals) > _MOST_SUMMARY_METRICS:
        lines.append(f"  ... and {len(totals) - _MOST_SUMMARY_METRICS} more metrics")
    return lines if width is None else [_cut(line, width) for line in lines]


# The job as a whole -----------------------------------------------------------------------------------


def _job_parts(statistics: JobStatistics, now_ms: int) -> list[str]:
    return [
        f"running {duration(statistics.elapsed)}",
        *_restart_parts(statistics),
        *_watermark_parts(statistics, now_ms),
    ]


def _restart_parts(statistics: JobStatistics) -> list[str]:
    restarts = statistics.restarts
    return [f"{restarts} restart{'' if restarts == 1 else 's'}"] if restarts else []


def _watermark_parts(statistics: JobStatistics, now_ms: int) -> list[str]:
    watermark = statistics.watermark
    if watermark is None:
        begun = any(operator.watermark is not None for operator in statistics.operators)
        return ["no watermark has come to the end of the job yet"] if begun else []
    if watermark >= MAX_WATERMARK:
        return ["watermark at the end of time"]
    return [f"watermark {_lag(now_ms - watermark)}", f"at {_moment(watermark, now_ms)}"]


def _moment(millis: int, now_ms: int) -> str:
    """A moment of event time, with its date when that may be another one; a number where it is no time of day."""
    form = "%H:%M:%S" if abs(now_ms - millis) < _HALF_A_DAY_MS else "%Y-%m-%d %H:%M:%S"
    try:
        return datetime.fromtimestamp(millis / 1000).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"


def _lag(millis: int) -> str:
    return f"{duration(millis / 1000)} behind" if millis >= 0 else f"{duration(-millis / 1000)} ahead"


def _pressure_line(statistics: JobStatistics) -> str | None:
    """The operator whose task waits most for its receivers; the slow one comes after it."""
    known = [each for each in statistics.operators if each.back_pressure is not None]
    if not known:
        return None
    # Operators of one chain have the figure of their task: the last of them is the one that sends.
    worst = max(reversed(known), key=lambda each: each.back_pressure or 0.0)
    share = worst.back_pressure or 0.0
    if share < _NOTEWORTHY_PRESSURE:
        return None
    return f"  back pressure: {100 * share:.0f} % of the time {clean(worst.name)} waits for what follows"


def _checkpoint_line(checkpoints: CheckpointStatistics, width: int, now_ms: int) -> str | None:
    if not checkpoints.begun:
        return None
    return _fitting([checkpoint_text(checkpoints, now_ms), _counted(checkpoints)], width, "; ")


def checkpoint_text(checkpoints: CheckpointStatistics, now_ms: int) -> str:
    """The newest completed checkpoint: how long it took, what it wrote, how old it is."""
    newest = checkpoints.newest
    if newest is None:
        return "no checkpoint is complete yet"
    age = "" if newest.ended is None else f", {duration((now_ms - newest.ended) / 1000)} ago"
    return (
        f"{newest.kind.value} {newest.id}: {newest.duration_ms:.0f} ms, {short(newest.bytes_written)}B{age}"
    )


def _counted(checkpoints: CheckpointStatistics) -> str:
    failed = f", {checkpoints.failed} failed" if checkpoints.failed else ""
    return f"{checkpoints.completed} checkpoint{'' if checkpoints.completed == 1 else 's'} complete{failed}"


# Operators --------------------------------------------------------------------------------------------


def _operator_lines(before: JobStatistics, after: JobStatistics, seconds: float, width: int) -> list[str]:
    """One line for each operator: its name, records in and out per second, records in all, as far as they fit."""
    longest = max((len(operator.name) for operator in after.operators), default=0)
    columns = 44  # of the three figures
    name_width = min(longest, _MOST_NAME, max(_LEAST_NAME, width - 1 - 2 - columns))
    return [
        _operator_line(old, new, seconds, name_width, width)
        for old, new in zip(before.operators, after.operators, strict=True)
    ]


def _operator_line(
    old: OperatorTotals, new: OperatorTotals, seconds: float, name_width: int, width: int
) -> str:
    name = clean(new.name)
    name = name if len(name) <= name_width else name[: name_width - 1] + "…"
    into = _rate(new.records_in - old.records_in, new.records_in, seconds, "in")
    out = _rate(new.records_out - old.records_out, new.records_out, seconds, "out")
    total = f"{short(max(new.records_in, new.records_out)):>8} in all"
    line = f"  {name:<{name_width}}"
    for column in (f" {into:>12}", f" {out:>13}", f" {total}"):
        if len(line) + len(column) > width - 1:
            break
        line += column
    return line


def _rate(records: int, total: int, seconds: float, direction: str) -> str:
    # Nothing at all: a source has no input, a sink no output.
    return f"{short(max(0, records) / seconds)}/s {direction}" if total else ""


# Metrics ----------------------------------------------------------------------------------------------


def totals_to_show(metrics: JobMetrics) -> list[MetricTotal]:
    """Those that not every operator has by itself."""
    return [total for total in metrics.totals() if total.name not in _OF_EVERY_OPERATOR]


def metric_lines(totals: Iterable[MetricTotal], width: int) -> list[str]:
    """The metrics that functions have registered, a line for each operator, with as many as fit."""
    by_operator: dict[str, list[MetricTotal]] = {}
    for total in totals:
        by_operator.setdefault(total.operator_id, []).append(total)
    lines = []
    for group in by_operator.values():
        operator = clean(group[0].operator)
        room = max(_LEAST_NAME, width // 3)
        operator = operator if len(operator) <= room else operator[: room - 1] + "…"
        parts = [f"{clean(total.full_name)} {metric_text(total.value)}" for total in group]
        lines.append(_fitting([f"{operator}: {parts[0]}", *parts[1:]], width))
    return lines


def metric_text(value: Any, exact: bool = False) -> str:
    """The value of a metric, for people; ``exact``: whole numbers with all their digits.

    >>> metric_text(1_234_567), metric_text(1_234_567, exact=True), metric_text(MeterSummary(120, 2.5))
    ('1.2 M', '1,234,567', '120 (2.5/s)')
    >>> metric_text(GaugeSummary(1, 2, 3)), metric_text(DistributionSummary(2, 15.5, 3.5, 12))
    ('1..3, mean 2', '2 values, 3.5..12, mean 7.75')
    """
    match value:
        case None:
            return "-"
        case MeterSummary(count, rate):
            return f"{_number(count, exact)} ({_number(rate)}/s)"
        case DistributionSummary(count, _, minimum, maximum):
            span = f"{_number(minimum)}..{_number(maximum)}"
            return f"{_number(count, exact)} values, {span}, mean {_number(value.mean)}"
        case HistogramSummary():
            middle = f"median {_number(value.p50)}, p99 {_number(value.p99)}"
            return (
                f"{_number(value.count, exact)} values, {_number(value.min)}..{_number(value.max)}, {middle}"
            )
        case GaugeSummary(minimum, mean, maximum):
            if minimum == maximum:
                return _number(minimum, exact)
            return f"{_number(minimum, exact)}..{_number(maximum, exact)}, mean {_number(mean)}"
        case tuple():
            return " | ".join(clean(str(each)) for each in value)
        case int() | float():
            return _number(value, exact)
        case _:
            return clean(str(value))


def _number(number: Any, exact: bool = False) -> str:
    if exact and isinstance(number, int):
        return f"{number:,}"
    try:
        value = float(number)
    except (TypeError, ValueError, OverflowError):
        return clean(str(number))
    if abs(value) >= 1000:
        return short(value) if value > 0 else f"-{short(-value)}"
    return f"{value:.4g}"


# Text -------------------------------------------------------------------------------------------------


def short(number: float) -> str:
    """A number in at most six characters.

    >>> short(12), short(3_456), short(1_234_567)
    ('12', '3.5 k', '1.2 M')
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f} {unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """A length of time in at most two units.

    >>> duration(0.3), duration(12.34), duration(75), duration(7_500), duration(200_000)
    ('0.3 s', '12 s', '1 min 15 s', '2 h 5 min', '2 d 7 h')
    """
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = whole // 60
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = minutes // 60
    return f"{hours // 24} d {hours % 24} h"


def _fitting(parts: Sequence[str], width: int, separator: str = ", ") -> str:
    """As many of the parts as fit into the width; at least the first one."""
    line = f"  {parts[0]}"
    for part in parts[1:]:
        if len(line) + len(separator) + len(part) > width - 1:
            break
        line += separator + part
    return line


def _cut(line: str, width: int) -> str:
    # One column less: a full line would make some terminals begin another one.
    most = max(width - 1, 1)
    return line if len(line) <= most else line[: most - 1] + "…"


def clean(text: str) -> str:
    """The same without control characters, each of which becomes a blank."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
