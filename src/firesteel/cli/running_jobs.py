"""What the commands about running jobs share: finding a job by its id, and errors without tracebacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import click

from firesteel.common.errors import FiresteelError
from firesteel.jobmaster.running_job import RunningJob, running_jobs

__all__ = ["find_job", "job_line", "plain_errors"]

Found = tuple[RunningJob, str]


def find_job(job_id: str | None) -> RunningJob:
    """The running job with this id, of which the beginning will do if no other job's begins so."""
    jobs = running_jobs()
    if not job_id:
        raise click.UsageError(f"which job? give its id\n{_listed(jobs)}")
    matching = [job for job, _ in jobs if job.entry.job_id.startswith(job_id.lower())]
    if len(matching) == 1:
        return matching[0]
    problem = (
        f"{len(matching)} jobs have ids that begin with"
        if matching
        else "no job runs on this machine with id"
    )
    raise click.ClickException(f"{problem} {job_id}\n{_listed(jobs)}")


def job_line(job: RunningJob, status: str) -> str:
    """One line about a job: when it was started, id, name and state."""
    entry = job.entry
    started = datetime.fromtimestamp(entry.started / 1000).strftime("%d.%m.%Y %H:%M:%S")
    return f"{started} : {entry.job_id} : {entry.name} ({status})"


def _listed(jobs: Sequence[Found]) -> str:
    if not jobs:
        return (
            "no job is running; jobs of 'python job.py' are found when FIRESTEEL_REGISTER=1 is set for them"
        )
    return "\n".join(["running jobs:", *(f"  {job_line(job, status)}" for job, status in jobs)])


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show what Firesteel raises on purpose as a message."""
    try:
        yield
    except FiresteelError as error:
        raise click.ClickException(str(error)) from error
