"""Debuggers and input() in a task say that they cannot work there, and where they do."""

from __future__ import annotations

import os
import pdb
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.errors import UnsupportedOperationError
from firesteel.logs.origin import LogOrigin
from firesteel.spark.task_output import TaskOutput

ORIGIN = LogOrigin("ab" * 16, "a job", "Map (1/1)", 1)
SIMULATOR = r"cannot work in a task on Spark: .*firesteel run --simulate.*simulated_environment\(\)"


def stops() -> None:
    breakpoint()


def debugs() -> None:
    pdb.Pdb().set_trace()  # what pdb.set_trace() does, which pytest replaces
    print("behind")


def asks() -> None:
    input("what?")


def reads() -> None:
    sys.stdin.read()


def reads_lines() -> None:
    list(sys.stdin)


@pytest.mark.parametrize("call", [stops, debugs, asks, reads, reads_lines])
def test_who_asks_for_a_terminal_in_a_task_is_told_of_the_simulator(
    call: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    messages: list[Any] = []
    stdin, hook = sys.stdin, sys.breakpointhook
    with (
        pytest.raises(UnsupportedOperationError, match=SIMULATOR),
        TaskOutput(messages.append).redirected({"": 30}, ORIGIN),
    ):
        call()
    assert (sys.stdin, sys.breakpointhook) == (stdin, hook)


def test_breakpoint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    named = pytest.raises(UnsupportedOperationError, match=r"^breakpoint\(\) cannot")
    with named, TaskOutput([].append).redirected({"": 30}, ORIGIN):
        stops()


def test_debugger_that_the_user_has_chosen_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setenv("PYTHONBREAKPOINT", "builtins.print")
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    monkeypatch.setattr("builtins.print", lambda *_: called.append("here"))
    with TaskOutput([].append).redirected({"": 30}, ORIGIN):
        stops()
    assert called == ["here"]


def test_breakpoint_works_in_the_simulator(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(
        "from firesteel.testing import simulated_environment\n"
        "def hundredfold(value):\n"
        "    result = value * 100\n"
        "    breakpoint()\n"
        "    return result\n"
        "env = simulated_environment(parallelism=1)\n"
        "env.from_collection([7]).map(hundredfold).print()\n"
        "env.execute()\n",
        encoding="utf-8",
    )
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONBREAKPOINT"}
    done = subprocess.run(
        [sys.executable, str(program)],
        input="p result + 1\nc\n",
        capture_output=True,
        text=True,
        check=True,
        env=surroundings,
    )
    assert "701" in done.stdout
    assert done.stdout.rstrip().endswith("700")
