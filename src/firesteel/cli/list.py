"""``firesteel list``: the jobs that run on this machine, and those that have ended."""

from __future__ import annotations

from collections.abc import Callable

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import ended_line, job_line
from firesteel.common.errors import JobExecutionError
from firesteel.jobmaster.remote.history import KEPT_DAYS, KEPT_JOBS, ended_jobs
from firesteel.jobmaster.remote.running_job import NotAnsweringError, RunningJob, running_jobs

_SCHEDULED = "CREATED"


@click.command(
    "list",
    short_help="List jobs: what runs, what has ended and why.",
    epilog=examples(
        ("firesteel list", "what runs"),
        ("firesteel list -a", "what has ended, too: when, how and why"),
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
    f"(the last {KEPT_JOBS}, for {KEPT_DAYS} days).",
)
@click.option("-t", "--tasks", "with_tasks", is_flag=True, help="With the states of their tasks.")
@click.option("--metrics", "with_metrics", is_flag=True, help="With the metrics of their functions.")
def list_jobs(
    only_running: bool, only_scheduled: bool, everything: bool, with_tasks: bool, with_metrics: bool
) -> None:
    """List the jobs that run on this machine, with their ids and states.

    Those of 'firesteel run' are found, and those of 'python job.py'.
    """
    jobs = running_jobs()
    both = everything or only_running == only_scheduled
    groups = [("running", False)] * (both or only_running) + [("scheduled", True)] * (both or only_scheduled)
    for name, is_scheduled in groups:
        listed = [(job, status) for job, status in jobs if (status == _SCHEDULED) == is_scheduled]
        _show(
            name,
            [
                line
                for job, status in listed
                for line in [
                    job_line(job, status),
                    *(_answer(_task_lines, job) if with_tasks else []),
                    *(_answer(_metric_lines, job) if with_metrics else []),
                ]
            ],
        )
    if everything:
        _show("ended", [ended_line(job) for job in ended_jobs()])


def _show(name: str, lines: list[str]) -> None:
    click.echo("\n".join([f"{name.capitalize()} jobs:", *lines]) if lines else f"No {name} jobs.")


def _answer(ask: Callable[[RunningJob], list[str]], job: RunningJob) -> list[str]:
    try:
        return ask(job)
    except NotAnsweringError:  # it has ended meanwhile, or is very busy
        return []
    except JobExecutionError as error:  # a job of another version may not know the question
        return [f"  {error}"]


def _task_lines(job: RunningJob) -> list[str]:
    return [f"  {state:<12} {name}{f' {where}' if where else ''}" for name, state, where in job.tasks()]


def _metric_lines(job: RunningJob) -> list[str]:
    return [f"  {operator}: {name} {value}" for operator, name, value in job.metrics()]
