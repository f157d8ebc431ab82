"""Packages of a requirements file, installed into a directory of their own for the tasks to import from."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from firesteel.common.errors import SetupError
from firesteel.spark.process_directory import process_directory

_installed: dict[str, str] = {}


def install_requirements(setting: str) -> str:
    """The directory with the packages; ``setting`` is ``requirements.txt`` or ``requirements.txt#wheels``."""
    path, _, wheels = setting.partition("#")
    text = Path(path).read_bytes()
    key = hashlib.sha256(b"\0".join([text, wheels.encode()])).hexdigest()[:16]
    if key not in _installed:
        target = process_directory("requirements") / key
        try:
            _install(path, wheels, str(target))
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)  # half of it would pass for all of it
            raise
        _installed[key] = str(target)
    return _installed[key]


def _install(path: str, wheels: str, target: str) -> None:
    offline = ["--no-index", "--find-links", wheels] if wheels else []
    command = [*_installer(), "install", "--quiet", "--target", target, "-r", path, *offline]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, check=False
    )
    if done.returncode != 0:
        raise SetupError(
            f"could not install {path} for the tasks: {' '.join(command)} ended with {done.returncode}\n"
            f"{done.stderr.strip()}"
        )


def _installer() -> list[str]:
    """Pip of this interpreter, or uv when it has none."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is None:
        raise SetupError(
            f"set_python_requirements() needs pip, and {sys.executable} has none; run "
            f"'{sys.executable} -m ensurepip' or install uv"
        )
    return [uv, "pip"]
