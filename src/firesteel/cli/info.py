"""``firesteel info``: shows how a program would run, without running it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

import click

from firesteel import launch
from firesteel.cli.program import Program
from firesteel.cli.program_command import ProgramCommand, options_of, program_of, program_options
from firesteel.cli.tracebacks import format_error
from firesteel.compiler.compile import compile_job
from firesteel.compiler.settings import read_settings
from firesteel.graph import render as graph_render
from firesteel.plan import render as plan_render


@click.command(cls=ProgramCommand)
@program_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "json"]),
    default="text",
    help="How to show it; json is Flink's execution plan.",
)
@click.pass_context
def info(
    context: click.Context,
    /,
    form: str,
    script: str | None,
    module: str | None,
    pyflink: bool,
    arguments: tuple[str, ...],
    **settings: Any,
) -> None:
    """Show the plan of a program's first job."""
    options = options_of(**settings)
    program = program_of(script, module, pyflink, arguments, settings["python_files"])
    try:
        submission = _submission_of(program, options)
        text = None if submission is None else _shown(submission, form)
    except KeyboardInterrupt:
        context.exit(130)
    except Exception as error:  # noqa: BLE001 - whatever the program raises is shown
        click.echo(format_error(error), err=True, nl=False)
        context.exit(1)
    if text is None:
        click.echo("the program ended without calling execute(): there is no plan", err=True)
        context.exit(1)
    click.echo(text.rstrip("\n"))


class _Submitted(BaseException):
    """Ends the program where it submits its job; no program catches this by accident."""

    def __init__(self, submission: launch.Submission) -> None:
        self.submission = submission


def _submission_of(program: Program, options: dict[str, Any]) -> launch.Submission | None:
    def take(submission: launch.Submission) -> None:
        raise _Submitted(submission)

    try:
        # Only the plan goes to standard output, so that it can be piped.
        with launch.intercept(take), redirect_stdout(sys.stderr):
            program.run(options)
    except _Submitted as submitted:
        return submitted.submission
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return None


def _shown(submission: launch.Submission, form: str) -> str:
    graph, configuration = submission.graph, submission.configuration
    if form == "json":
        return graph_render.to_json(graph, read_settings(configuration).parallelism)
    plan = compile_job(graph, configuration, submission.job_name)
    return plan_render.to_mermaid(plan) if form == "mermaid" else plan_render.to_text(plan)
