"""The life of a part file: in progress, closed, finished.

    .part-5d1e...-0-3.inprogress.<writer>  ->  part-5d1e...-0-3

A file in progress is appended to. When it is rolled it is closed, and stays hidden. It is finished, by renaming, when
a checkpoint that knows it is complete. After a failure a file is resumed at the length that it had at the checkpoint. A
task of the failed attempt may still be alive and write; it has a lock on the file then, and the new attempt
resumes a copy. Files of bulk formats, and files in object stores, are never in progress at a checkpoint; after a failure
nobody resumes them. Files that are to be compacted wait, closed, for as many checkpoints as it takes; then one file
with all that was in them is finished instead, and they are removed.

Who refers to a file relies on it: before a checkpoint has a file, its bytes up to the length in the checkpoint, its
name and the folders above it are on disk; before a checkpoint forgets a file, its final name is. So what cannot be
found was lost by somebody else, and that is an error, unless it can be proved that it was finished.

Proof is for the time when somebody has removed finished files. After a failure a committer gets again what was committed
before. A part file that is there under its final name needs no proof. But whoever reads the files may have moved or deleted
it, and then it looks like one that was lost. So before a committer finishes files, it writes their names into a small file
of its own:

    <base path>/.finished-parts/.<id of the committer>     {"part-5d1e...-0-*": [[0, 17]]}

Names end in numbers, which are finished one after the other: kept as ranges, the file stays small for ever. An empty file
with the name of a part file behind a dot is a proof too, made by hand.

Earlier versions renamed a file when it was rolled, to ``.part-0-3.pending.<writer>``, and finished it by a hard link. Their
checkpoints can still be resumed from.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import json
import logging
import os
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from firesteel.common._override import override
from firesteel.connectors.files.file_system import FileStatus, FileSystem, OpenFile, make_folders
from firesteel.connectors.files.paths import parent
from firesteel.connectors.number_ranges import Numbers

#: The folder of all proofs, below the base path of a sink.
PROOFS_FOLDER = ".finished-parts"

_BUFFER_BYTES = 1 << 16
_NUMBERED = re.compile(r"(.*-[0-9a-f]{16}-\d+-)(0|[1-9]\d*)(\D.*|)", re.DOTALL)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartName:
    """A part file's names in all stages of its life. ``writer`` tells apart those who write it one after another."""

    folder: str
    name: str
    writer: str

    @property
    def in_progress(self) -> str:
        """Until it is finished."""
        return os.path.join(self.folder, f".{self.name}.inprogress.{self.writer}")

    @property
    def pending(self) -> str:
        """While it waited for a checkpoint of an earlier version."""
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


@dataclass(frozen=True, slots=True)
class GatheredPart:
    """A closed part file that waits to be compacted, at a checkpoint; the ``waited``-th since it was closed."""

    part: PendingPart
    waited: int


@dataclass(frozen=True, slots=True)
class CompactedPart:
    """A part file made of others, which waits for its checkpoint; a committable of the file sink."""

    part: PendingPart
    inputs: tuple[PartName, ...]


def new_writer() -> str:
    """A name that no other writer has."""
    return uuid.uuid4().hex[:16]


# Writing ----------------------------------------------------------------------------------------------


