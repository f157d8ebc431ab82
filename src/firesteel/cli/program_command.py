"""What all commands that run a program share: Flink's spellings, and where the program's own arguments begin.

Flink writes long options with one dash (``-pyfs``) and stops reading options at the program or, after
``-py``, at the first thing it does not know. Everything from there on belongs to the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from firesteel.checkpoint.storage import absolute
from firesteel.cli.program import Program
from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import (
    CHECKPOINTING_RESUME,
    PARALLELISM_DEFAULT,
    PYTHON_ARCHIVES,
    PYTHON_CLIENT_EXECUTABLE,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_PATH,
    PYTHON_REQUIREMENTS,
    SAVEPOINT_CLAIM_MODE,
    SAVEPOINT_IGNORE_UNCLAIMED,
    SAVEPOINT_PATH,
    SPARK_MASTER,
)
from firesteel.datastream._given_options import checked, configured_options
from firesteel.spark.master_url import check_form

F = TypeVar("F", bound=Callable[..., Any])

#: Keys in a click context's ``meta``: the command's own options as given, and everything after them.
OWN_ARGUMENTS = "firesteel.own_arguments"
PROGRAM_ARGUMENTS = "firesteel.program_arguments"
_WHICH_PROGRAM = "which program? give a Python file, or -pym and a module"
_USAGE_ERROR = 2
_NAMES_PROGRAM = ("-py", "--python", "-pym", "--pyModule")


class ProgramCommand(click.Command):
    """A command whose own options end where the program's arguments begin."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``--`` where the program begins, then parse as usual. Without a word: the help, and still a mistake."""
        if not args and not ctx.resilient_parsing:
            click.echo(f"{ctx.get_help()}\n\nError: {_WHICH_PROGRAM}", err=True)
            ctx.exit(_USAGE_ERROR)
        end = self._end_of_options(ctx, args)
        rest = args[end + 1 :] if args[end : end + 1] == ["--"] else args[end:]
        ctx.meta[OWN_ARGUMENTS] = tuple(args[:end])
        ctx.meta[PROGRAM_ARGUMENTS] = tuple(rest)
        return super().parse_args(ctx, [*args[:end], "--", *rest])

    def _end_of_options(self, ctx: click.Context, args: Sequence[str]) -> int:
        takes_value = {
            name: not option.is_flag
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
            for name in option.opts
        }
        program_named = False
        position = 0
        while position < len(args):
            argument = args[position]
            if argument == "--" or not argument.startswith("-"):
                break
            name, equals, _ = argument.partition("=")
            if name in takes_value:
                program_named |= name in _NAMES_PROGRAM
                position += 1 if equals or not takes_value[name] else 2
            elif takes_value.get(argument[:2]):  # -p4, -Dkey=value
                position += 1
            elif (
                program_named or ctx.resilient_parsing
            ):  # a shell that completes asks with what there is so far
                break
            else:
                raise click.NoSuchOption(name, possibilities=_similar(name, takes_value), ctx=ctx)
        return min(position, len(args))


def _similar(name: str, known: Any) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, list(known))


def _complete_file(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


_program_arguments = click.argument(
    "arguments",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[PROGRAM] [ARGUMENTS]...",
    shell_complete=_complete_file,
)


#: What a job starts from.
_FROM_SAVED_STATE: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-s",
        "--fromSavepoint",
        "savepoint",
        metavar="PATH",
        help="Savepoint or retained checkpoint to start from.",
    ),
    click.option(
        "-n",
        "--allowNonRestoredState",
        "allow_non_restored",
        is_flag=True,
        help="Drop state of operators that the program no longer has.",
    ),
    click.option(
        "-cm",
        "--claimMode",
        "claim_mode",
        metavar="MODE",
        help="Whose the savepoint is then: NO_CLAIM, yours, which is all there is.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Resume from the newest checkpoint of an earlier run of the same job, if there is one.",
    ),
)


def program_options(command: F) -> F:
    """The options and arguments that name a program and configure its job."""
    decorators: list[Callable[[Any], Any]] = [
        click.option(
            "-p", "--parallelism", type=click.IntRange(min=1), help="Default parallelism of the job."
        ),
        click.option(
            "-m", "--master", metavar="URL", help="Spark master, or host:port of a service; else embedded."
        ),
        click.option("-D", "definitions", metavar="KEY=VALUE", multiple=True, help="Any option, repeatable."),
        click.option(
            "-pyfs", "--pyFiles", "python_files", help="Python files for the workers, comma separated."
        ),
        click.option(
            "-pyreq", "--pyRequirements", "requirements", help="requirements.txt[#directory] for the workers."
        ),
        click.option(
            "-pyarch", "--pyArchives", "archives", help="Archives for the workers, comma separated."
        ),
        click.option("-pyexec", "--pyExecutable", "executable", help="Python interpreter of the workers."),
        click.option(
            "-pyclientexec",
            "--pyClientExecutable",
            "client_executable",
            help="Python interpreter of the program itself.",
        ),
        click.option(
            "-pypath", "--pyPythonPath", "python_path", help="Directories on the workers to import from."
        ),
        click.option(
            "-py", "--python", "script", metavar="FILE", help="The program, if it is not the first argument."
        ),
        click.option("-pym", "--pyModule", "module", help="The program as a module."),
        *_FROM_SAVED_STATE,
        click.option("--pyflink", is_flag=True, help="'import pyflink' in the program means Firesteel."),
        click.option("--in-client-executable", is_flag=True, hidden=True),
        _program_arguments,
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def program_of(
    script: str | None, module: str | None, pyflink: bool, arguments: Sequence[str], python_files: str | None
) -> Program:
    """The program that the command line names."""
    if script and module:
        raise click.UsageError("-py names a file and -pym a module: give one of them")
    if script is None and module is None:
        if not arguments:
            raise click.UsageError(_WHICH_PROGRAM)
        script, *arguments = arguments
    if script is not None and not os.path.exists(script):
        raise click.UsageError(f"there is no program {script!r}")
    return Program(script, module, tuple(arguments), pyflink, tuple(_listed(python_files)))


def options_of(
    parallelism: int | None,
    master: str | None,
    definitions: Sequence[str],
    python_files: str | None,
    requirements: str | None,
    archives: str | None,
    executable: str | None,
    client_executable: str | None,
    python_path: str | None,
    savepoint: str | None,
    allow_non_restored: bool,
    claim_mode: str | None,
    resume: bool,
) -> dict[str, Any]:
    """The job options that the command line sets, checked; later ``-D`` win over earlier ones."""
    given: dict[str, Any] = {
        PARALLELISM_DEFAULT.key: parallelism,
        SPARK_MASTER.key: master,
        PYTHON_FILES.key: _listed(python_files) or None,
        PYTHON_REQUIREMENTS.key: requirements,
        PYTHON_ARCHIVES.key: _listed(archives) or None,
        PYTHON_EXECUTABLE.key: executable,
        PYTHON_CLIENT_EXECUTABLE.key: client_executable,
        PYTHON_PATH.key: python_path,
        SAVEPOINT_PATH.key: None if savepoint is None else absolute(savepoint),
        SAVEPOINT_IGNORE_UNCLAIMED.key: allow_non_restored or None,
        SAVEPOINT_CLAIM_MODE.key: claim_mode,
        CHECKPOINTING_RESUME.key: resume or None,
    }
    options = {key: value for key, value in given.items() if value is not None}
    options.update(definition(text) for text in definitions)
    try:
        given_options = checked(Configuration.from_dict(options))
        check_form(given_options.get(SPARK_MASTER))
        configured_options()  # so that a mistake in the configuration file shows before the program runs
    except InvalidOptionError as error:
        raise click.UsageError(str(error)) from error
    return options


def definition(text: str) -> tuple[str, str]:
    """The key and the value of a ``-D``."""
    key, equals, value = text.partition("=")
    if not key:
        raise click.UsageError(f"-D expects key=value, got {text!r}")
    return key.strip(), value if equals else "true"  # as in Flink: a key alone is switched on


def _listed(text: str | None) -> list[str]:
    return [item for item in (text or "").split(",") if item]
