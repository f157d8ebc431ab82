"""What the commands about running jobs share: finding a job by its id, and errors without tracebacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import click

from firesteel.common.errors import FiresteelError
from firesteel.jobmaster.remote.history import EndedJob, ended_jobs
from firesteel.jobmaster.remote.running_job import RunningJob, running_jobs
from firesteel.jobmaster.terminal.progress_lines import duration

__all__ = ["ended_line", "find_job", "job_line", "plain_errors"]

JobAndStatus = tuple[RunningJob, str]


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
    over = [] if matching else [job for job in ended_jobs() if job.job_id.startswith(job_id.lower())]
    ended = [f"it has ended:\n  {ended_line(over[-1])}"] if over else []
    raise click.ClickException("\n".join([f"{problem} {job_id}", *ended, _listed(jobs)]))


def job_line(job: RunningJob, status: str) -> str:
    """One line about a job: when it was started, id, name, state, and where its REST interface is."""
    entry = job.entry
    rest = f" {entry.rest}" if entry.rest else ""
    return f"{_moment(entry.started)} : {entry.job_id} : {entry.name} ({status}){rest}"


def ended_line(job: EndedJob) -> str:
    """One line about a job that is over: as of one that runs, with when and why it ended."""
    reason = f": {job.reason}" if job.reason else ""
    return (
        f"{_moment(job.started)} : {job.job_id} : {job.name} ({job.status}) ended {_moment(job.ended)} after "
        f"{duration(job.seconds)}{reason}"
    )


def _moment(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000).strftime("%d.%m.%Y %H:%M:%S")


def _listed(jobs: Sequence[JobAndStatus]) -> str:
    if not jobs:
        return "no job is running; 'firesteel list -a' also shows those that have ended"
    return "\n".join(["running jobs:", *(f"  {job_line(job, status)}" for job, status in jobs)])


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show what Firesteel raises on purpose as a message."""
    try:
        yield
    except FiresteelError as error:
        raise click.ClickException(str(error)) from error
