"""``firesteel stop``: ends a job of this machine in order, with a savepoint to resume from."""

from __future__ import annotations

import click

from firesteel.checkpoint.storage import absolute
from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.cli.savepoint import report


@click.command(
    short_help="End a job in order, with a savepoint.",
    epilog=examples(
        ("firesteel stop -p /savepoints JOB_ID", "to be resumed with 'firesteel run -s PATH job.py'"),
        ("firesteel stop --drain -p /savepoints JOB_ID", "for good: all windows fire first"),
    ),
)
@click.option(
    "-d",
    "--drain",
    is_flag=True,
    help="Let all windows and timers fire first, as at the end of the input: for jobs that will not be resumed.",
)
@click.option(
    "-p",
    "--savepointPath",
    "directory",
    metavar="DIR",
    help="Directory for the savepoint; without it the configured one.",
)
@click.argument("job_id", required=False)
def stop(drain: bool, directory: str | None, job_id: str | None) -> None:
    """Stop a job with a savepoint. If the savepoint fails the job continues."""
    with plain_errors():
        job = find_job(job_id)
        how = "draining it, with a savepoint" if drain else "with a savepoint"
        click.echo(f'Stopping job "{job.entry.job_id}" {how}.')
        report(job.stop(drain, None if directory is None else absolute(directory)))
