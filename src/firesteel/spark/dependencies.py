"""Files that must be where the tasks run: Firesteel itself, the user's Python files, cached files."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import firesteel
from firesteel.common.configuration import Configuration
from firesteel.common.options import CACHED_FILES, PYTHON_FILES
from firesteel.spark.session import is_local

_shipped: set[tuple[int, str]] = set()


def ship_dependencies(session: SparkSession, configuration: Configuration) -> None:
    """Hand the files to Spark, each once per session."""
    if not is_local(session):
        _once(session, "firesteel", lambda: session.sparkContext.addPyFile(_package_archive()))
    for path in configuration.get(PYTHON_FILES) or []:
        _once(session, path, lambda path=path: session.sparkContext.addPyFile(_local(path)))
    for path in cached_files(configuration).values():
        _once(
            session,
            path,
            lambda path=path: session.sparkContext.addFile(_local(path), recursive=os.path.isdir(path)),
        )


def cached_files(configuration: Configuration) -> dict[str, str]:
    """Registered files: name -> path."""
    text = configuration.get(CACHED_FILES)
    return json.loads(text) if text else {}


def _local(path: str) -> str:
    return path.removeprefix("file://")


def _once(session: SparkSession, name: str, ship: object) -> None:
    key = (id(session), name)
    if key not in _shipped:
        _shipped.add(key)
        ship()  # type: ignore[operator]


def _package_archive() -> str:
    """The installed package as a zip file, for executors on machines that do not have it."""
    package = Path(firesteel.__file__).parent
    directory = tempfile.mkdtemp(prefix="firesteel-")
    return shutil.make_archive(os.path.join(directory, "firesteel"), "zip", package.parent, package.name)
