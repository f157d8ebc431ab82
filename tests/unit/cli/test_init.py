"""``firesteel init``: the project that it makes works as it is."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import firesteel
from firesteel.cli.main import main
from firesteel.testing.simulator import SimulatorExecutor

SIMULATED = f"firesteel.executor={SimulatorExecutor.__module__}:{SimulatorExecutor.__name__}"


def init(directory: Path) -> Result:
    return CliRunner().invoke(main, ["init", str(directory)])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "my-clicks"
    result = init(directory)
    assert result.exit_code == 0, result.output
    return directory


def python(project: Path, *arguments: str) -> str:
    """What Python prints, started in the project as its README says."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_projects_own_tests_pass(project: Path) -> None:
    assert "10 passed" in python(project, "-m", "pytest", "-p", "no:cacheprovider")


def test_the_batch_job_runs(project: Path) -> None:
    lines = python(project, "-m", "firesteel.cli.main", "run", "-p", "1", "-D", SIMULATED, "batch_job.py")
    assert "('be', 2)" in lines.splitlines()


def test_the_streaming_job_runs_with_checkpoints(project: Path) -> None:
    command = ["-m", "firesteel.cli.main", "run", "-p", "1", "-D", SIMULATED, "streaming_job.py", "1500"]
    assert "('home', 34)" in python(project, *command).splitlines()
    assert (project / "checkpoints").is_dir(), "they go when the job has finished, their place stays"


def test_the_projects_name_and_the_version_are_filled_in(project: Path) -> None:
    described = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert described["name"] == "my-clicks"
    assert described["dependencies"] == [f"firesteel=={firesteel.__version__}"]
    assert (project / "README.md").read_text().startswith("# my-clicks\n")
    assert "$" not in "".join(path.read_text() for path in project.rglob("*") if path.is_file())


def test_a_directory_with_something_in_it_is_left_alone(project: Path) -> None:
    (project / "README.md").write_text("mine")
    result = init(project)
    assert (result.exit_code, (project / "README.md").read_text()) == (2, "mine")
    assert "exists and is no empty directory; choose another name" in " ".join(result.output.split())


def test_a_file_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert init(tmp_path / "mine").exit_code == 2
    assert (tmp_path / "mine").read_text() == "mine"


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert init(tmp_path / "new").exit_code == 0


def test_a_name_that_no_project_can_have_is_refused(tmp_path: Path) -> None:
    result = init(tmp_path / "two words")
    assert result.exit_code == 2
    assert "cannot be the name of a project" in " ".join(result.output.split())
    assert not (tmp_path / "two words").exists()
