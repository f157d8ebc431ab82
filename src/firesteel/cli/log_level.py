"""``firesteel log-level``: shows and changes levels of loggers in the driver and all tasks of jobs that run."""

from __future__ import annotations

from typing import Any

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.cli.target import Target, target_options
from firesteel.common.errors import InvalidOptionError
from firesteel.logs.levels import parse_level

_PATH = "/log-levels"
_ROOT = "root"


@click.command(
    "log-level",
    short_help="Show or change what a running job logs.",
    epilog=examples(
        ("firesteel log-level JOB_ID", "the loggers that have a level"),
        ("firesteel log-level JOB_ID orders DEBUG", "from now on, in the driver and all tasks"),
        ("firesteel log-level JOB_ID orders default", "that of the logger above it again"),
        ("firesteel log-level JOB_ID root INFO", "of all loggers without a level of their own"),
    ),
)
@click.argument("job_id")
@click.argument("logger", required=False)
@click.argument("level", required=False)
@target_options
def log_level(target: Target, job_id: str, logger: str | None, level: str | None) -> None:
    """Show the levels of a job's loggers, or change one while it runs.

    The level counts for all jobs of the same driver, until it ends. In a cluster service every program has a driver of its own.
    """
    if logger is not None and level is None:
        raise click.UsageError(f"which level? as in: firesteel log-level {job_id} {logger} DEBUG")
    body: dict[str, Any] | None = None
    if logger is not None and level is not None:
        body = {"logger": "" if logger == _ROOT else logger, "level": _checked(level)}
    with plain_errors():
        job = find_job(target, job_id)
        with job.client() as client:
            answer = client.request("GET" if body is None else "PUT", _PATH, {"jobs": job.job_id}, body)
    for each in answer["loggers"]:
        click.echo(f"{each['level']:<8} {each['logger'] or _ROOT}")


def _checked(level: str) -> str | None:
    if level.lower() == "default":
        return None
    try:
        parse_level(level)
    except InvalidOptionError as error:
        raise click.BadParameter(f"{error}; 'default' takes the level away") from None
    return level.upper()
