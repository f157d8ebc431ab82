"""What the commands about running jobs share: finding jobs, speaking to one, and errors without tracebacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import click

from firesteel.cli.target import Target
from firesteel.common.errors import FiresteelError
from firesteel.jobmaster.remote.history import HistoryEntry, ended_jobs
from firesteel.jobmaster.remote.registry import RegistryEntry, entries
from firesteel.jobmaster.terminal.progress_lines import duration
from firesteel.rest.client import NotReachableError, RestClient, RestClientError
from firesteel.rest.job_requests import JobLine, jobs

__all__ = ["FoundJob", "ended_line", "find_job", "found_jobs", "job_line", "plain_errors", "why_gone"]

#: The states of jobs that do not tell theirs.
NOT_ANSWERING, UNKNOWN = "NOT ANSWERING", "UNKNOWN"
#: A driver that is alive answers sooner, also when it is very busy; for one that is stopped nobody waits long.
_LIST_SECONDS = 10.0
_MOST_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job, and the service to speak to about it: ``url`` is empty when there is none.

    ``problem``: why its state is not known, in a sentence. ``pid`` is that of its driver, 0 on another machine. Times are in
    milliseconds; ``ended`` is -1 while it runs.
    """

    target: Target
    job_id: str
    name: str
    started: int
    state: str = UNKNOWN
    url: str = ""
    pid: int = 0
    ended: int = -1
    problem: str = ""

    def client(self) -> RestClient:
        """How to speak to it; refused when it has no REST interface."""
        if not self.url:
            raise click.ClickException(f"job {self.job_id} cannot be commanded: {_no_rest(self.pid)}")
        return self.target.client(self.url)


def _no_rest(pid: int) -> str:
    return (
        "its driver has no REST interface ('rest.port' is -1, or no port was free); "
        f"'kill {pid}' ends it and keeps what it has saved"
    )


# Finding them -----------------------------------------------------------------------------------------


def found_jobs(target: Target) -> list[FoundJob]:
    """The jobs of a service, with those that have ended; or those that run on this machine. The oldest first."""
    if target.url is not None:
        with target.client(target.url, _LIST_SECONDS) as client:
            return [_of_service(target, target.url, line) for line in jobs(client)]
    return _of_registry(target, entries())


def _of_service(target: Target, url: str, line: JobLine) -> FoundJob:
    return FoundJob(target, line.job_id, line.name, line.started, line.state, url, ended=line.ended)


def _of_registry(target: Target, known: Sequence[RegistryEntry]) -> list[FoundJob]:
    urls = sorted({entry.rest for entry in known if entry.rest})
    with ThreadPoolExecutor(
        _MOST_AT_ONCE
    ) as threads:  # those that are stopped are waited for at the same time
        answers = dict(zip(urls, threads.map(lambda url: _asked(target, url), urls), strict=True))
    return [_of_entry(target, entry, answers.get(entry.rest)) for entry in known]


def _asked(target: Target, url: str) -> dict[str, JobLine] | RestClientError:
    try:
        with target.client(url, _LIST_SECONDS) as client:
            return {line.job_id: line for line in jobs(client)}
    except RestClientError as error:
        return error


def _unasked(target: Target, entry: RegistryEntry) -> FoundJob:
    return FoundJob(target, entry.job_id, entry.name, entry.started, UNKNOWN, entry.rest, entry.pid)


def _of_entry(
    target: Target, entry: RegistryEntry, answer: dict[str, JobLine] | RestClientError | None
) -> FoundJob:
    state, problem = UNKNOWN, ""
    match answer:
        case None:
            problem = _no_rest(entry.pid)
        case NotReachableError():
            state = NOT_ANSWERING
        case RestClientError():
            problem = str(answer)
        case {entry.job_id: line}:
            state = line.state
        case _:
            problem = f"{entry.rest} does not show it"
    return replace(_unasked(target, entry), state=state, problem=problem)


def find_job(target: Target, job_id: str | None) -> FoundJob:
    """The job with this id, of which the beginning will do if no other job's begins so."""
    if not job_id:
        raise click.UsageError(f"which job? give its id\n{_listed(target)}")
    # Who looks for one job of this machine need not wait for what others say.
    known = [_unasked(target, each) for each in entries()] if target.url is None else found_jobs(target)
    matching = [job for job in known if job.job_id.startswith(job_id.lower())]
    if len(matching) == 1:
        return matching[0]
    if matching:
        problem = f"{len(matching)} jobs have ids that begin with {job_id}"
    elif target.url is None:
        problem = f"no job runs on this machine with id {job_id}"
    else:
        problem = f"{target.url} has no job with id {job_id}"
    ended = _end_of(job_id) if target.url is None and not matching else None
    gone = [f"it has ended:\n  {ended_line(ended)}"] if ended else []
    raise click.ClickException("\n".join([problem, *gone, _listed(target)]))


def _end_of(job_id: str) -> HistoryEntry | None:
    over = [job for job in ended_jobs() if job.job_id.startswith(job_id.lower())]
    return over[-1] if over else None


def why_gone(job: FoundJob) -> HistoryEntry | None:
    """How a job of this machine has ended whose driver answers no more; None when nobody knows."""
    return _end_of(job.job_id) if job.target.url is None else None


# Showing them -----------------------------------------------------------------------------------------


def job_line(job: FoundJob) -> str:
    """One line about a job: when it was started, id, name, state, and where its REST interface is."""
    rest = f" {job.url}" if job.url and job.target.url is None else ""
    over = (
        f" ended {_moment(job.ended)} after {duration((job.ended - job.started) / 1000)}"
        if job.ended > 0
        else ""
    )
    return f"{_moment(job.started)} : {job.job_id} : {job.name} ({job.state}){over}{rest}"


def ended_line(job: HistoryEntry) -> str:
    """One line about a job that is over: as of one that runs, with when and why it ended."""
    reason = f": {job.reason}" if job.reason else ""
    return (
        f"{_moment(job.started)} : {job.job_id} : {job.name} ({job.status}) ended {_moment(job.ended)} after "
        f"{duration(job.seconds)}{reason}"
    )


def _moment(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000).strftime("%d.%m.%Y %H:%M:%S")


def _listed(target: Target) -> str:
    shown = list(_running(found_jobs(target)))
    if not shown:
        return "no job is running; 'firesteel list -a' also shows those that have ended"
    return "\n".join(["running jobs:", *(f"  {job_line(job)}" for job in shown)])


def _running(known: Iterable[FoundJob]) -> Iterator[FoundJob]:
    return (job for job in known if job.ended <= 0)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show what Firesteel raises on purpose as a message."""
    try:
        yield
    except FiresteelError as error:
        raise click.ClickException(str(error)) from error
