"""scripts/job_image: the build context of an image with one job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def job_image(*words: object) -> subprocess.CompletedProcess[str]:
    script = ROOT / "deploy" / "docker" / "job_image.py"
    return subprocess.run(
        [sys.executable, script, *map(str, words)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "word_count.py"
    path.write_text("print('words')\n")
    return path


def dockerfile(context: Path) -> list[str]:
    path = context / "Dockerfile"
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "--no-color", path], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
    return path.read_text().splitlines()


def test_program_alone(program: Path, tmp_path: Path) -> None:
    context = tmp_path / "context"
    done = job_image(program, "--output", context)
    assert done.returncode == 0, done.stderr
    assert (context / "job" / "word_count.py").read_text() == program.read_text()
    assert dockerfile(context) == [
        "FROM firesteel:0.1.0",
        "COPY job /opt/job",
        "ENV PYTHONPATH=/opt/job",
        'CMD ["run", "--resume", "/opt/job/word_count.py"]',
    ]


def test_files_packages_and_options_travel_with_it(program: Path, tmp_path: Path) -> None:
    package = tmp_path / "words"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    requirements = tmp_path / "needs.txt"
    requirements.write_text("orjson==3.10.0\n")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "orjson-3.10.0-py3-none-any.whl").write_bytes(b"")
    context = tmp_path / "context"
    done = job_image(
        *(program, "--output", context, "--file", package, "--requirements", requirements),
        *("--wheels", wheels, "--base", "registry/firesteel:0.1.0", "--option=-p", "--option=4"),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(str(path.relative_to(context / "job")) for path in (context / "job").rglob("*")) == [
        "word_count.py",
        "words",
        "words/__init__.py",
    ]
    assert dockerfile(context) == [
        "FROM registry/firesteel:0.1.0",
        "USER 0:0",
        "COPY requirements.txt /opt/requirements/",
        "COPY wheels /opt/requirements/wheels",
        "RUN pip install --no-cache-dir --no-index --find-links /opt/requirements/wheels -r /opt/requirements/requirements.txt",
        "USER 10001:10001",
        "COPY job /opt/job",
        "ENV PYTHONPATH=/opt/job",
        'CMD ["run", "--resume", "-p", "4", "/opt/job/word_count.py"]',
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.py"], "the program must be a Python file"),
        (["word_count.py", "--file", "missing"], "there is no"),
        (["word_count.py", "--wheels", "."], "--requirements has to say which"),
        (["word_count.py", "--requirements", "word_count.py", "--wheels", "."], "no directory with wheels"),
        (["word_count.py", "--file", "word_count.py"], "two files are called word_count.py"),
        (["word_count.py", "--output", "."], "is there already"),
    ],
)
def test_what_cannot_be_is_refused(
    words: list[str], message: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = job_image("--output", "context", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
