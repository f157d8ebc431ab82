"""``firesteel checkpoint``: takes a checkpoint of a job before the next one is due."""

from __future__ import annotations

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.job_argument import job_argument
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.cli.target import Target, target_options
from firesteel.rest.client import RequestRefusedError, RestClient
from firesteel.rest.job_requests import checkpoints_of, start_checkpoint


@click.command(
    short_help="Take a checkpoint of a running job now.",
    epilog=examples(
        ("firesteel checkpoint JOB_ID", "as the job's options say"),
        ("firesteel checkpoint -full JOB_ID", "with all of its state, also if checkpoints are incremental"),
    ),
)
@click.option("-full", "--full", "full", is_flag=True, help="With all state, not only what has changed.")
@click.option(
    "--incremental",
    is_flag=True,
    help="With what has changed; only of jobs whose checkpoints are incremental anyway.",
)
@job_argument
@target_options
def checkpoint(target: Target, full: bool, incremental: bool, job_id: str | None) -> None:
    """Take a checkpoint of a job. The job continues, and the checkpoint is one of its own."""
    if full and incremental:
        raise click.UsageError("-full and --incremental exclude each other")
    kind = "FULL" if full else "INCREMENTAL" if incremental else "CONFIGURED"
    with plain_errors():
        job = find_job(target, job_id)
        with job.client() as client:
            click.echo(f"Triggering checkpoint for job {job.job_id}.")
            trigger = start_checkpoint(client, job.job_id, kind)
            number = client.outcome(checkpoints_of(job.job_id), trigger)["checkpointId"]
            path = _path(client, job.job_id, number)
    shown = "" if kind == "CONFIGURED" else f"({kind})"
    click.echo(f"Checkpoint{shown} {number} for job {job.job_id} completed.{path}")


def _path(client: RestClient, job_id: str, number: int) -> str:
    try:
        path = client.get(f"{checkpoints_of(job_id)}/details/{number}").get("external_path")
    except RequestRefusedError:  # newer ones have taken its place
        return ""
    return f" Path: {path}" if path else ""
