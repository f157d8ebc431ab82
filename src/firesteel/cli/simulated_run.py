"""``firesteel run --simulate``: the program runs in the simulator, in this process, without Java and Spark.

The simulator is part of `firesteel.testing`, which nothing imports: jobs name it as their executor, as tests do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from firesteel.common.options import (
    EXECUTOR,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_PATH,
    PYTHON_REQUIREMENTS,
    SPARK_MASTER,
)

__all__ = ["simulated_options"]

_SIMULATOR = "firesteel.testing.simulator:simulate_program"

#: Options that choose where and in what surroundings tasks run, with the words of the command line for them.
_OF_OTHER_PROCESSES = {
    SPARK_MASTER.key: "-m names a Spark master, and there is no Spark",
    EXECUTOR.key: f"-D {EXECUTOR.key} names another executor",
    PYTHON_EXECUTABLE.key: "-pyexec names an interpreter for the tasks, which run in this process",
    PYTHON_REQUIREMENTS.key: "-pyreq installs packages for the tasks, which run in this process",
    PYTHON_ARCHIVES.key: "-pyarch unpacks archives for the tasks, which run in this process",
    PYTHON_PATH.key: "-pypath is a path for the tasks, which run in this process; PYTHONPATH does it here",
}


def simulated_options(options: Mapping[str, Any], is_detached: bool) -> dict[str, Any]:
    """The job's options, with the simulator as executor; refuses those that would do nothing."""
    if is_detached:
        raise click.UsageError(
            "--simulate tries a program out in this process, and -d would start another one: leave one of them out"
        )
    for key, what in _OF_OTHER_PROCESSES.items():
        if key in options:
            raise click.UsageError(
                f"--simulate: {what}; leave it out, or leave out --simulate to run on Spark"
            )
    return {**options, EXECUTOR.key: _SIMULATOR}
