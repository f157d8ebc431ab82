"""``firesteel savepoint``: takes a savepoint of a job, or disposes of one."""

from __future__ import annotations

import click

from firesteel.checkpoint.storage import absolute
from firesteel.checkpoint.stored_checkpoint import dispose
from firesteel.cli.help_texts import examples
from firesteel.cli.job_argument import job_argument
from firesteel.cli.running_jobs import FoundJob, ended_line, find_job, plain_errors, why_gone
from firesteel.cli.target import Target, target_options
from firesteel.rest.client import NotReachableError, RestClient
from firesteel.rest.job_requests import DISPOSALS, savepoints_of, start_disposal, start_savepoint

__all__ = ["detached_option", "format_option", "report", "savepoint", "savepoint_path", "tell_trigger"]

format_option = click.option(
    "-type",
    "--type",
    "form",
    type=click.Choice(["canonical", "native"], case_sensitive=False),
    callback=lambda context, option, value: value and value.upper(),
    help="Format of the savepoint; there is one, canonical.",
)
detached_option = click.option(
    "-detached",
    "--detached",
    "detached",
    is_flag=True,
    help="Do not wait: print the trigger id, with which it can be asked for over REST.",
)


@click.command(
    short_help="Take a savepoint of a running job, or delete one.",
    epilog=examples(
        ("firesteel savepoint JOB_ID", "where 'execution.checkpointing.savepoint-dir' says"),
        ("firesteel savepoint JOB_ID /savepoints", "below a directory"),
        ("firesteel savepoint -d /savepoints/savepoint-f0ee1b-1c54689e4731", "delete one"),
    ),
)
@click.option(
    "-d",
    "--dispose",
    "disposed",
    metavar="PATH",
    help="Delete the savepoint at PATH; with -m the service deletes it, on its machine.",
)
@format_option
@detached_option
@job_argument
@click.argument("directory", required=False)
@target_options
def savepoint(
    target: Target,
    disposed: str | None,
    form: str | None,
    detached: bool,
    job_id: str | None,
    directory: str | None,
) -> None:
    """Take a savepoint of a job, below DIRECTORY or where it is configured. The job continues."""
    with plain_errors():
        if disposed is not None:
            if job_id is not None:
                raise click.UsageError(f"-d takes one path and no job; what is {job_id!r}?")
            _dispose(target, disposed)
            click.echo(f"Savepoint '{disposed}' disposed.")
            return
        job = find_job(target, job_id)
        with job.client() as client:
            click.echo(f"Triggering savepoint for job {job.job_id}.")
            trigger = start_savepoint(client, job.job_id, target.directory(directory), form=form or "")
            if detached:
                tell_trigger(job, trigger)
            else:
                report(savepoint_path(client, job, trigger))


def _dispose(target: Target, path: str) -> None:
    if target.url is None:
        dispose(absolute(path))
        return
    with target.client(target.url) as client:
        client.outcome(DISPOSALS, start_disposal(client, target.directory(path) or path))


def savepoint_path(client: RestClient, job: FoundJob, trigger_id: str) -> str:
    """Wait for a savepoint that was started; its path."""
    try:
        return str(client.outcome(savepoints_of(job.job_id), trigger_id)["location"])
    except NotReachableError as error:
        ended = why_gone(job)
        if ended is None:
            raise
        raise click.ClickException(
            f"the driver of job {job.job_id} has ended before it said where the savepoint is:\n  {ended_line(ended)}"
        ) from error


def report(path: str) -> None:
    """Say where a savepoint is and what it is good for."""
    click.echo(f"Savepoint completed. Path: {path}")
    click.echo("A program resumes from here with: firesteel run -s PATH PROGRAM")


def tell_trigger(job: FoundJob, trigger_id: str) -> None:
    """Say how to ask for something that was started."""
    click.echo(f"It has begun, with trigger id {trigger_id}. What becomes of it:")
    click.echo(f"  curl {job.url}{savepoints_of(job.job_id)}/{trigger_id}")
