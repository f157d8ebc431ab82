"""Brings files to where the tasks run: Firesteel itself, the user's Python files, packages, archives, cached files.

Tasks on this machine use the files where they are. For other machines Spark copies them. It knows files by
their last name only and for the life of the session, so everything goes under a name of its own: two jobs
may bring different files of the same name.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import uuid
from pathlib import Path

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

import firesteel
from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.options import (
    CACHED_FILES,
    PIPELINE_JARS,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_PATH,
    PYTHON_REQUIREMENTS,
)
from firesteel.spark.requirements import install_requirements
from firesteel.spark.session import is_local
from firesteel.spark.task_files import TaskFiles, TaskPath, import_path

#: Applications whose executors have Firesteel already.
_equipped: set[str] = set()


def bring(session: SparkSession, configuration: Configuration) -> TaskFiles:
    """Make the job's files available to its tasks."""
    local = is_local(session)
    carrier: _Carrier = _Carrier() if local else _DistributingCarrier(session.sparkContext)
    carrier.bring_firesteel()
    python_files = [carrier.module(path) for path in configuration.get(PYTHON_FILES) or []]
    # Modules beside the user's program: tasks on this machine find them where the driver does.
    beside = [TaskPath(os.path.abspath(path)) for path in sys.path] if local else []
    cached = json.loads(configuration.get(CACHED_FILES) or "{}")
    archives = configuration.get(PYTHON_ARCHIVES) or []
    for jar in configuration.get(PIPELINE_JARS) or []:
        session.sparkContext._jsc.sc().addJar(jar)
    for archive in archives:
        session.sparkContext.addArchive(_named_archive(archive))
    return TaskFiles(
        (*python_files, *_packages(configuration, carrier), *_on_workers(configuration), *beside),
        {name: carrier.cached(path) for name, path in cached.items()},
        unpacked_here=bool(archives),
        home=os.getcwd() if local else None,
    )


def interpreter_of_tasks(session: SparkSession, configuration: Configuration) -> str | None:
    """The Python that runs the tasks, as their machines find it; None: the one that Spark starts workers with.

    One that lies in an archive is where that is unpacked, which `bring` has asked Spark to do.
    """
    given = configuration.get(PYTHON_EXECUTABLE)
    archives = configuration.get(PYTHON_ARCHIVES) or []
    if given is None and is_local(session) and "PYSPARK_PYTHON" not in os.environ:
        # A session of the program's takes whatever python3 is on the PATH then, which need not have Firesteel.
        return sys.executable
    if given is None or not _is_in_archive(given, archives):
        return given
    # Executors of a cluster unpack archives into the directory that they run in.
    place = SparkFiles.getRootDirectory() if is_local(session) else "."
    return f"{place}/{os.path.normpath(given)}"


def _is_in_archive(path: str, archives: list[str]) -> bool:
    """Whether a relative path begins with the name of an unpacked archive.

    >>> [_is_in_archive(path, ["env.tar.gz#env"]) for path in ("env/bin/python", "./env/bin/python", "python3")]
    [True, True, False]
    """
    names = {_named_archive(archive).partition("#")[2] for archive in archives}
    first, slash, _ = os.path.normpath(path).partition("/")
    return bool(slash) and first in names


def _packages(configuration: Configuration, carrier: _Carrier) -> list[TaskPath]:
    requirements = configuration.get(PYTHON_REQUIREMENTS)
    return [carrier.cached(install_requirements(requirements))] if requirements else []


def _on_workers(configuration: Configuration) -> list[TaskPath]:
    """Directories that are on the workers' machines already; relative ones are the driver's."""
    paths = (configuration.get(PYTHON_PATH) or "").split(os.pathsep)
    return [TaskPath(os.path.abspath(path)) for path in paths if path]


def _named_archive(setting: str) -> str:
    """``path#target``, which is how Spark too says under which name an archive is unpacked."""
    path, _, target = setting.partition("#")
    return f"{_without_scheme(path)}#{target or os.path.basename(path)}"


class _Carrier:
    """For tasks on this machine."""

    def bring_firesteel(self) -> None:
        """Make Firesteel importable for tasks; on this machine it is."""

    def module(self, path: str) -> TaskPath:
        """What tasks put on their path to import from a file, directory or archive."""
        return TaskPath(import_path(_without_scheme(path)))

    def cached(self, path: str) -> TaskPath:
        """Where tasks find a file or directory, as it is."""
        return TaskPath(_without_scheme(path))


class _DistributingCarrier(_Carrier):
    """For tasks anywhere."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @override
    def bring_firesteel(self) -> None:
        """Once for each application, and before anything of it is unpickled: as Spark's own Python file."""
        if self._context.applicationId not in _equipped:
            self._context.addPyFile(_zipped(Path(firesteel.__file__).parent, name="firesteel"))
            _equipped.add(self._context.applicationId)

    @override
    def module(self, path: str) -> TaskPath:
        local = Path(_without_scheme(path))
        if _is_remote(path) or local.is_dir() or local.suffix != ".py":
            return self.cached(path)
        return self._archive(_zipped(local, name=_unique(local.stem)))

    @override
    def cached(self, path: str) -> TaskPath:
        if _is_remote(path):
            self._context.addFile(path)
            return TaskPath(os.path.basename(path), distributed=True)
        local = Path(_without_scheme(path))
        if local.is_dir():
            return self._archive(shutil.make_archive(str(_workshop() / _unique(local.name)), "zip", local))
        # A copy, because Spark sees through links to the name behind them.
        copy = Path(shutil.copy2(local, _workshop() / _unique(local.name)))
        self._context.addFile(str(copy))
        return TaskPath(copy.name, distributed=True)

    def _archive(self, path: str) -> TaskPath:
        name = uuid.uuid4().hex
        self._context.addArchive(f"{path}#{name}")
        return TaskPath(name, distributed=True)


def _unique(name: str) -> str:
    """A name that no other job of the session has given to Spark."""
    return f"{uuid.uuid4().hex[:8]}-{name}"


def _is_remote(path: str) -> bool:
    return "://" in path and not path.startswith("file://")


def _without_scheme(path: str) -> str:
    return path.removeprefix("file://")


def _workshop() -> Path:
    """A directory that lives as long as this process needs it: Spark removes it with its own files."""
    return Path(tempfile.mkdtemp(prefix="firesteel-", dir=SparkFiles.getRootDirectory()))


def _zipped(path: Path, name: str) -> str:
    """A zip file with this one file or package at its top."""
    return shutil.make_archive(str(_workshop() / name), "zip", path.parent, path.name)
