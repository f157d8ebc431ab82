"""``firesteel list``: the jobs that run on this machine."""

from __future__ import annotations

import click

from firesteel.cli.running_jobs import job_line
from firesteel.jobmaster.running_job import running_jobs

_SCHEDULED = "CREATED"


@click.command("list")
@click.option("-r", "--running", "only_running", is_flag=True, help="Only jobs that run.")
@click.option("-s", "--scheduled", "only_scheduled", is_flag=True, help="Only jobs that wait to run.")
@click.option(
    "-a", "--all", "everything", is_flag=True, help="All that is known: jobs that run and that wait."
)
def list_jobs(only_running: bool, only_scheduled: bool, everything: bool) -> None:
    """List the jobs that run on this machine, with their ids and states."""
    jobs = running_jobs()
    both = everything or only_running == only_scheduled
    groups = [("running", False)] * (both or only_running) + [("scheduled", True)] * (both or only_scheduled)
    for name, is_scheduled in groups:
        lines = [job_line(job, status) for job, status in jobs if (status == _SCHEDULED) == is_scheduled]
        click.echo("\n".join([f"{name.capitalize()} jobs:", *lines]) if lines else f"No {name} jobs.")
