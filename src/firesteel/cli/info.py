"""``firesteel info``: shows how the jobs of a program would run, without running them.

The program itself runs to its end. Each of its jobs is shown and then counts as finished, with no results.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import click

from firesteel import launch
from firesteel.cli.client_executable import switch_interpreter
from firesteel.cli.empty_run import EmptyRun
from firesteel.cli.help_texts import examples
from firesteel.cli.program import Program
from firesteel.cli.program_command import ProgramCommand, options_of, program_of, program_options
from firesteel.cli.tracebacks import format_error
from firesteel.common.configuration import Configuration
from firesteel.compiler.compile import compile_job
from firesteel.compiler.settings import read_settings
from firesteel.graph import render as graph_render
from firesteel.plan import render as plan_render

#: Settings of what a job leaves behind and resumes from: one that does not run does neither.
_LASTING = (
    "execution.checkpointing.",
    "execution.savepoint.",
    "execution.state-recovery.",
    "state.checkpoints.",
    "state.savepoints.",
)


@click.command(
    cls=ProgramCommand,
    short_help="Show the plans of a program's jobs without running them.",
    epilog=examples(
        ("firesteel info job.py", "stages, chains, parallelism, distributions"),
        ("firesteel info --format mermaid job.py > plan.mmd", "the same as a diagram"),
    ),
)
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
    in_client_executable: bool,
    arguments: tuple[str, ...],
    **settings: Any,
) -> None:
    """Show the plans of a program's jobs without running them.

    The program itself runs to its end; a job counts as finished, without results, as soon as it is shown.
    """
    options = options_of(**settings)
    switch_interpreter(context, options, in_client_executable)
    program = program_of(script, module, pyflink, arguments, settings["python_files"])
    shown = _ShownJobs(form)
    try:
        _run(program, options, shown)
    except KeyboardInterrupt:
        context.exit(130)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the program raises is shown
        if not shown.count:
            context.exit(_failed(error))
        click.echo(f"the program failed after {shown.count} jobs, which give no results here:", err=True)
        click.echo(format_error(error), err=True, nl=False)
    if not shown.count:
        click.echo("the program ended without calling execute(): there is no plan", err=True)
        context.exit(1)


class _ShownJobs:
    """Shows each job as it is submitted; from the second one on with a blank line before it."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._output = sys.stdout
        self.count = 0

    def show(self, submission: launch.Submission) -> launch.Submission:
        """Show a job, and let it be over at once."""
        text = _shown(submission, self._form).rstrip("\n")
        self.count += 1
        click.echo(text if self.count == 1 else f"\n{text}", file=self._output)
        values: dict[str, Any] = {}
        submission.configuration.add_all_to_dict(values)
        settings = {key: value for key, value in values.items() if not key.startswith(_LASTING)}
        return replace(submission, configuration=Configuration.from_dict(settings), executor=EmptyRun)


def _run(program: Program, options: dict[str, Any], shown: _ShownJobs) -> None:
    # Only plans go to standard output, so that they can be piped.
    with launch.intercept(shown.show), redirect_stdout(sys.stderr):
        try:
            program.run(options)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise


def _failed(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        raise error
    click.echo(format_error(error), err=True, nl=False)
    return 1


def _shown(submission: launch.Submission, form: str) -> str:
    graph, configuration = submission.graph, submission.configuration
    if form == "json":
        return graph_render.to_json(graph, read_settings(configuration).parallelism)
    plan = compile_job(graph, configuration, submission.job_name)
    return plan_render.to_mermaid(plan) if form == "mermaid" else plan_render.to_text(plan)
