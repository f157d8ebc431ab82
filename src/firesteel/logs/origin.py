"""Which job and task a record comes from: noted in the task, so that every line of it can say so."""

from __future__ import annotations

import logging
from dataclasses import dataclass

__all__ = ["LogOrigin", "origin_of"]

_JOB, _JOB_ID, _TASK, _ATTEMPT = (f"firesteel_{name}" for name in ("job", "job_id", "task", "attempt"))


@dataclass(frozen=True, slots=True)
class LogOrigin:
    """A task: ``task`` has the names of its subtasks, as in ``Map (1/4)``."""

    job_id: str
    job: str
    task: str
    attempt: int

    def mark(self, record: logging.LogRecord) -> None:
        """Note it in a record, under names that formats of the program can use: ``%(firesteel_task)s``."""
        setattr(record, _JOB, self.job)
        setattr(record, _JOB_ID, self.job_id)
        setattr(record, _TASK, self.task)
        setattr(record, _ATTEMPT, self.attempt)


def origin_of(record: logging.LogRecord) -> LogOrigin | None:
    """What was noted; None for a record of the driver."""
    marks = record.__dict__
    if _TASK not in marks:
        return None
    return LogOrigin(marks[_JOB_ID], marks[_JOB], marks[_TASK], marks[_ATTEMPT])
