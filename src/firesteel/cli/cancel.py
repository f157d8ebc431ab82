"""``firesteel cancel``: ends a job of this machine, with ``-s`` after a savepoint."""

from __future__ import annotations

import click

from firesteel.checkpoint.storage import absolute
from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.cli.savepoint import report


@click.command(
    short_help="End a job now.",
    epilog=examples(
        ("firesteel cancel JOB_ID", "end it; the beginning of the id will do"),
        ("firesteel cancel -s /savepoints JOB_ID", "with a savepoint to resume from"),
    ),
)
@click.option(
    "-s",
    "--withSavepoint",
    "directory",
    metavar="[DIR]",
    help="Take a savepoint first, below DIR or where it is configured; if that fails the job continues.",
)
@click.argument("job_id", required=False)
def cancel(directory: str | None, job_id: str | None) -> None:
    """Cancel a job: end it now, wherever it is in its input."""
    with plain_errors():
        if directory is not None:
            _cancel_with_savepoint(directory, job_id)
            return
        job = find_job(job_id)
        status = job.cancel()
        if status != "CANCELED":
            raise click.ClickException(
                f"job {job.entry.job_id} had ended before it could be cancelled: {status}"
            )
        click.echo(f"Cancelled job {job.entry.job_id}.")


def _cancel_with_savepoint(directory: str, job_id: str | None) -> None:
    # As in Flink, -s may stand alone before the job id.
    target, wanted_id = (None, directory) if job_id is None else (absolute(directory), job_id)
    job = find_job(wanted_id)
    # Nothing may be committed between the savepoint and the end (rule L23), so this is a stop.
    path = job.stop(drain=False, directory=target)
    click.echo(f"Cancelled job {job.entry.job_id}.")
    report(path)
