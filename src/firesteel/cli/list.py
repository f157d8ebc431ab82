"""``firesteel list``: the jobs that run, and those that have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.job_details import metric_lines, task_lines
from firesteel.cli.running_jobs import FoundJob, ended_line, found_jobs, job_line, plain_errors
from firesteel.cli.target import Target, target_options
from firesteel.jobmaster.remote.history import KEPT_DAYS, KEPT_JOBS, ended_jobs
from firesteel.rest.client import RestClient, RestClientError
from firesteel.rest.job_requests import is_over

Details = Callable[[RestClient, str], list[str]]

_SCHEDULED = ("CREATED", "INITIALIZING")


@click.command(
    "list",
    short_help="List jobs: what runs, what has ended and why.",
    epilog=examples(
        ("firesteel list", "what runs"),
        ("firesteel list -a", "what has ended, too: when, how and why"),
        ("firesteel list -m host:8081", "the jobs of a driver or service, also on another machine"),
        ("firesteel list --tasks", "with the state of every task"),
        ("firesteel list --metrics", "with what functions have counted"),
    ),
)
@click.option("-r", "--running", "only_running", is_flag=True, help="Only jobs that run.")
@click.option("-s", "--scheduled", "only_scheduled", is_flag=True, help="Only jobs that wait to run.")
@click.option(
    "-a",
    "--all",
    "everything",
    is_flag=True,
    help="All that is known: jobs that run, that wait, and that have ended "
    f"(on this machine the last {KEPT_JOBS}, for {KEPT_DAYS} days).",
)
@click.option("-t", "--tasks", "with_tasks", is_flag=True, help="With the states of their tasks.")
@click.option("--metrics", "with_metrics", is_flag=True, help="With the metrics of their functions.")
@target_options
def list_jobs(
    target: Target,
    only_running: bool,
    only_scheduled: bool,
    everything: bool,
    with_tasks: bool,
    with_metrics: bool,
) -> None:
    """List jobs with their ids and states: those of this machine, or of the service that -m names.

    Those of 'firesteel run' are found, and those of 'python job.py'.
    """
    with plain_errors():
        jobs = found_jobs(target)
    both = everything or only_running == only_scheduled
    details: list[Details] = [task_lines] if with_tasks else []
    details += [metric_lines] if with_metrics else []
    groups = {"running": both or only_running, "scheduled": both or only_scheduled, "ended": everything}
    by_group = _by_group(jobs)
    for name in (name for name, is_wanted in groups.items() if is_wanted):
        lines = [line for job in by_group[name] for line in _lines(job, details if name == "running" else [])]
        if name == "ended" and target.url is None:
            lines = [ended_line(job) for job in ended_jobs()]
        click.echo("\n".join([f"{name.capitalize()} jobs:", *lines]) if lines else f"No {name} jobs.")


def _by_group(jobs: list[FoundJob]) -> Mapping[str, list[FoundJob]]:
    groups: dict[str, list[FoundJob]] = {"running": [], "scheduled": [], "ended": []}
    for job in jobs:
        name = "scheduled" if job.state in _SCHEDULED else "ended" if is_over(job.state) else "running"
        groups[name].append(job)
    return groups


def _lines(job: FoundJob, details: list[Details]) -> list[str]:
    lines = [job_line(job)]
    if job.problem:
        lines.append(f"  {job.problem}")
    elif details and job.url:
        try:
            with job.client() as client:
                lines += [f"  {line}" for asked in details for line in asked(client, job.job_id)]
        except RestClientError as error:  # it has ended meanwhile, or is very busy
            lines.append(f"  {error}")
    return lines
