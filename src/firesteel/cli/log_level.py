"""``firesteel log-level``: shows and changes levels of loggers in the driver and all tasks of jobs that run."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.common.errors import InvalidOptionError
from firesteel.logs.levels import parse_level

_SECONDS = 10.0
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
def log_level(job_id: str, logger: str | None, level: str | None) -> None:
    """Show the levels of a job's loggers, or change one while it runs.

    The level counts for all jobs of the same driver, until it ends.
    """
    if logger is not None and level is None:
        raise click.UsageError(f"which level? as in: firesteel log-level {job_id} {logger} DEBUG")
    body: dict[str, Any] | None = None
    if logger is not None and level is not None:
        body = {"logger": "" if logger == _ROOT else logger, "level": _checked(level)}
    with plain_errors():
        entry = find_job(job_id).entry
    if not entry.rest:
        raise click.ClickException(
            f"job {entry.job_id} has no REST interface, by which levels are changed: its driver was started with 'rest.port: "
            "-1', or no port was free"
        )
    for each in _ask(f"{entry.rest}/log-levels", body)["loggers"]:
        click.echo(f"{each['level']:<8} {each['logger'] or _ROOT}")


def _checked(level: str) -> str | None:
    if level.lower() == "default":
        return None
    try:
        parse_level(level)
    except InvalidOptionError as error:
        raise click.BadParameter(f"{error}; 'default' takes the level away") from None
    return level.upper()


def _ask(url: str, body: dict[str, Any] | None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, method="GET" if body is None else "PUT")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        raise click.ClickException(
            f"{url} answers {error.code}: {error.read().decode(errors='replace')}"
        ) from error
    except OSError as error:
        raise click.ClickException(f"{url} does not answer: {error}") from error
