"""Where tasks put input that has to wait and does not fit into memory: unnamed files below ``io.tmp.dirs``.

Nobody else can see such a file, and it is gone when the process is, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO

from firesteel.common.configuration import Configuration
from firesteel.common.errors import StorageError
from firesteel.common.options import TMP_DIRS

__all__ = ["TemporaryFiles"]


class TemporaryFiles:
    """Opens files in one directory; whatever goes wrong there is a `StorageError` that names it."""

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory

    @staticmethod
    def of(configuration: Configuration, subtask: int) -> TemporaryFiles:
        """In one of the configured directories; the subtasks take turns."""
        directories = [
            each.strip() for each in (configuration.get(TMP_DIRS) or "").split(",") if each.strip()
        ]
        return TemporaryFiles(directories[subtask % len(directories)] if directories else None)

    def open(self) -> IO[bytes]:
        """A new file, which is gone when it is closed."""
        with self.explained():
            if self._directory is not None:
                os.makedirs(self._directory, exist_ok=True)
            return tempfile.TemporaryFile(prefix="firesteel-", dir=self._directory)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """For everything that is done with the files."""
        try:
            yield
        except OSError as error:
            where = self._directory or tempfile.gettempdir()
            raise StorageError(
                f"input that has to wait cannot be kept in a file in {where}: {error.strerror or error}; make room "
                f"there, or name other directories with {TMP_DIRS.key}"
            ) from error
