"""The programs of docs/values.md run unchanged on Spark and print what the page shows.

What it shows of programs that import ``pyflink`` was recorded from PyFlink.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import PROGRAMS, Driver, start_driver, until_stuck

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

PAGE = Path(__file__).parents[2] / "docs" / "values.md"
PROGRAM = re.compile(
    r"^```python(?: spark)?\n(?P<text>.*?)^```\n\n```output(?P<unordered> unordered)?\n(?P<output>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Shown:
    """A program of the page, what it prints, and whether the order of lines is open."""

    name: str
    text: str
    output: list[str]
    unordered: bool


def shown() -> list[Shown]:
    text = PAGE.read_text(encoding="utf-8")
    found = []
    for match in PROGRAM.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        output = match["output"].splitlines()
        found.append(Shown(f"line_{line}.py", match["text"], output, match["unordered"] is not None))
    return found


SHOWN = shown()


@pytest.fixture(scope="module")
def run_of_all(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    directory = tmp_path_factory.mktemp("values")
    for program in SHOWN:
        (directory / program.name).write_text(program.text, encoding="utf-8")
    paths = [str(directory / program.name) for program in SHOWN]
    run = start_driver(directory, [str(PROGRAMS / "run_many.py"), *paths])
    try:
        until_stuck(lambda: run.popen.poll() is not None, run.stdout, 240, "all programs have ended")
    finally:
        run.kill_family()
    return run


def part(text: str, program: str) -> list[str]:
    """The lines of one program in the output of all."""
    lines = text.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("begin ") and line.endswith(program))
    end = next(n for n, line in enumerate(lines) if n > begin and line.startswith("end "))
    assert lines[end] == "end 0", text
    return lines[begin + 1 : end]


def test_every_program_of_the_page_with_an_output_is_found() -> None:
    text = PAGE.read_text(encoding="utf-8")
    programs = re.findall(r"^```python(?! raises)", text, re.MULTILINE)
    assert len(SHOWN) == len(programs) >= 14


@pytest.mark.parametrize("program", SHOWN, ids=lambda program: program.name)
def test_program_prints_on_spark_what_the_page_shows(program: Shown, run_of_all: Driver) -> None:
    printed = part(run_of_all.stdout(), program.name)
    if program.unordered:
        assert sorted(printed) == sorted(program.output)
    else:
        assert printed == program.output
