"""What a job brings along, as its tasks find it: modules to import and cached files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark import SparkFiles

from firesteel.common.errors import ProgramError


@dataclass(frozen=True, slots=True)
class TaskPath:
    """A file or directory: a path of this machine, or a name under which Spark distributed it."""

    path: str
    distributed: bool = False

    def local_path(self) -> str:
        """Where it is for a task; to be called in one."""
        return str(SparkFiles.get(self.path)) if self.distributed else self.path


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """Made in the driver, used in the tasks."""

    modules: tuple[TaskPath, ...] = ()
    cached: Mapping[str, TaskPath] = field(default_factory=dict)
    #: Whether Spark unpacked archives that user code reaches by relative paths.
    unpacked_here: bool = False
    #: The driver's working directory, when the tasks run on its machine.
    home: str | None = None

    def prepare(self) -> None:
        """Let this process find what the user added; modules of the program come before what is installed."""
        _forget_modules_of_last_job()
        paths = [module.local_path() for module in self.modules]
        _added[:] = [path for path in paths if path not in sys.path]
        sys.path[:0] = _added
        # A worker process serves one job after another: where it is must not depend on the one before.
        directory = SparkFiles.getRootDirectory() if self.unpacked_here else self.home
        if directory is not None:
            os.chdir(directory)

    def cached_file(self, name: str) -> str:
        """The local copy of the file registered as ``name``."""
        if name not in self.cached:
            raise ProgramError(
                f"no cached file {name!r}; registered with env.register_cached_file are {sorted(self.cached)}"
            )
        return self.cached[name].local_path()


#: What this process added to the path for its job.
_added: list[str] = []


def _forget_modules_of_last_job() -> None:
    """On a cluster a worker process serves several jobs, and each may bring its own version of a module."""
    sys.path[:] = [path for path in sys.path if path not in _added]
    prefixes = tuple(os.path.join(path, "") for path in _added)
    for name, module in list(sys.modules.items()):
        if prefixes and (getattr(module, "__file__", None) or "").startswith(prefixes):
            del sys.modules[name]


def import_path(file: str) -> str:
    """Where Python must look so that ``import`` finds a file, package directory or archive."""
    return os.path.dirname(file) if file.endswith(".py") else file
