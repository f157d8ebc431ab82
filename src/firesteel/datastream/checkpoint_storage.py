"""Where checkpoints are kept."""

from __future__ import annotations

from abc import ABC

from firesteel.common._override import override
from firesteel.common.errors import ProgramError

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]


def _clean(path: str | None) -> str | None:
    """A path as Flink shows it: without a slash at the end."""
    if path is None:
        return None
    return path.rstrip("/") if path.rstrip("/") and not path.endswith("://") else path


class CheckpointStorage(ABC):  # noqa: B024 - a marker, as in Flink
    """Says where checkpoints are kept: one of the classes below."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """In the driver's memory; gone with the driver.

    >>> JobManagerCheckpointStorage().get_max_state_size()
    5242880
    """

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if size <= 0:
            raise ProgramError(f"max_state_size must be greater than 0, got {size}")
        self._checkpoint_path = _clean(checkpoint_path)
        self._max_state_size = size

    def get_checkpoint_path(self) -> str | None:
        """Where metadata is written, None for nowhere."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """The largest state of one task in bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Where savepoints go by default, None when it was not set."""
        return None

    @override
    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage(path={self._checkpoint_path}, max_state_size={self._max_state_size})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """In a directory of a file system that driver and workers share.

    >>> FileSystemCheckpointStorage("s3://bucket/checkpoints/").get_checkpoint_path()
    's3://bucket/checkpoints'
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024
    _DEFAULT_THRESHOLD = 20 * 1024
    _DEFAULT_WRITE_BUFFER = 4096

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        path = _clean(checkpoint_path)
        if not path:
            raise ProgramError(
                "a file system checkpoint storage needs a directory, e.g. 's3://bucket/checkpoints'"
            )
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        if not -1 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ProgramError(
                f"file_state_size_threshold must be between -1 and {self.MAX_FILE_STATE_THRESHOLD}, got {threshold}"
            )
        self._checkpoint_path = path
        self._threshold = self._DEFAULT_THRESHOLD if threshold == -1 else threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The directory, or its URI; each job has one of its own in it."""
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """Where savepoints go by default, None when it was not set."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """State smaller than this is kept with the metadata."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Size of the buffers state is written through."""
        if self._write_buffer_size < 0:
            return max(self._threshold, self._DEFAULT_WRITE_BUFFER)
        return self._write_buffer_size

    @override
    def __str__(self) -> str:
        return f"FileSystemCheckpointStorage(path={self._checkpoint_path})"


class CustomCheckpointStorage(CheckpointStorage):
    """A storage that Firesteel does not know."""

    def __init__(self, storage: object) -> None:
        self._storage = storage
