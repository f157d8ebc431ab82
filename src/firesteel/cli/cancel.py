"""``firesteel cancel``: ends a job now, with ``-s`` after a savepoint."""

from __future__ import annotations

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.job_argument import job_argument
from firesteel.cli.running_jobs import FoundJob, find_job, plain_errors, why_gone
from firesteel.cli.savepoint import format_option, report, savepoint_path
from firesteel.cli.target import Target, target_options
from firesteel.rest.client import NotReachableError, RestClient
from firesteel.rest.job_requests import await_end, start_savepoint
from firesteel.rest.job_requests import cancel as cancel_job

_CANCELED = "CANCELED"


@click.command(
    short_help="End a job now.",
    epilog=examples(
        ("firesteel cancel JOB_ID", "end it; the beginning of the id will do"),
        ("firesteel cancel -s /savepoints JOB_ID", "with a savepoint to resume from"),
        ("firesteel cancel -m host:8081 JOB_ID", "on another machine"),
    ),
)
@click.option(
    "-s",
    "--withSavepoint",
    "directory",
    metavar="[DIR]",
    is_flag=False,
    flag_value="",
    help="Take a savepoint first, below DIR or where it is configured; if that fails the job continues.",
)
@format_option
@job_argument
@target_options
def cancel(target: Target, directory: str | None, form: str | None, job_id: str | None) -> None:
    """Cancel a job: end it now, wherever it is in its input."""
    with plain_errors():
        if directory is not None:
            _cancel_with_savepoint(target, directory, form, job_id)
            return
        job = find_job(target, job_id)
        with job.client() as client:
            cancel_job(client, job.job_id)
            state = _end_state(client, job)
        if state != _CANCELED:
            raise click.ClickException(f"job {job.job_id} had ended before it could be cancelled: {state}")
        click.echo(f"Cancelled job {job.job_id}.")


def _end_state(client: RestClient, job: FoundJob) -> str:
    try:
        return await_end(client, job.job_id)
    except NotReachableError:
        # Its program has ended with the job, and so has the process that answered.
        ended = why_gone(job)
        return _CANCELED if ended is None else ended.status


def _cancel_with_savepoint(target: Target, directory: str, form: str | None, job_id: str | None) -> None:
    # As in Flink, -s may stand alone before the job id.
    given, wanted_id = (None, directory) if job_id is None else (directory, job_id)
    job = find_job(target, wanted_id)
    with job.client() as client:
        # The job ends with the savepoint: nothing is committed between the two (rule L23).
        trigger = start_savepoint(client, job.job_id, target.directory(given), True, form or "")
        path = savepoint_path(client, job, trigger)
    click.echo(f"Cancelled job {job.job_id}.")
    report(path)
