"""``firesteel info``: the plan of a program that does not run."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import CliRunner, Result

from firesteel.cli.main import main

Programs = Callable[..., str]


def info(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["info", *arguments])


def test_plan_goes_to_standard_output_and_the_programs_words_to_standard_error(program: Programs) -> None:
    script = program("import engine; print('building'); engine.execute('fail'); print('never')")
    result = info("-p", "3", script)
    assert result.exit_code == 0
    assert result.stdout.startswith("fail: STREAMING, ")
    assert "x3" in result.stdout
    assert result.stderr == "building\n"


def test_plan_as_mermaid(program: Programs) -> None:
    result = info("--format", "mermaid", program("import engine; engine.execute('x')"))
    assert result.stdout.startswith("flowchart LR\n")


def test_plan_as_flinks_json(program: Programs) -> None:
    result = info("--format", "json", "-p", "2", program("import engine; engine.execute('x')"))
    nodes = json.loads(result.stdout)["nodes"]
    assert [node["parallelism"] for node in nodes] == [2, 2]


def test_program_without_a_job_has_no_plan(program: Programs) -> None:
    for text in ("x = 1", "raise SystemExit"):
        result = info(program(text))
        assert result.exit_code == 1
        assert "without calling execute()" in result.stderr


def test_error_of_the_program_is_shown(program: Programs) -> None:
    result = info(program("1 / 0"))
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr
