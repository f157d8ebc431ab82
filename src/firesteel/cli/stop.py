"""``firesteel stop``: ends a job in order, with a savepoint to resume from."""

from __future__ import annotations

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.job_argument import job_argument
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.cli.savepoint import detached_option, format_option, report, savepoint_path, tell_trigger
from firesteel.cli.target import Target, target_options
from firesteel.rest.job_requests import start_stop


@click.command(
    short_help="End a job in order, with a savepoint.",
    epilog=examples(
        ("firesteel stop -p /savepoints JOB_ID", "to be resumed with 'firesteel run -s PATH job.py'"),
        ("firesteel stop --drain -p /savepoints JOB_ID", "for good: all windows fire first"),
        ("firesteel stop -m host:8081 JOB_ID", "on another machine"),
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
    metavar="[DIR]",
    is_flag=False,
    flag_value="",
    help="Directory for the savepoint; without it the configured one.",
)
@format_option
@detached_option
@job_argument
@target_options
def stop(
    target: Target, drain: bool, directory: str | None, form: str | None, detached: bool, job_id: str | None
) -> None:
    """Stop a job with a savepoint. If the savepoint fails the job continues."""
    with plain_errors():
        if job_id is None and directory:  # as in Flink, -p may stand alone before the job id
            directory, job_id = None, directory
        job = find_job(target, job_id)
        with job.client() as client:
            how = "draining it, with a savepoint" if drain else "with a savepoint"
            click.echo(f'Stopping job "{job.job_id}" {how}.')
            trigger = start_stop(client, job.job_id, target.directory(directory), drain, form or "")
            if detached:
                tell_trigger(job, trigger)
            else:
                report(savepoint_path(client, job, trigger))
