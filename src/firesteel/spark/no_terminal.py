"""What stands for the terminal in tasks on Spark, which have none: asking it for input says where that works."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from firesteel.common._override import override
from firesteel.common.errors import UnsupportedOperationError

__all__ = ["without_terminal"]

_INSTEAD = (
    "cannot work in a task on Spark: its process has no terminal to ask; run the program in the simulator, where it "
    "works: 'firesteel run --simulate job.py', or firesteel.testing.simulated_environment() in the program"
)
_OF_PYTHON = ("", "pdb.set_trace")


@contextlib.contextmanager
def without_terminal() -> Iterator[None]:
    """While this is open, ``breakpoint()``, ``pdb.set_trace()`` and ``input()`` raise an error that says what to do.

    A debugger that the user has chosen with ``PYTHONBREAKPOINT`` is called: it may wait at a port.
    """
    stdin, hook = sys.stdin, sys.breakpointhook
    sys.stdin = _NoTerminal()
    if os.environ.get("PYTHONBREAKPOINT", "") in _OF_PYTHON:
        sys.breakpointhook = _refuse_breakpoint
    try:
        yield
    finally:
        sys.stdin, sys.breakpointhook = stdin, hook


def _refuse_breakpoint(*args: Any, **kwargs: Any) -> NoReturn:
    raise UnsupportedOperationError(f"breakpoint() {_INSTEAD}")


class _NoTerminal(io.TextIOBase):
    """Standard input of a task."""

    @override
    def readable(self) -> bool:
        return True

    @override
    def read(self, size: int | None = -1, /) -> NoReturn:
        self._refuse()

    @override
    def readline(self, size: int | None = -1, /) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedOperationError(f"input(), and debuggers that read from the terminal, {_INSTEAD}")
