"""What a person at a terminal sees of a running job: its states, how it comes along, and in the end what it came to."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import Protocol, TextIO

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.time import to_millis
from firesteel.jobmaster.statistics import JobStatistics
from firesteel.jobmaster.terminal.console import CONSOLE
from firesteel.jobmaster.terminal.progress_lines import block_lines, summary_lines

_REFRESH_SECONDS = 1.0


class ObservedJob(Protocol):
    """What listeners may look at."""

    job_id: JobID
    name: str

    def statistics(self) -> JobStatistics:
        """How the job comes along, as last reported."""
        ...


class JobListener(Protocol):
    """Told about every change of a job's state, from the job master's thread."""

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """The job has just gone to ``status``."""
        ...


class ProgressDisplay:
    """Writes a line for every state and a summary in the end; on a terminal also a block that is drawn again and again."""

    def __init__(self, stream: TextIO | None = None, *, live: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = _can_redraw(self._stream) if live is None else live
        self._block: RateBlock | None = None

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Write the line; the block is shown while the job is RUNNING."""
        if self._block is not None:
            self._block.stop()
            self._block = None
        lines = [f"job {job.name} ({job.job_id}) switched to {status.name}"]
        if status.is_terminal_state():
            lines += summary_lines(job.statistics())
        CONSOLE.write_to(self._stream, "".join(f"{line}\n" for line in lines))
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
        """Erase the block for good."""
        self._stopped.set()
        self._thread.join(_REFRESH_SECONDS * 2)
        CONSOLE.hide(self)

    def clear(self) -> None:
        """Erase the block until it is drawn again."""
        if self._shown_lines:
            self._stream.write(f"\x1b[{self._shown_lines}A\x1b[J")
            self._stream.flush()
            self._shown_lines = 0

    def _run(self) -> None:
        before, at = self._job.statistics(), time.monotonic()
        while not self._stopped.wait(_REFRESH_SECONDS):
            after, now = self._job.statistics(), time.monotonic()
            size = shutil.get_terminal_size()
            moment = to_millis(time.time())
            self._draw(block_lines(before, after, now - at, size.columns, size.lines, moment))
            before, at = after, now

    def _draw(self, lines: list[str]) -> None:
        with CONSOLE.drawing():
            self.clear()
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
            self._shown_lines = len(lines)


def _can_redraw(stream: TextIO) -> bool:
    """Whether it is a terminal that can take lines back: files, pipes and dumb terminals get no control characters."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
