"""Which words of a command line are Firesteel's and which the program's, in Flink's spellings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from firesteel.cli.main import main

Programs = Callable[..., str]

SHOW = """
    import json, os, sys
    print(json.dumps({"argv": sys.argv, "options": json.loads(os.environ["FIRESTEEL_CONFIG"]),
                      "name": __name__, "path": sys.path[:2]}))
"""


def shown(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_program_runs_as_main_with_its_arguments_and_directory(program: Programs) -> None:
    script = program(SHOW)
    found = shown(script, "--input", "x", "-p", "3", "-d")
    assert found["argv"] == [script, "--input", "x", "-p", "3", "-d"]
    assert found["name"] == "__main__"
    assert found["path"][0] == str(Path(script).parent)
    assert found["options"] == {}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["-p", "4"], {"parallelism.default": 4}),
        (["-p4"], {"parallelism.default": 4}),
        (["--parallelism", "4"], {"parallelism.default": 4}),
        (["--parallelism=4"], {"parallelism.default": 4}),
        (["-m", "local[2]"], {"firesteel.spark.master": "local[2]"}),
        (["-Dpipeline.name=a=b"], {"pipeline.name": "a=b"}),
        (["-D", "pipeline.name=x", "-Dpipeline.name=y"], {"pipeline.name": "y"}),
        (["-Dpipeline.object-reuse"], {"pipeline.object-reuse": "true"}),
        (["-pyfs", "a.py,b.zip"], {"python.files": ["a.py", "b.zip"]}),
        (["--pyFiles", "a.py"], {"python.files": ["a.py"]}),
        (["-pyreq", "r.txt#cache"], {"python.requirements": "r.txt#cache"}),
        (["-pyarch", "x.zip#d"], {"python.archives": ["x.zip#d"]}),
        (["-pyexec", "python3"], {"python.executable": "python3"}),
        (["--pyExecutable=python3"], {"python.executable": "python3"}),
        (["-pypath", "/a:/b"], {"python.pythonpath": "/a:/b"}),
        (["--pyPythonPath", "/a"], {"python.pythonpath": "/a"}),
        (["-s", "/data/savepoint-1"], {"execution.state-recovery.path": "/data/savepoint-1"}),
        (["--fromSavepoint", "s3://b/s"], {"execution.state-recovery.path": "s3://b/s"}),
        (["-n"], {"execution.state-recovery.ignore-unclaimed-state": True}),
        (["--allowNonRestoredState"], {"execution.state-recovery.ignore-unclaimed-state": True}),
        (["-cm", "NO_CLAIM"], {"execution.state-recovery.claim-mode": "NO_CLAIM"}),
        (["--claimMode=legacy"], {"execution.state-recovery.claim-mode": "legacy"}),
        (["--resume"], {"execution.checkpointing.resume": True}),
        (["-pyclientexec", sys.executable], {"python.client.executable": sys.executable}),
        (["--pyClientExecutable", sys.executable], {"python.client.executable": sys.executable}),
    ],
)
def test_options_reach_the_program(program: Programs, words: list[str], options: dict[str, Any]) -> None:
    found = shown(*words, program(SHOW), "-p", "9")
    assert found["options"] == options
    assert found["argv"][1:] == ["-p", "9"]


def test_savepoints_are_found_from_where_the_command_is_given(
    program: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = shown("-s", "savepoints/one", program(SHOW))
    assert found["options"] == {"execution.state-recovery.path": str(tmp_path / "savepoints" / "one")}


@pytest.mark.parametrize("words", [["-py"], ["--python"]])
def test_after_py_the_first_unknown_word_begins_the_programs_arguments(
    program: Programs, words: list[str]
) -> None:
    script = program(SHOW)
    found = shown(*words, script, "-p", "2", "--input", "x", "-p", "9")
    assert found["argv"] == [script, "--input", "x", "-p", "9"]
    assert found["options"] == {"parallelism.default": 2}


def test_module_is_found_in_python_files(program: Programs) -> None:
    script = program(SHOW, "a_module_of_its_own.py")
    found = shown("-pyfs", script, "-pym", "a_module_of_its_own", "x")
    assert found["argv"][1:] == ["x"]
    assert found["name"] == "__main__"


@pytest.mark.parametrize(
    ("command", "option", "code"), [("run", "-pyclientexec=", 9), ("info", "-Dpython.client.executable=", 0)]
)
def test_program_runs_in_the_interpreter_that_the_client_names(
    program: Programs, tmp_path: Path, command: str, option: str, code: int
) -> None:
    other = tmp_path / "other-python"
    other.write_text(f'#!/bin/sh\nOTHER=yes exec {sys.executable} "$@"\n', encoding="utf-8")
    other.chmod(0o755)
    script = program("""
        import engine, os, sys
        print(os.environ.get("OTHER"), sys.argv[1:], file=sys.stderr)
        engine.execute("hello")
        sys.exit(int(sys.argv[1]))
    """)
    own = [sys.executable, "-m", "firesteel.cli.main", command, f"{option}{other}", "-p", "1"]
    done = subprocess.run(
        [*own, script, str(code), "-x", "--", "y"], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[0] == f"yes ['{code}', '-x', '--', 'y']"
    assert done.stdout.startswith("hello")
    assert done.returncode == code


def test_two_dashes_end_the_options(program: Programs) -> None:
    assert shown("-p", "2", "--", program(SHOW), "--x")["argv"][1:] == ["--x"]


def test_surroundings_are_restored(program: Programs) -> None:
    before = sys.argv[:], sys.path[:]
    shown(program(SHOW), "x")
    assert (sys.argv, sys.path) == before


def test_who_looks_along_the_path_when_a_program_ends_skips_no_directory(program: Programs) -> None:
    """A thread that imports goes along sys.path by position: one that gets shorter under its hands hides an entry from it."""
    before = list(sys.path)
    shown(program("import sys; sys.looking = iter(sys.path); next(sys.looking); print('{}')"))
    assert list(vars(sys).pop("looking")) == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--paralelism", "4", "job.py"], "No such option '--paralelism'"),
        (["-p", "0", "job.py"], "0 is not in the range"),
        ([], "which program?"),
        (["-p", "4"], "which program?"),
        (["-py", "a.py", "-pym", "b"], "give one of them"),
        (["-Dfiresteel.spark.mastr=3", "job.py"], "did you mean 'firesteel.spark.master'"),
        (["-Dpipeline.object-reuse=perhaps", "job.py"], "pipeline.object-reuse"),
        (["-cm", "MINE", "job.py"], "execution.state-recovery.claim-mode"),
        (["-D=x", "job.py"], "-D expects key=value"),
        (["-pyclientexec", "no-such-python", "job.py"], "there is no Python interpreter 'no-such-python'"),
        (["-Dpython.client.executable=/bin/false", "job.py"], "cannot import Firesteel"),
    ],
)
def test_mistakes_are_usage_errors(words: list[str], complaint: str) -> None:
    result = CliRunner().invoke(main, ["run", *words])
    assert result.exit_code == 2
    assert complaint in result.output


@pytest.mark.parametrize("command", ["run", "info"])
def test_without_a_word_the_help_is_shown(command: str) -> None:
    result = CliRunner().invoke(main, [command])
    assert result.exit_code == 2, "a script that has forgotten its program has not succeeded"
    assert result.stdout == ""
    assert f"Usage: main {command} " in result.stderr
    assert "--allowNonRestoredState" in result.stderr
    assert result.stderr.endswith("which program? give a Python file, or -pym and a module\n")


def test_mistakes_in_the_configuration_file_show_before_the_program_runs(
    program: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESTEEL_CONF_DIR", str(tmp_path))
    (tmp_path / "config.yaml").write_text("firesteel.chunk.record: 3\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["run", program("print('has run')")])
    assert result.exit_code == 2
    assert (
        "config.yaml: unknown option 'firesteel.chunk.record'; did you mean 'firesteel.chunk.records'?"
        in result.output
    )
    assert "has run" not in result.output


def test_version() -> None:
    assert "firesteel, version " in CliRunner().invoke(main, ["--version"]).output
