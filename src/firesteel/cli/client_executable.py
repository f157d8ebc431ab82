"""``-pyclientexec``: the same command again, in the Python interpreter that the program wants to run in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import click

from firesteel.cli.program_command import OWN_ARGUMENTS, PROGRAM_ARGUMENTS
from firesteel.common.options import PYTHON_CLIENT_EXECUTABLE
from firesteel.datastream._given_options import configured_options

__all__ = ["switch_interpreter"]


def switch_interpreter(context: click.Context, options: Mapping[str, Any], is_there: bool) -> None:
    """Continue in the interpreter that the options name, unless that is this one (``is_there``: known to be)."""
    executable = options.get(PYTHON_CLIENT_EXECUTABLE.key) or configured_options().get(
        PYTHON_CLIENT_EXECUTABLE
    )
    if not executable or is_there:
        return
    path = shutil.which(os.path.expanduser(executable))
    if path is None:
        raise click.UsageError(f"-pyclientexec: there is no Python interpreter {executable!r}")
    if os.path.abspath(path) == os.path.abspath(sys.executable):
        return
    _check(path)
    sys.stdout.flush()
    sys.stderr.flush()
    # Replaces this process: signals, output and exit code are the program's without any help.
    os.execv(path, [path, "-m", "firesteel.cli.main", *_command(context)])


def _command(context: click.Context) -> list[str]:
    words = [*context.meta[OWN_ARGUMENTS], "--", *context.meta[PROGRAM_ARGUMENTS]]
    return [str(context.info_name), "--in-client-executable", *words]


def _check(executable: str) -> None:
    done = subprocess.run(
        [executable, "-c", "import click, firesteel"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise click.UsageError(
            f"-pyclientexec: {executable} cannot import Firesteel ({lines[-1] if lines else 'no message'}); "
            "install Firesteel for it, too"
        )
