"""``firesteel savepoint``: takes a savepoint of a job of this machine, or disposes of one."""

from __future__ import annotations

import click

from firesteel.checkpoint.storage import absolute
from firesteel.checkpoint.stored_checkpoint import dispose
from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import find_job, plain_errors


@click.command(
    short_help="Take a savepoint of a running job, or delete one.",
    epilog=examples(
        ("firesteel savepoint JOB_ID", "where 'execution.checkpointing.savepoint-dir' says"),
        ("firesteel savepoint JOB_ID /savepoints", "below a directory"),
        ("firesteel savepoint -d /savepoints/savepoint-f0ee1b-1c54689e4731", "delete one"),
    ),
)
@click.option("-d", "--dispose", "disposed", metavar="PATH", help="Delete the savepoint at PATH.")
@click.argument("job_id", required=False)
@click.argument("directory", required=False)
def savepoint(disposed: str | None, job_id: str | None, directory: str | None) -> None:
    """Take a savepoint of a job, below DIRECTORY or where it is configured. The job continues."""
    with plain_errors():
        if disposed is not None:
            if job_id is not None:
                raise click.UsageError(f"-d takes one path and no job; what is {job_id!r}?")
            dispose(absolute(disposed))
            click.echo(f"Savepoint '{disposed}' disposed.")
            return
        job = find_job(job_id)
        click.echo(f"Triggering savepoint for job {job.entry.job_id}.")
        report(job.savepoint(None if directory is None else absolute(directory)))


def report(path: str) -> None:
    """Say where a savepoint is and what it is good for."""
    click.echo(f"Savepoint completed. Path: {path}")
    click.echo("A program resumes from here with: firesteel run -s PATH PROGRAM")
