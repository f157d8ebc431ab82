"""The life of a part file: in progress, pending, finished.

    .part-0-3.inprogress.<id>  ->  .part-0-3.pending.<id>  ->  part-0-3

A file in progress is appended to. When it is rolled it becomes pending: complete, but hidden. It is finished, by
renaming, when a checkpoint that knows it is complete. After a failure a file goes on at the length that it had at
the checkpoint. A task of the failed attempt may still be alive and write; it has a lock on the file then, and the
new attempt goes on with a copy. Files of bulk formats are never in progress at a checkpoint; after a failure nobody
goes on with them.
"""

from __future__ import annotations

import errno
import fcntl
import io
import logging
import os
import uuid
from dataclasses import dataclass

_BUFFER_BYTES = 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartName:
    """A part file's names in all stages of its life. ``writer`` tells apart those who write it one after another."""

    folder: str
    name: str
    writer: str

    @property
    def in_progress(self) -> str:
        """While it is written."""
        return os.path.join(self.folder, f".{self.name}.inprogress.{self.writer}")

    @property
    def pending(self) -> str:
        """While it waits for a checkpoint."""
        return os.path.join(self.folder, f".{self.name}.pending.{self.writer}")

    @property
    def finished(self) -> str:
        """For ever."""
        return os.path.join(self.folder, self.name)


@dataclass(frozen=True, slots=True)
class PendingPart:
    """A part file that waits for its checkpoint; the committable of the file sink."""

    name: PartName
    size: int


@dataclass(frozen=True, slots=True)
class InProgressPart:
    """A part file that is being written, at a checkpoint; times in milliseconds."""

    bucket_id: str
    name: PartName
    size: int
    created: int
    updated: int


class PartStream(io.BufferedIOBase):
    """Appends to a locked file and knows its length."""

    def __init__(self, descriptor: int, size: int = 0) -> None:
        self._descriptor = descriptor
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._is_finished = False
        self.size = size

    @classmethod
    def create(cls, path: str) -> PartStream:
        """Begin a file that must not exist."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(descriptor)

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The length so far."""
        return self.size

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Append.

        Nothing happens once the file is abandoned: what encodes records may end its format when it is collected,
        as objects for compressed files do, long after anybody wants it.
        """
        if self._descriptor < 0:
            self._refuse_late_write()
            return len(data)
        piece = data if type(data) is bytes else bytes(data)
        length = len(piece)
        self._pieces.append(piece)
        self._buffered += length
        self.size += length
        if self._buffered >= _BUFFER_BYTES:
            self.flush()
        return length

    def flush(self) -> None:
        """Hand everything to the operating system."""
        data = memoryview(b"".join(self._pieces))
        self._pieces, self._buffered = [], 0
        while data:
            data = data[os.write(self._descriptor, data) :]

    def persist(self) -> None:
        """Make sure that what was written survives."""
        self.flush()
        os.fsync(self._descriptor)

    def finish(self) -> None:
        """Persist and close."""
        self.persist()
        self.abandon()
        self._is_finished = True

    def _refuse_late_write(self) -> None:
        if self._is_finished:
            raise ValueError(
                "a part file was written to after it had been closed; a bulk writer must write everything in finish(), "
                "an encoder in encode()"
            )

    def abandon(self) -> None:
        """Close without caring for what was not handed over."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._pieces, self._buffered = [], 0

    def close(self) -> None:
        """Nothing: whoever writes records does not decide about the file."""


def resume(part: InProgressPart) -> tuple[PartName, PartStream] | None:
    """Go on with a file at its length at the checkpoint; None when it was finished since, with all it had."""
    name = part.name
    try:
        if not os.path.exists(name.in_progress):
            os.rename(name.pending, name.in_progress)  # it was rolled after the checkpoint
        descriptor = os.open(name.in_progress, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError as error:
        if os.path.exists(name.finished):
            # The job goes back to a time before it was finished: its records have been seen and stay so.
            _log.warning(
                "%s was finished after the checkpoint; its records will be written again", name.finished
            )
            return None
        raise FileNotFoundError(
            errno.ENOENT,
            f"the checkpoint has {part.size} bytes in a part file that is neither there in progress nor pending nor "
            "finished; they are lost. Start from another checkpoint, or put the file back",
            name.in_progress,
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _copy(descriptor, part)
    _check_length(descriptor, part)
    os.truncate(descriptor, part.size)
    return name, PartStream(descriptor, part.size)


def _copy(descriptor: int, part: InProgressPart) -> tuple[PartName, PartStream]:
    """A new file with the beginning of one that somebody else still writes."""
    try:
        _check_length(descriptor, part)
        name = PartName(part.name.folder, part.name.name, new_writer())
        stream = PartStream.create(name.in_progress)
        position = 0
        while position < part.size:
            piece = os.pread(descriptor, min(1 << 20, part.size - position), position)
            stream.write(piece)
            position += len(piece)
        return name, stream
    finally:
        os.close(descriptor)


def _check_length(descriptor: int, part: InProgressPart) -> None:
    length = os.fstat(descriptor).st_size
    if length < part.size:
        raise OSError(
            errno.EIO,
            f"the part file has {length} bytes, but had {part.size} at the checkpoint; some were lost",
            part.name.in_progress,
        )


def roll(name: PartName, stream: PartStream) -> PendingPart:
    """Close a file; from now on it can be finished."""
    stream.finish()
    os.rename(name.in_progress, name.pending)
    return PendingPart(name, stream.size)


def finish(part: PendingPart) -> bool:
    """Make a pending file seen; False when that had been done before."""
    name = part.name
    try:
        os.link(name.pending, name.finished)  # unlike renaming, it never replaces a file
    except FileNotFoundError:
        if not os.path.exists(name.finished):
            _log.warning("%s is gone; it seems that it was finished and taken away", name.finished)
        return False
    except FileExistsError:
        if not os.path.samefile(name.pending, name.finished):
            raise
        os.unlink(name.pending)
        return False
    os.unlink(name.pending)
    _sync_folder(name.folder)
    return True


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_writer() -> str:
    """A name that no other writer has."""
    return uuid.uuid4().hex[:16]
