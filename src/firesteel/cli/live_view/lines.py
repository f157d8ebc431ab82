"""What is seen, as lines of text for a screen of some size: a pure function of samples, keys and the clock.

Lines never contain control characters, whatever jobs and operators are called; how a line looks is said beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from firesteel.cli.live_view.figures import Figures, OperatorFigures, job_figures, vertex_figures
from firesteel.cli.live_view.keys import View
from firesteel.cli.live_view.samples import JobSample
from firesteel.jobmaster.terminal.progress_lines import clean, duration, short

__all__ = ["Line", "Picture", "help_lines", "listed_ids", "picture_lines"]

_LEAST_NAME = 16


@dataclass(frozen=True, slots=True)
class Line:
    """``look``: plain, head, chosen or alarm."""

    text: str
    look: str = "plain"


@dataclass(frozen=True, slots=True)
class Picture:
    """What there is to show: the jobs now, and as they were some seconds ago. ``moment`` is in milliseconds.

    ``id_digits``: how much of a job's id is shown in the list; the beginning will do for all commands.
    """

    jobs: Sequence[JobSample]
    before: Sequence[JobSample] = ()
    where: str = ""
    moment: int = 0
    problem: str = ""
    id_digits: int = 8


def picture_lines(picture: Picture, view: View, width: int, height: int) -> list[Line]:
    """The screen: all jobs, or the one that is opened, or what keys do."""
    if view.with_help:
        lines = help_lines()
    elif view.opened:
        lines = _job_page(picture, view, width, height)
    else:
        lines = _list_page(picture, view, width, height)
    return [Line(_cut(line.text, width), line.look) for line in lines[:height]]


def help_lines() -> list[Line]:
    """What keys do."""
    rows = (
        ("arrows, j, k", "choose a job; in a job, scroll"),
        ("g, G", "the first job, the last one"),
        ("enter", "show the job that is chosen, operator by operator"),
        ("escape, h", "back to all jobs"),
        ("n, t", "sort by name, by start"),
        ("i, o", "sort by records in, records out per second"),
        ("b, p, l", "sort by busy share, back pressure, lag of the watermark"),
        ("", "the same key again turns the order around"),
        ("q", "leave"),
    )
    return [Line("keys", "head"), *(Line(f"  {key:<14}{text}") for key, text in rows)]


# Tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """``rank``: those with the greatest are left out first where there is not enough room."""

    name: str
    size: int
    rank: int


class _Form:
    """Which columns of a table fit, and how its rows are written; the first column is the name of what a row is about."""

    def __init__(self, columns: Sequence[_Column], names: Sequence[str], width: int) -> None:
        # One column less: a full line would make some terminals begin another one.
        room = width - 1 - _LEAST_NAME
        self._columns = columns
        self._shown: set[int] = set()
        for at, column in sorted(enumerate(columns), key=lambda each: each[1].rank):
            room -= column.size + 1
            if room >= 0:
                self._shown.add(at)
        left = width - 1 - sum(columns[at].size + 1 for at in self._shown)
        self._name_width = max(1, min(left, max([_LEAST_NAME, *map(len, names)])))

    def head(self, name: str) -> str:
        """The line with the names of the columns."""
        return self.row(name, [column.name for column in self._columns])

    def row(self, name: str, cells: Sequence[str]) -> str:
        """A line with one cell for each column that there is room for."""
        size = self._name_width
        shown = name if len(name) <= size else name[: size - 1] + "…"
        pairs = enumerate(zip(cells, self._columns, strict=True))
        return f"{shown:<{size}}" + "".join(
            f" {cell:>{column.size}}" for at, (cell, column) in pairs if at in self._shown
        )


# All jobs ---------------------------------------------------------------------------------------------

_JOB_COLUMNS = (
    _Column("STATE", 13, 0),
    _Column("FOR", 12, 6),
    _Column("TASKS", 7, 7),
    _Column("IN/S", 9, 1),
    _Column("OUT/S", 9, 2),
    _Column("BUSY", 6, 3),
    _Column("BACKPR", 7, 4),
    _Column("LAG", 12, 5),
    _Column("RESTARTS", 9, 8),
    _Column("CHECKPOINTS", 12, 9),
    _Column("LAST ONE", 20, 10),
)


def _list_page(picture: Picture, view: View, width: int, height: int) -> list[Line]:
    rows = _sorted_jobs(picture, view)
    ids = [job.job_id for job, _ in rows]
    chosen = view.chosen if view.chosen in ids else (ids[0] if ids else "")
    form = _Form(_JOB_COLUMNS, [_job_title(job, picture) for job, _ in rows], width)
    table = [Line(form.head("JOB"), "head")]
    for job, figures in rows:
        look = "chosen" if job.job_id == chosen else "alarm" if _is_alarming(job) else "plain"
        table.append(Line(form.row(_job_title(job, picture), _job_cells(job, figures)), look))
        if job.problem:
            table.append(Line(f"  {clean(job.problem)}", "alarm"))
    head = Line(_title(picture, len(rows), "enter: job, ?: keys, q: leave"), "head")
    if not rows:
        table = [Line("no job is running")]
    problem = [Line(clean(picture.problem), "alarm")] if picture.problem else []
    return [head, *problem, *_around(table, height - 1 - len(problem))]


def listed_ids(picture: Picture, view: View) -> list[str]:
    """The ids of the jobs in the order in which they are seen."""
    return [job.job_id for job, _ in _sorted_jobs(picture, view)]


def _sorted_jobs(picture: Picture, view: View) -> list[tuple[JobSample, Figures]]:
    rows = [(job, job_figures(_earlier(picture, job.job_id), job)) for job in picture.jobs]
    if view.sort is None:
        return rows
    return _by_column(rows, view, {"name": lambda job: job.name, "started": lambda job: job.started})


def _title(picture: Picture, count: int, keys: str) -> str:
    time = datetime.fromtimestamp(picture.moment / 1000).strftime("%H:%M:%S")
    where = f" at {picture.where}" if picture.where else ""
    return f"firesteel top, {time}: {count} job{'' if count == 1 else 's'}{where}    {keys}"


def _job_title(job: JobSample, picture: Picture) -> str:
    return f"{job.job_id[: picture.id_digits]} {clean(job.name)}"


def _job_cells(job: JobSample, figures: Figures) -> list[str]:
    total = sum(vertex.parallelism for vertex in job.vertices)
    metrics = job.metrics
    failed = metrics.get("numberOfFailedCheckpoints", 0)
    return [
        clean(job.state),
        duration(job.duration / 1000) if job.now else "-",
        f"{job.tasks_running}/{total}" if total else "-",
        *_flow_cells(figures),
        _count(metrics.get("numRestarts")),
        _count(metrics.get("numberOfCompletedCheckpoints")) + (f" -{failed:.0f}" if failed else ""),
        _last_checkpoint(job),
    ]


def _last_checkpoint(job: JobSample) -> str:
    millis = job.metrics.get("lastCheckpointDuration", -1)
    if millis < 0:
        return "-"
    return f"{duration(millis / 1000)} {short(job.metrics.get('lastCheckpointSize', 0))}B"


def _is_alarming(job: JobSample) -> bool:
    return bool(job.problem) or job.state in ("FAILING", "RESTARTING", "FAILED", "NOT ANSWERING")


# One job ----------------------------------------------------------------------------------------------

_OPERATOR_COLUMNS = (
    _Column("PAR", 5, 6),
    _Column("STATE", 13, 7),
    _Column("IN/S", 9, 0),
    _Column("OUT/S", 9, 1),
    _Column("BUSY", 6, 2),
    _Column("BACKPR", 7, 3),
    _Column("LAG", 12, 4),
    _Column("IN", 9, 5),
    _Column("OUT", 9, 5),
)


def _job_page(picture: Picture, view: View, width: int, height: int) -> list[Line]:
    job = next((each for each in picture.jobs if each.job_id == view.opened), None)
    title = _title(picture, len(picture.jobs), "escape: all jobs, ?: keys, q: leave")
    if job is None:
        gone = (
            picture.problem
            or f"job {view.opened} does not run any more; 'firesteel list -a' says how it ended"
        )
        return [Line(title, "head"), Line(clean(gone), "alarm")]
    head = [Line(title, "head"), *_job_lines(job)]
    table = _operator_table(_earlier(picture, job.job_id), job, view, width)
    room = max(2, height - len(head))
    scroll = min(view.scroll, max(0, len(table) - room))
    return [*head, table[0], *table[1 + scroll :][: room - 1]]


def _job_lines(job: JobSample) -> list[Line]:
    lines = [
        Line(f"{clean(job.name)} ({job.job_id})", "head"),
        Line(f"{clean(job.state)} for {duration(job.duration / 1000)}, {_job_parts(job)}"),
    ]
    return lines + ([Line(clean(job.problem), "alarm")] if job.problem else [])


def _job_parts(job: JobSample) -> str:
    metrics = job.metrics
    restarts = metrics.get("numRestarts", 0)
    parts = [f"{restarts:.0f} restart{'' if restarts == 1 else 's'}"]
    completed = metrics.get("numberOfCompletedCheckpoints", 0)
    failed = metrics.get("numberOfFailedCheckpoints", 0)
    if completed or failed:
        parts.append(
            f"{completed:.0f} checkpoint{'' if completed == 1 else 's'} complete, {failed:.0f} failed"
        )
        parts.append(f"the last one {_last_checkpoint(job)}")
    return ", ".join(parts)


def _operator_table(before: JobSample | None, job: JobSample, view: View, width: int) -> list[Line]:
    rows = [(vertex, vertex_figures(before, job, vertex)) for vertex in job.vertices]
    if view.sort is not None:
        order = {vertex.id: at for at, vertex in enumerate(job.vertices)}
        rows = _by_column(
            rows, view, {"name": lambda vertex: vertex.name, "started": lambda vertex: order[vertex.id]}
        )
    names = [name for _, figures in rows for name in _operator_names(figures)]
    form = _Form(_OPERATOR_COLUMNS, names, width)
    table = [Line(form.head("OPERATOR"), "head")]
    for vertex, figures in rows:
        for at, (name, operator) in enumerate(zip(_operator_names(figures), figures.operators, strict=True)):
            cells = _operator_cells(operator)
            if at == 0:
                # The rest is of the whole chain: its operators are calls of each other, in one thread.
                cells[:2] = [str(vertex.parallelism), clean(vertex.state)]
                cells[4:7] = _flow_cells(figures)[2:]
            table.append(Line(form.row(name, cells)))
    return table


def _operator_names(figures: Figures) -> list[str]:
    return [("" if at == 0 else "  ") + clean(each.name) for at, each in enumerate(figures.operators)]


def _operator_cells(operator: OperatorFigures) -> list[str]:
    return [
        "",
        "",
        _rate(operator.rate_in),
        _rate(operator.rate_out),
        "",
        "",
        "",
        _number(operator.records_in),
        _number(operator.records_out),
    ]


# Cells and columns ------------------------------------------------------------------------------------


def _flow_cells(figures: Figures) -> list[str]:
    return [
        _rate(figures.rate_in),
        _rate(figures.rate_out),
        _share(figures.busy),
        _share(figures.back_pressured),
        _lag(figures.lag_ms),
    ]


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if 0 < value < 9.95 else short(value)


def _number(value: float | None) -> str:
    return "-" if value is None else short(value)


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _lag(millis: float | None) -> str:
    if millis is None:
        return "-"
    if millis == float("-inf"):
        return "end"
    return duration(millis / 1000) if millis >= 0 else f"-{duration(-millis / 1000)}"


def _around(table: list[Line], room: int) -> list[Line]:
    """The head of a table and as many of its rows as there is room for, with the one that is chosen among them."""
    head, *rows = table
    room = max(1, room - 1)
    at = next((index for index, line in enumerate(rows) if line.look == "chosen"), 0)
    first = max(0, min(at - room // 2, len(rows) - room))
    return [head, *rows[first : first + room]]


def _by_column(rows: list[Any], view: View, own: Any) -> list[Any]:
    """Rows of something with its figures; what has no figure comes last, whatever the order."""
    column = view.sort or ""

    def value(row: Any) -> Any:
        return own[column](row[0]) if column in own else getattr(row[1], column)

    known = sorted((row for row in rows if value(row) is not None), key=value, reverse=view.descending)
    return known + [row for row in rows if value(row) is None]


def _earlier(picture: Picture, job_id: str) -> JobSample | None:
    return next((job for job in picture.before if job.job_id == job_id), None)


def _cut(text: str, width: int) -> str:
    # One column less: a full line would make some terminals begin another one.
    most = max(width - 1, 1)
    return text if len(text) <= most else text[: most - 1] + "…"
