"""What a person at a terminal sees of a running job: its states, and records per second by operator."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Protocol, TextIO

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoint_statistics import CheckpointStatistics
from firesteel.jobmaster.console import CONSOLE
from firesteel.jobmaster.statistics import JobStatistics, OperatorTotals

_REFRESH_SECONDS = 1.0
_NAME_WIDTH = 32


class ObservedJob(Protocol):
    """What listeners may look at."""

    job_id: JobID
    name: str

    def statistics(self) -> JobStatistics:
        """Records in and out by operator, as last reported."""
        ...


class JobListener(Protocol):
    """Told about every change of a job's state, from the job master's thread."""

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """The job has just gone to ``status``."""
        ...


class ProgressDisplay:
    """Writes a line for every state; on a terminal also a block of rates that is drawn again and again."""

    def __init__(self, stream: TextIO | None = None, *, live: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty() if live is None else live
        self._block: RateBlock | None = None

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Write the line; rates are shown while the job is RUNNING."""
        if self._block is not None:
            self._block.stop()
            self._block = None
        with CONSOLE.exclusively():
            self._stream.write(f"job {job.name} ({job.job_id}) switched to {status.name}\n")
            self._stream.flush()
        if status is JobStatus.RUNNING and self._live:
            self._block = RateBlock(job, self._stream)


class RateBlock:
    """The lines at the bottom of the terminal, with the thread that keeps them fresh."""

    def __init__(self, job: ObservedJob, stream: TextIO) -> None:
        self._job = job
        self._stream = stream
        self._shown_lines = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="firesteel-progress", daemon=True)
        CONSOLE.show(self)
        self._thread.start()

    def stop(self) -> None:
        """Take the block away for good."""
        self._stopped.set()
        self._thread.join(_REFRESH_SECONDS * 2)
        CONSOLE.hide(self)

    def clear(self) -> None:
        """Take the block away until it is drawn again."""
        if self._shown_lines:
            self._stream.write(f"\x1b[{self._shown_lines}A\x1b[J")
            self._stream.flush()
            self._shown_lines = 0

    def _run(self) -> None:
        before, at = self._job.statistics(), time.monotonic()
        while not self._stopped.wait(_REFRESH_SECONDS):
            after, now = self._job.statistics(), time.monotonic()
            self._draw(rate_lines(before, after, now - at, shutil.get_terminal_size().columns))
            before, at = after, now

    def _draw(self, lines: list[str]) -> None:
        with CONSOLE.drawing():
            self.clear()
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
            self._shown_lines = len(lines)


def rate_lines(before: JobStatistics, after: JobStatistics, seconds: float, width: int) -> list[str]:
    """One line for each operator: its name, records in and out per second, records in all; one for checkpoints."""
    lines = [_line(old, new, seconds) for old, new in zip(before.operators, after.operators, strict=True)]
    if after.checkpoints.begun:
        lines.append(checkpoint_line(after.checkpoints))
    return [line[: max(width - 1, 1)] for line in lines]


def checkpoint_line(checkpoints: CheckpointStatistics) -> str:
    """The newest complete checkpoint, and how many there were."""
    newest = checkpoints.newest
    last = (
        "no checkpoint is complete yet"
        if newest is None
        else f"{newest.kind.value} {newest.id}: {newest.duration_ms:.0f} ms, {short(newest.bytes_written)}B"
    )
    failed = f", {checkpoints.failed} failed" if checkpoints.failed else ""
    return f"  {last}; {checkpoints.completed} complete{failed}"


def _line(old: OperatorTotals, new: OperatorTotals, seconds: float) -> str:
    name = new.name if len(new.name) <= _NAME_WIDTH else new.name[: _NAME_WIDTH - 1] + "…"
    into = _rate(new.records_in - old.records_in, new.records_in, seconds, "in")
    out = _rate(new.records_out - old.records_out, new.records_out, seconds, "out")
    total = short(max(new.records_in, new.records_out))
    return f"  {name:<{_NAME_WIDTH}} {into:>12} {out:>13} {total:>8} in all"


def _rate(records: int, total: int, seconds: float, direction: str) -> str:
    # Nothing at all: a source has no input, a sink no output.
    return f"{short(records / seconds)}/s {direction}" if total else ""


def short(number: float) -> str:
    """A number in at most six characters.

    >>> short(12), short(3_456), short(1_234_567)
    ('12', '3.5 k', '1.2 M')
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f} {unit}"
    return f"{number:.0f}"
