"""``firesteel init``: the project that it makes works as it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import firesteel
from firesteel.cli.main import main
from firesteel.cli.origin import _of_direct_url, requirement

RUN = ["-m", "firesteel.cli.main", "run", "--simulate", "-p", "1"]


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
        [sys.executable, *arguments], cwd=project, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_batch_job_runs(project: Path) -> None:
    lines = python(project, *RUN, "batch_job.py")
    assert "('be', 2)" in lines.splitlines()


def test_the_streaming_job_runs_with_checkpoints(project: Path) -> None:
    assert "('home', 34)" in python(project, *RUN, "streaming_job.py", "1500").splitlines()
    assert (project / "checkpoints").is_dir(), "they go when the job has finished, their place stays"


def test_the_projects_name_and_the_version_are_filled_in(project: Path) -> None:
    described = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert described["name"] == "my-clicks"
    assert described["dependencies"] == [f"firesteel=={firesteel.__version__}"]
    assert (project / "README.md").read_text().startswith("# my-clicks\n")
    assert "$" not in "".join(path.read_text() for path in project.rglob("*") if path.is_file())


# The README, played.


def readme_commands(project: Path) -> list[str]:
    """The commands of its block, without what is said about them."""
    (block,) = re.findall(r"```sh\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


def play(project: Path, line: str) -> str:
    """What a line prints in a shell of the project's own environment, with no index of packages in reach."""
    activate = "if [ -d .venv ]; then . .venv/bin/activate; fi; "
    done = subprocess.run(
        ["bash", "-c", activate + line],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(project.parent),
            "FIRESTEEL_HOME": str(project.parent / "home"),
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        },
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def stand_in_for_an_index(project: Path) -> None:
    """Put everything into the project's environment that an index would give: all that this one has but Firesteel."""
    (target,) = project.glob(".venv/lib/python3*/site-packages")
    for path in target.iterdir():
        if not path.name.startswith("pip"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "firesteel" not in path.name and not path.name.startswith("pip"):
            (target / path.name).symlink_to(path)
    tool = project / ".venv" / "bin" / "pytest"
    tool.write_text(f"#!{project}/.venv/bin/python\nimport pytest, sys\nsys.exit(pytest.main())\n")
    tool.chmod(0o755)


@pytest.mark.slow
def test_the_readme_works_as_written(project: Path) -> None:
    make, install, java, *commands = readme_commands(project)
    play(project, make)
    stand_in_for_an_index(project)
    with pytest.raises(AssertionError, match="No module named 'firesteel'"):
        play(project, "python -c 'import firesteel'")  # it is not there by accident
    play(project, install)
    assert java.startswith("pip install ")
    assert java.endswith("[java]'")
    assert commands[0] == "pytest"
    assert "10 passed" in play(project, f"{commands[0]} -p no:cacheprovider")
    simulated = next(command for command in commands if "--simulate" in command)
    assert "('be', 2)" in play(project, simulated)
    shown = next(command for command in commands if command.startswith("firesteel info"))
    assert "Source: " in play(project, shown)
    assert play(project, "firesteel list") == "No running jobs.\nNo scheduled jobs.\n"


def test_the_project_names_where_firesteel_comes_from(project: Path) -> None:
    install = readme_commands(project)[1]
    assert install == f'pip install {requirement()} -e ".[test]"'
    assert "was installed from a place of its own here" in (project / "README.md").read_text()


@pytest.mark.parametrize(
    ("recorded", "place"),
    [
        ({"url": "file:///home/ada/fire%20steel", "dir_info": {}}, "/home/ada/fire steel"),
        ({"url": "file:///tmp/firesteel-1.whl", "archive_info": {}}, "/tmp/firesteel-1.whl"),
        ({"url": "https://host/firesteel-1.whl", "archive_info": {}}, "https://host/firesteel-1.whl"),
        (
            {
                "url": "https://host/f.git",
                "vcs_info": {"vcs": "git", "commit_id": "0a"},
                "subdirectory": "py",
            },
            "git+https://host/f.git@0a#subdirectory=py",
        ),
    ],
)
def test_places_that_pip_has_noted_are_given_to_it_again(recorded: dict[str, Any], place: str) -> None:
    assert _of_direct_url(recorded) == place


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
