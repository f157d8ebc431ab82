"""Directories of this process: gone with it, or when somebody looks after it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firesteel.spark import process_directory as module

PROGRAM = """
import sys
from firesteel.spark.process_directory import process_directory
(process_directory("things") / "one").write_text("x")
print(process_directory("things"), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def started() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def make_old(directory: Path) -> None:
    os.utime(directory, (0, 0))


def test_it_goes_when_the_process_ends(temporary: Path) -> None:
    process, directory = started()
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    process.communicate("\n")
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_has_left_goes_when_somebody_looks(temporary: Path) -> None:
    process, directory = started()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (directory / "one").exists()
    module.remove_abandoned()
    assert directory.exists(), "so young that its owner may be about to take the lock"
    make_old(directory.parent)
    module.remove_abandoned()
    assert list(temporary.iterdir()) == []


def test_the_directory_of_a_process_that_lives_stays() -> None:
    process, directory = started()
    make_old(directory.parent)
    module.remove_abandoned()
    assert (directory / "one").exists()
    process.communicate("\n")
