"""How options that are secret get to the tasks: as the secret of the control connections does (`endpoint_secret`).

Options travel with the tasks, and Spark gives its blocks to whoever asks, unless it authenticates. So passwords, keys and what
was marked as secret are taken out of them. Tasks on this machine find them in a file that only this user can read; on a cluster they travel with the task, and
are as safe as Spark is.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark import SparkFiles

from firesteel.common._private_files import create_private

__all__ = ["NO_SECRETS", "TaskSecrets"]


@dataclass(frozen=True, slots=True)
class TaskSecrets:
    """Options that nobody else may see, or the path of the file that they are in."""

    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    file: str | None = None

    def options(self) -> dict[str, str]:
        """The options; to be called in a task."""
        if self.file is None:
            return dict(self.given)
        with open(self.file, encoding="utf-8") as file:
            return dict(json.load(file))

    @contextlib.contextmanager
    def in_file(self) -> Iterator[TaskSecrets]:
        """The same in a file, for as long as the block lasts."""
        if not self.given:
            yield self
            return
        # Among Spark's own temporary files: should this process be killed, Spark's removes them.
        directory = tempfile.mkdtemp(prefix="firesteel-", dir=SparkFiles.getRootDirectory())
        try:
            path = os.path.join(directory, "keys")
            with create_private(path) as file:
                file.write(json.dumps(dict(self.given)).encode())
            yield TaskSecrets(file=path)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


NO_SECRETS = TaskSecrets()