class PartStream(io.BufferedIOBase):
    """Appends to a locked file and knows its length. ``new_name``: the file's name may not be on disk yet."""

    def __init__(self, files: FileSystem, path: str, file: OpenFile, size: int, new_name: bool) -> None:
        self._files = files
        self._path = path
        self._file: OpenFile | None = file
        self._new_name = new_name
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._is_finished = False
        self.size = size

    @classmethod
    def create(cls, files: FileSystem, path: str) -> PartStream:
        """Begin a file that must not exist."""
        make_folders(files, os.path.dirname(path))
        file = files.create(path)
        file.lock()
        return cls(files, path, file, 0, new_name=True)

    @override
    def writable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self.size

    @override
    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Append.

        Nothing happens once the file is abandoned: what encodes records may end its format when it is collected,
        as objects for compressed files do, long after anybody wants it.
        """
        if self._file is None:
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

    @override
    def flush(self) -> None:
        """Hand everything to the operating system."""
        data = memoryview(b"".join(self._pieces))
        self._pieces, self._buffered = [], 0
        while data:
            assert self._file is not None
            data = data[self._file.append(data) :]

    def persist(self) -> None:
        """Make sure that what was written survives, and the name by which it will be looked for."""
        self.flush()
        assert self._file is not None
        self._file.sync()
        if self._new_name:
            self._files.sync_folder(os.path.dirname(self._path))
            self._new_name = False

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
        if self._file is not None:
            self._file.close()
            self._file = None
            self._pieces, self._buffered = [], 0

    @override
    def close(self) -> None:
        """Nothing: whoever writes records does not decide about the file."""


def roll(name: PartName, stream: PartStream) -> PendingPart:
    """Close a file; from now on it can be finished."""
    stream.finish()
    return PendingPart(name, stream.size)


# Resuming ---------------------------------------------------------------------------------------------


def resume(files: FileSystem, part: InProgressPart) -> tuple[PartName, PartStream] | None:
    """Resume a file at its length at the checkpoint; None when it was finished since, with all it had."""
    name = part.name
    hidden = _hidden(files, name)
    if hidden is None:
        _check_that_it_was_finished(files, part)
        # The job goes back to a time before it was finished: its records have been seen and stay so.
        _LOG.warning("%s was finished after the checkpoint; its records will be written again", name.finished)
        return None
    path, _ = hidden
    file = files.open(path)
    try:
        if not file.lock():
            return _copy(files, file, part)
        _check_length(file, part)
        file.truncate(part.size)
        if path != name.in_progress:
            files.rename(path, name.in_progress)
    except BaseException:
        file.close()
        raise
    return name, PartStream(files, name.in_progress, file, part.size, new_name=path != name.in_progress)


def _check_that_it_was_finished(files: FileSystem, part: InProgressPart) -> None:
    finished = files.status_of(part.name.finished)
    if (finished is None or finished.size < part.size) and not was_finished(files, part.name.finished):
        raise FileNotFoundError(
            errno.ENOENT,
            f"the checkpoint has {part.size} bytes in a part file that is neither there in progress nor finished; they "
            f"are lost. Start from another checkpoint, or put the file back{_or_confirm([part.name])}",
            part.name.in_progress,
        )


def _copy(files: FileSystem, file: OpenFile, part: InProgressPart) -> tuple[PartName, PartStream]:
    """A new file with the beginning of one that somebody else still writes."""
    _check_length(file, part)
    name = PartName(part.name.folder, part.name.name, new_writer())
    stream = PartStream.create(files, name.in_progress)
    position = 0
    while position < part.size:
        piece = file.read(min(1 << 20, part.size - position), position)
        stream.write(piece)
        position += len(piece)
    file.close()
    return name, stream


def _check_length(file: OpenFile, part: InProgressPart) -> None:
    length = file.size()
    if length < part.size:
        raise OSError(
            errno.EIO,
            f"the part file has {length} bytes, but had {part.size} at the checkpoint; some were lost",
            part.name.in_progress,
        )


def _hidden(files: FileSystem, name: PartName) -> tuple[str, FileStatus] | None:
    """Where a file is that was not finished, and what is there."""
    for path in (name.in_progress, name.pending):
        hidden = files.status_of(path)
        if hidden is not None:
            return path, hidden
    return None


# Gathering --------------------------------------------------------------------------------------------


def still_there(files: FileSystem, part: PendingPart) -> bool:
    """Whether a file waits to be compacted; False when that was done since, and the result was finished."""
    if _hidden(files, part.name) is not None:
        return True
    if not was_finished(files, part.name.finished):
        raise _loss([(part, None)])
    # The job goes back to a time before that: its records have been seen and stay so.
    _LOG.warning("%s was compacted after the checkpoint; its records have been seen", part.name.finished)
    return False


def open_gathered(files: FileSystem, part: PendingPart) -> BinaryIO:
    """A closed file, to read from it."""
    hidden = _hidden(files, part.name)
    if hidden is None:
        raise _loss([(part, None)])
    path, status = hidden
    if status.size != part.size:
        raise _changed(path, status, part)
    return files.open_input(path)


# Finishing --------------------------------------------------------------------------------------------


Committable = PendingPart | CompactedPart


def finish(
    files: FileSystem, committables: Sequence[Committable], proofs: FinishedParts | None
) -> list[bool]:
    """Make closed files seen; for each, whether it had not been done before.

    1. Look for every file, and refuse when one is missing without a proof that it was finished, or is not as it was.
    2. Write down what will be finished (``proofs``; None when nobody can ever ask again).
    3. Give the files their final names. By renaming, which is one step: a file is never seen twice, and file systems
       without hard links can do it. It would replace a file, so names are unique, and step 1 has looked.
       In an object store it is two steps, and who finds both files knows that the first was done.
    4. See to it that the names survive, also those that were given by somebody who may have died before this.
    5. Remove the files that others were made of. They were written down in step 2, too.
    """
    parts = [each.part if isinstance(each, CompactedPart) else each for each in committables]
    inputs = {each.part.name: each.inputs for each in committables if isinstance(each, CompactedPart)}
    waiting = _look_for(files, parts)
    if proofs is not None and waiting:
        proofs.add(known.finished for name in waiting for known in (name, *inputs.get(name, ())))
    renamed = files.for_each(lambda item: _rename(files, item[1], item[0], proofs), list(waiting.items()))
    done = {name for name, was_new in zip(waiting, renamed, strict=True) if was_new}
    _sync_folders(files, parts)
    files.for_each(
        lambda name: _remove_hidden(files, name), list(itertools.chain.from_iterable(inputs.values()))
    )
    return [part.name in done for part in parts]


def _sync_folders(files: FileSystem, parts: Sequence[PendingPart]) -> None:
    if not files.resumes:
        return
    for folder in dict.fromkeys(part.name.folder for part in parts):
        if files.status_of(folder) is not None:  # else somebody has removed it, with everything in it
            files.sync_folder(folder)


def _remove_hidden(files: FileSystem, name: PartName) -> None:
    """Remove a file of which nobody knows any more, unless somebody has done so."""
    hidden = _hidden(files, name)
    if hidden is not None:
        with contextlib.suppress(FileNotFoundError):
            files.remove(hidden[0])


def _look_for(files: FileSystem, parts: Sequence[PendingPart]) -> dict[PartName, str]:
    """The files that are still hidden, and where. Looks at both names in the order in which a file has them."""
    waiting, lost = {}, []
    statuses = files.for_each(
        lambda part: (_hidden(files, part.name), files.status_of(part.name.finished)), parts
    )
    for part, (hidden, finished) in zip(parts, statuses, strict=True):
        if hidden is not None:
            if _is_to_be_finished(files, part, *hidden, finished):
                waiting[part.name] = hidden[0]
        elif (finished is None or finished.size != part.size) and not was_finished(files, part.name.finished):
            lost.append((part, finished))
    if lost:
        raise _loss(lost)
    return waiting


def _is_to_be_finished(
    files: FileSystem, part: PendingPart, path: str, hidden: FileStatus, finished: FileStatus | None
) -> bool:
    """Check a hidden file. False when it is also there under its final name.

    An earlier version did that first, and so do object stores.
    """
    if hidden == finished:
        with contextlib.suppress(FileNotFoundError):
            files.remove(path)
        return False
    if finished is not None:
        raise FileExistsError(
            errno.EEXIST,
            "a part file cannot be finished, because another file has its name",
            part.name.finished,
        )
    if hidden.size != part.size:
        raise _changed(path, hidden, part)
    return True


def _changed(path: str, status: FileStatus, part: PendingPart) -> OSError:
    return OSError(
        errno.EIO,
        f"the part file has {status.size} bytes, but had {part.size} at the checkpoint; somebody has changed it",
        path,
    )


def _rename(files: FileSystem, path: str, name: PartName, proofs: FinishedParts | None) -> bool:
    """False when another attempt, which is not dead yet, was faster."""
    try:
        files.rename(path, name.finished)
    except FileNotFoundError:
        if files.status_of(name.finished) is None and not (proofs and proofs.proved_by_others(name.finished)):
            raise
        return False
    return True


def _loss(lost: Sequence[tuple[PendingPart, FileStatus | None]]) -> FileNotFoundError:
    """What is said of files that the checkpoint has and the file system has not."""
    total = sum(part.size for part, _ in lost)
    files = ", ".join(
        f"{part.name.finished} ({part.size} bytes"
        + ("" if status is None else f"; there is a file of that name with {status.size}")
        + ")"
        for part, status in lost
    )
    return FileNotFoundError(
        errno.ENOENT,
        f"{total} bytes of records are in the checkpoint, but neither under their hidden nor under their final names: "
        f"{files}. Put the files back, or start from another checkpoint{_or_confirm([part.name for part, _ in lost])}",
        lost[0][0].name.in_progress,
    )


def _or_confirm(names: Sequence[PartName]) -> str:
    """The remedy for those who know better."""
    return (
        ". If you know that somebody has read and taken away what is missing, say so with an empty file for each: "
        + ", ".join(os.path.join(name.folder, PROOFS_FOLDER, f".{name.name}") for name in names)
    )


# Proof that files were finished -----------------------------------------------------------------------


class FinishedParts:
    """The proofs of one committer."""

    def __init__(self, files: FileSystem, base_path: str, committer: str) -> None:
        self._files = files
        self._folder = os.path.join(base_path, PROOFS_FOLDER)
        self._path = os.path.join(self._folder, f".{committer}")
        self._series: dict[str, Numbers] = {}
        self._has_folder = False

    def add(self, paths: Iterable[str]) -> None:
        """These files are going to be finished; it is on disk when this returns."""
        for path in paths:
            series, number = _numbered(path)
            self._series.setdefault(series, Numbers()).add(number)
        text = json.dumps({series: numbers.ranges for series, numbers in self._series.items()})
        if not self._has_folder:
            make_folders(self._files, self._folder)
            self._has_folder = True
        self._files.replace(self._path, text.encode())

    def proved_by_others(self, path: str) -> bool:
        """Whether another committer has finished a file."""
        return was_finished(self._files, path, self._path)


def was_finished(files: FileSystem, path: str, without: str | None = None) -> bool:
    """Whether there is a proof that a file was finished, apart from the one in a file that is given.

    Looks in all folders above: the program may have another base path now.
    """
    series, number = _numbered(path)
    folder = parent(path)
    while True:
        for proof in files.names(os.path.join(folder, PROOFS_FOLDER)):
            if proof == f".{os.path.basename(path)}":
                return True
            whole = os.path.join(folder, PROOFS_FOLDER, proof)
            if whole != without and number in _read(files, whole, series):
                return True
        if folder == parent(folder):
            return False
        folder = parent(folder)


def _read(files: FileSystem, path: str, series: str) -> Numbers:
    """The numbers of a series in a file of proofs; none when it is gone, not complete yet, or made by hand."""
    try:
        text = files.read(path)
    except FileNotFoundError:  # it is a first draft no more
        return Numbers()
    if not text or path.endswith(".new"):
        return Numbers()
    return Numbers(json.loads(text).get(series, ()))


def _numbered(path: str) -> tuple[str, int]:
    """A path as a series and a number in it; names that are not unique by themselves stay whole."""
    match = _NUMBERED.fullmatch(os.path.basename(path))
    return (f"{match[1]}*{match[3]}", int(match[2])) if match else (path, 0)
