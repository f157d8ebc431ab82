"""``firesteel modify``: gives a running job another parallelism."""

from __future__ import annotations

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.job_argument import job_argument
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.cli.target import Target, target_options
from firesteel.rest.job_requests import rescaling_of, start_rescaling


@click.command(
    short_help="Give a running job another parallelism.",
    epilog=examples(("firesteel modify JOB_ID -p 4", "run it with four subtasks of each operator")),
)
@click.option(
    "-p",
    "--parallelism",
    metavar="N",
    type=click.IntRange(min=1),
    required=True,
    help="The new parallelism.",
)
@job_argument
@target_options
def modify(target: Target, parallelism: int, job_id: str | None) -> None:
    """Change the parallelism of a job while it runs. If that fails, the job continues as it was."""
    with plain_errors():
        job = find_job(target, job_id)
        click.echo(f"Modifying job {job.job_id}.")
        with job.client() as client:
            client.outcome(rescaling_of(job.job_id), start_rescaling(client, job.job_id, parallelism))
        click.echo(f"Rescaled job {job.job_id}. Its new parallelism is {parallelism}.")
