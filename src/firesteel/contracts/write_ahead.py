"""A sink that keeps its records in checkpoints and sends them when the checkpoint is complete.

Works with every outside system, as it needs no transactions. It is not quite exactly once: when the task dies while
it sends, or before it has noted that it sent, the records are sent again.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from firesteel.contracts.functions import Function

__all__ = ["CheckpointCommitter", "FileCheckpointCommitter", "GenericWriteAheadSink"]


class CheckpointCommitter(ABC):
    """Notes, somewhere outside the job, which checkpoints a subtask's records have been sent of.

    It cannot be the job's own state, because that goes back to an earlier checkpoint after a failure.
    """

    job_id: str
    operator_id: str

    def set_job_id(self, job_id: str) -> None:
        """Learn which job this is; the first call."""
        self.job_id = job_id

    def set_operator_id(self, operator_id: str) -> None:
        """Learn which sink of the job this is; the second call."""
        self.operator_id = operator_id

    def create_resource(self) -> None:
        """Make the place where notes are kept, unless it exists; before `open`."""

    def open(self) -> None:
        """Called once before the first note."""

    @abstractmethod
    def commit_checkpoint(self, subtask: int, checkpoint_id: int) -> None:
        """Note that the records of a subtask for a checkpoint have been sent; 0: forget all notes, a job starts."""

    @abstractmethod
    def is_checkpoint_committed(self, subtask: int, checkpoint_id: int) -> bool:
        """Whether the records of a subtask for a checkpoint have been sent."""

    def close(self) -> None:
        """Called once at the end."""


#: Only the checkpoint that a job continues from is ever asked for, and the few that were pending with it.
_NOTES_KEPT = 100


class FileCheckpointCommitter(CheckpointCommitter):
    """Keeps notes in small files of a directory that all tasks can reach."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.path.abspath(directory)

    def create_resource(self) -> None:
        """Make the directory."""
        self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def _folder(self) -> Path:
        return Path(self._directory, self.job_id, self.operator_id)

    def commit_checkpoint(self, subtask: int, checkpoint_id: int) -> None:
        """Replace the subtask's file."""
        notes = [*self._notes(subtask), checkpoint_id][-_NOTES_KEPT:] if checkpoint_id else []
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as file:
            file.write(" ".join(map(str, notes)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self._folder / str(subtask))

    def is_checkpoint_committed(self, subtask: int, checkpoint_id: int) -> bool:
        """Read the subtask's file."""
        return checkpoint_id in self._notes(subtask)

    def _notes(self, subtask: int) -> list[int]:
        try:
            return [int(note) for note in (self._folder / str(subtask)).read_text().split()]
        except FileNotFoundError:
            return []


class GenericWriteAheadSink(Function):
    """Base of sinks that send the records of a checkpoint when it is complete.

    ``committer`` notes what was sent. ``job_id`` identifies the notes across restarts of the program; without one it
    is the id of the running job, which a job keeps when it is restarted after a failure.
    """

    def __init__(self, committer: CheckpointCommitter, job_id: str | None = None) -> None:
        self.committer = committer
        self.job_id = job_id

    @abstractmethod
    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        """Write the records of a completed checkpoint; False when it did not work and is to be tried again.

        ``timestamp`` is when the checkpoint was taken, in milliseconds.
        """
