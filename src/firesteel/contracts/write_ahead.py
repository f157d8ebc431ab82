"""A sink that keeps its records in checkpoints and sends them when the checkpoint is complete.

Works with every outside system, as it needs no transactions. It is not quite exactly once: when the task dies while
it sends, or before it has noted that it sent, the records are sent again. So they are when a job starts from a savepoint
that is not its last, as they come again then.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic

from firesteel.common._folder_sync import sync_folder
from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.contracts.functions import Function

__all__ = ["CheckpointCommitter", "FileCheckpointCommitter", "GenericWriteAheadSink"]

IN = TypeVar("IN", contravariant=True, default=Any)


class CheckpointCommitter(ABC):
    """Notes, somewhere outside the job, which checkpoints a subtask's records have been sent of.

    It cannot be the job's own state, because that goes back to an earlier checkpoint after a failure.

    Every start of a task has notes of its own: numbers of checkpoints begin again when a job does, and two jobs that start
    from one savepoint both continue counting from there. Records keep with them which notes are theirs. For those of an
    earlier start there is a copy of the committer, as it was when the program was built.
    """

    job_id: str
    operator_id: str

    def set_job_id(self, job_id: str) -> None:
        """Learn whose notes these are: the id of the job, and what tells its starts apart; the first call."""
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
        """Note that the records of a subtask for a checkpoint have been sent; 0: forget all notes, a task starts."""

    @abstractmethod
    def is_checkpoint_committed(self, subtask: int, checkpoint_id: int) -> bool:
        """Whether the records of a subtask for a checkpoint have been sent."""

    def close(self) -> None:
        """Called once at the end."""


#: Checkpoints without a gap are one range: a gap is a checkpoint for which a subtask had no records.
_RANGES_KEPT = 1000


class FileCheckpointCommitter(CheckpointCommitter):
    """Keeps notes in small files of a directory that all tasks can reach.

    They are needed for as long as a job may start from a checkpoint or savepoint of their time.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.path.abspath(directory)

    @override
    def create_resource(self) -> None:
        """Make the directory; it is on disk before there are notes in it."""
        Path(self._directory).mkdir(parents=True, exist_ok=True)
        sync_folder(Path(self._directory).parent)

    @property
    def _folder(self) -> Path:
        return Path(self._directory, self.job_id, self.operator_id)

    @override
    def commit_checkpoint(self, subtask: int, checkpoint_id: int) -> None:
        if not checkpoint_id:
            (self._folder / str(subtask)).unlink(missing_ok=True)
            return
        if not self._folder.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self._folder.parent.parent)
            sync_folder(self._folder.parent)
        ranges = _with(checkpoint_id, self._ranges(subtask))[-_RANGES_KEPT:]
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as file:
            file.write(" ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges))
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self._folder / str(subtask))
        sync_folder(self._folder)  # else the records are sent again after a power loss

    @override
    def is_checkpoint_committed(self, subtask: int, checkpoint_id: int) -> bool:
        return any(first <= checkpoint_id <= last for first, last in self._ranges(subtask))

    def _ranges(self, subtask: int) -> list[tuple[int, int]]:
        try:
            notes = (self._folder / str(subtask)).read_text().split()
        except FileNotFoundError:
            return []
        return [
            (int(first), int(last or first)) for first, _, last in (note.partition("-") for note in notes)
        ]


def _with(number: int, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges and the number, in order; neighbours become one.

    >>> _with(4, [(1, 3), (5, 5), (9, 9)])
    [(1, 5), (9, 9)]
    """
    spans: list[tuple[int, int]] = []
    for first, last in sorted([*ranges, (number, number)]):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return spans


class GenericWriteAheadSink(Function, Generic[IN]):
    """Base of sinks that send the records of a checkpoint when it is complete.

    ``committer`` notes what was sent. ``job_id`` is how the notes are named; without one by the id of the running job.
    Records that wait in a checkpoint or savepoint say by themselves where notes about them are.
    """

    def __init__(self, committer: CheckpointCommitter, job_id: str | None = None) -> None:
        self.committer = committer
        self.job_id = job_id

    @abstractmethod
    def send_values(self, values: Iterable[IN], checkpoint_id: int, timestamp: int, /) -> bool:
        """Write the records of a completed checkpoint; False when it did not work and is to be tried again.

        ``timestamp`` is when the checkpoint was taken, in milliseconds.
        """
