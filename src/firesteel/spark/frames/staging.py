"""The folder through which tasks hand the records of completed checkpoints to the driver, so that either may be killed.

::

    <directory>/<job>/parts/<unique>.parquet       written by a task, part of a checkpoint once that is complete
    <directory>/<job>/released/<checkpoint>/0-of-2   the checkpoint is complete, and these are the parts of writer 0
    <directory>/<job>/written                      up to which checkpoint everything was written by the driver
    <directory>/failed                             why the driver could not write

Everything is on disk before anybody relies on it: parts before a checkpoint has them, a release before the task forgets
its parts, ``written`` before the parts are removed.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from firesteel.common._folder_sync import sync_folder
from firesteel.common.errors import CorruptStateError

_NOTHING_YET = -1

#: By folder, who writes what was released as soon as it is: in the simulator, where tasks and driver are one thread, nobody
#: could wait for another.
writers_at_once: dict[str, Callable[[], None]] = {}


@dataclass(frozen=True, slots=True)
class StagedRecords:
    """What one writer has staged for a checkpoint. ``last``: at the end of its input."""

    home: str
    writer: int
    writers: int
    parts: tuple[str, ...] = ()
    rows: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class ReleasedCheckpoint:
    """The records of a completed checkpoint, of all its writers."""

    home: str
    checkpoint_id: int
    parts: tuple[str, ...] = field(default=())
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """What kept the driver from writing, and where."""

    reason: str
    function: str
    traceback: str


class Home:
    """The folder of one job, in which it has staged and will look for what was written."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def new_part(self) -> Path:
        """A name for a part, in a folder that exists."""
        folder = self.path / "parts"
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            for above in (self.path.parent, self.path):
                sync_folder(above)
        return folder / f"{uuid.uuid4().hex}.parquet"

    def release(self, checkpoint_id: int, staged: StagedRecords) -> None:
        """The checkpoint is complete; again is the same as once."""
        if checkpoint_id <= self.written_up_to():
            return
        folder = self._released / f"{checkpoint_id:020d}"
        path = folder / f"{staged.writer}-of-{staged.writers}"
        text = json.dumps(asdict(staged))
        if path.exists():
            if path.read_text() != text:
                raise CorruptStateError(
                    f"checkpoint {checkpoint_id} was complete before, with other records; two jobs must not share a "
                    "staging directory",
                    file=str(path),
                )
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for above in (self.path, self._released):
                sync_folder(above)
            _write(path, text)
        except FileNotFoundError:
            if checkpoint_id > self.written_up_to():  # else the driver has removed the folder meanwhile
                raise

    def released(self) -> list[ReleasedCheckpoint]:
        """What is to be written, oldest first: up to the first checkpoint that not all writers have released yet."""
        checkpoints: list[ReleasedCheckpoint] = []
        written = self.written_up_to()
        for folder in sorted(self._released.glob("*")):
            checkpoint_id = int(folder.name)
            if checkpoint_id <= written:
                shutil.rmtree(folder, ignore_errors=True)
                continue
            entries = list(_entries(folder))
            if not entries or len(entries) < entries[0].writers:
                break
            parts = tuple(part for entry in entries for part in entry.parts)
            rows = sum(entry.rows for entry in entries)
            checkpoints.append(ReleasedCheckpoint(str(self.path), checkpoint_id, parts, rows))
        return checkpoints

    def waiting(self) -> int:
        """How many checkpoints wait to be written."""
        return sum(1 for _ in self._released.glob("*"))

    def written_up_to(self) -> int:
        """The newest checkpoint that was written; -1 for none."""
        try:
            return int((self.path / "written").read_text())
        except FileNotFoundError:
            return _NOTHING_YET

    def mark_written(self, released: ReleasedCheckpoint) -> None:
        """It was written: its records are not needed any more."""
        _write(self.path / "written", str(released.checkpoint_id))
        shutil.rmtree(self._released / f"{released.checkpoint_id:020d}", ignore_errors=True)
        for part in released.parts:
            Path(part).unlink(missing_ok=True)

    @property
    def _released(self) -> Path:
        return self.path / "released"


class Staging:
    """The whole folder: those of all jobs that have used it, one after the other."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def home(self, job_id: str) -> Home:
        """The folder of a job."""
        return Home(self.directory / job_id)

    def released(self) -> Iterator[ReleasedCheckpoint]:
        """What is to be written, of all jobs: one that was killed may have left something behind."""
        for path in sorted(self.directory.glob("*")):
            if path.is_dir():
                yield from Home(path).released()

    def failure(self) -> Failure | None:
        """Why the driver could not write; None when it could."""
        try:
            return Failure(**json.loads(self._failed.read_text()))
        except FileNotFoundError:
            return None

    def report_failure(self, failure: Failure) -> None:
        """The driver could not write, and waits until somebody wants it to try again."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self._failed, json.dumps(asdict(failure)))

    def forget_failure(self) -> None:
        """Let the driver try again."""
        self._failed.unlink(missing_ok=True)

    @property
    def _failed(self) -> Path:
        return self.directory / "failed"


def _entries(folder: Path) -> Iterator[StagedRecords]:
    for path in sorted(folder.glob("*-of-*")):
        fields = json.loads(path.read_text())
        yield StagedRecords(**{**fields, "parts": tuple(fields["parts"])})


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and on disk afterwards."""
    draft = path.with_name(f"draft-{uuid.uuid4().hex}")  # a name that nobody looks for
    with open(draft, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)
