"""The first hour of somebody new, played as the pages tell it: clone, install, a first program, a mistake, its cure, a test.

Commands and programs are read from the README and from docs/getting_started.md, so that what is tested is what is written.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")


def commands_below(heading: str, text: str) -> list[str]:
    """The lines of the first block of commands below a heading, without comments."""
    block = re.search(rf"^## {heading}\n.*?^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block, heading
    return [re.sub(r"\s+#.*", "", line) for line in block[1].splitlines()]


def program(name: str) -> tuple[str, str]:
    """A program that the page says to save, and what it says that it prints, if it does."""
    block = re.search(
        rf"^```python save={re.escape(name)}\n(.*?)^```\n(?:\n```output\n(.*?)^```$)?",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
    assert block, name
    return block[1], block[2] or ""


class Newcomer:
    """Types commands in a shell that remembers its directory, and the virtual environment that was made in the first one."""

    def __init__(self, directory: Path, variables: Mapping[str, str]) -> None:
        self.directory = directory
        self._activate = directory / ".venv" / "bin" / "activate"
        self._variables = dict(variables)

    def type(self, command: str, succeeds: bool = True) -> str:
        """What the command shows on standard output and standard error; it has to end as expected."""
        activate = f". {self._activate} && " if self._activate.exists() else ""
        done = subprocess.run(
            ["bash", "-c", f"{activate}{command}"],
            cwd=self.directory,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert (done.returncode == 0) is succeeds, f"{command}\n{done.stdout}"
        return done.stdout

    def go(self, command: str) -> None:
        """Type a command that ends in another directory, and stay there."""
        self.directory = Path(self.type(f"{command} && pwd").splitlines()[-1])

    def save(self, name: str, text: str) -> None:
        """Write a file."""
        (self.directory / name).write_text(text, encoding="utf-8")


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    """With a fresh clone, the Python that runs the tests, and nothing of its environment."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), tmp_path / "firesteel"], check=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FIRESTEEL_", "PYTHON", "PYSPARK_", "SPARK_", "VIRTUAL_ENV"))
    }
    base = Path(sys._base_executable).parent  # type: ignore[attr-defined]
    path = [each for each in kept["PATH"].split(os.pathsep) if not each.startswith(str(ROOT))]
    return Newcomer(
        tmp_path / "firesteel",
        {**kept, "PATH": os.pathsep.join([str(base), *path]), "FIRESTEEL_HOME": str(tmp_path / "home")},
    )


def test_from_a_clone_to_a_job_that_runs(newcomer: Newcomer) -> None:
    has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    environment, install, install_with_java, *_ = commands_below("Install", README)
    newcomer.type(environment)
    newcomer.type(install if has_java else install_with_java)
    assert "firesteel" in newcomer.type("firesteel --version")
    *_, own_directory = commands_below("Getting started", f"#{PAGE}")
    newcomer.go(own_directory)

    text, shown = program("job.py")
    (run,) = [
        line for line in re.findall(r"^firesteel run .*$", PAGE, re.MULTILINE) if line.endswith(" job.py")
    ]

    newcomer.save("job.py", text.replace("reading[0]", 'reading["room"]'))
    message = newcomer.type(run, succeeds=False)
    assert "TypeError: tuple indices must be integers or slices, not str" in message
    assert "record:   ('kitchen', 19.5)" in message
    assert 'job.py", line 7' in message
    assert "site-packages/firesteel" not in message

    newcomer.save("job.py", text)
    printed = newcomer.type(run)
    assert [line for line in printed.splitlines() if line.startswith("(")] == shown.splitlines()

    newcomer.save("test_job.py", program("test_job.py")[0])
    for command in commands_below("A test", PAGE):
        answer = newcomer.type(command)
    assert "1 passed" in answer
