"""Runs a user's program in this process as Python itself would: as ``__main__``, with its arguments and path."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from firesteel.datastream._given_options import CLIENT_VARIABLE
from firesteel.datastream._unexecuted import telling_of_unexecuted_streams


@dataclass(frozen=True, slots=True)
class Program:
    """A script or a module, and what it is started with."""

    script: str | None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    pyflink: bool = False
    python_files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A short name for files and messages."""
        return self.module or os.path.splitext(os.path.basename(self.script or ""))[0]

    def run(self, options: Mapping[str, Any]) -> None:
        """Run to the end; job ``options`` reach it as a client's wishes. Raises what the program raises."""
        with _surroundings(self, options), telling_of_unexecuted_streams():
            if self.pyflink:
                from firesteel.pyflink_alias import install

                install()
            if self.module is not None:
                runpy.run_module(self.module, run_name="__main__", alter_sys=True)
            else:
                assert self.script is not None
                runpy.run_path(self.script, run_name="__main__")


@contextmanager
def _surroundings(program: Program, options: Mapping[str, Any]) -> Iterator[None]:
    argv, path, variable = sys.argv[:], sys.path, os.environ.get(CLIENT_VARIABLE)
    first = os.path.dirname(os.path.abspath(program.script)) if program.script else os.getcwd()
    sys.argv[:] = [program.script or program.module or "", *program.arguments]
    # Another list, and then the first one again: threads that import go along it by position.
    sys.path = [first, *map(_path_entry, program.python_files), *path]
    os.environ[CLIENT_VARIABLE] = json.dumps(dict(options))
    try:
        yield
    finally:
        sys.argv[:], sys.path = argv, path
        if variable is None:
            os.environ.pop(CLIENT_VARIABLE, None)
        else:
            os.environ[CLIENT_VARIABLE] = variable


def _path_entry(file: str) -> str:
    """Where Python must look so that ``import`` finds a file, package directory or archive."""
    full = os.path.abspath(file)
    return os.path.dirname(full) if full.endswith(".py") else full
