"""``firesteel top``: a live view of jobs and their operators at a terminal."""

from __future__ import annotations

import os
import shutil
import sys

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.job_argument import job_argument
from firesteel.cli.live_view.keys import View
from firesteel.cli.live_view.lines import Picture, picture_lines
from firesteel.cli.live_view.sampler import Samples
from firesteel.cli.running_jobs import find_job, plain_errors
from firesteel.cli.target import Target, target_options

#: What is read by a program has no end at the right, and no bottom.
_NO_LIMIT = 100_000
_ID_DIGITS = 32


@click.command(
    short_help="Watch jobs: rates, back pressure, lag, checkpoints.",
    epilog=examples(
        ("firesteel top", "the jobs of this machine; enter opens one, ? shows the keys, q leaves"),
        ("firesteel top JOB_ID", "one job, operator by operator"),
        ("firesteel top -m host:8081", "the jobs of a driver or service"),
        ("firesteel top --once > jobs.txt", "once, as plain text"),
    ),
)
@click.option("--once", is_flag=True, help="Print it once, without control characters, also to a pipe.")
@click.option(
    "-i",
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="How often to ask.",
)
@job_argument
@target_options
def top(target: Target, once: bool, interval: float, job_id: str | None) -> None:
    """Watch the jobs of this machine, or of the service that -m names; with JOB_ID one of them.

    Rates are records per second: into the sources and to the sinks of a job, in and out of an operator.
    """
    with plain_errors():
        opened = find_job(target, job_id).job_id if job_id else ""
    samples = Samples(target, opened)
    view = View(opened=opened, chosen=opened)
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        _print(samples, view)
        return
    from firesteel.cli.live_view.screen import show  # late: it needs a terminal's modules

    show(samples, interval, view)


def _print(samples: Samples, view: View) -> None:
    try:
        taken = samples.take()
    finally:
        samples.close()
    if taken.problem:
        raise click.ClickException(taken.problem)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _NO_LIMIT
    shown = Picture(taken.jobs, (), taken.where, taken.moment, id_digits=_ID_DIGITS)
    for line in picture_lines(shown, view, width, _NO_LIMIT)[1:]:
        click.echo(line.text.rstrip())
