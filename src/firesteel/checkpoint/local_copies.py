"""Local recovery: copies of keyed state on the disks of the machine that wrote it, to be read after a restart there.

A task that writes a segment of keyed state to storage writes the same bytes into a file of this machine. A task that
is restored looks there first, whatever its number and parallelism: the name of the segment decides. Storage remains
the truth:

- nothing that happens to a copy fails a checkpoint or a restart; a task warns once that it cannot write copies;
- a copy is checked against the checksums of the checkpoint as a whole, before its first block is handed out. What
  cannot be read is read from storage;
- copies are not forced to disk: one that a crash has torn is found out by its checksums.

A copy is the header of a state file and one segment. Its name is ``<digest>.<state file>.<offset>``: a digest of the
directory in which the segment lies, the name of its file (see `firesteel.checkpoint.layout`), its offset there.

**Removing.** When a checkpoint is complete, a task removes what its own subtasks have written up to then, except
the segments that the checkpoint consists of, and what earlier attempts have left behind. Removing too much costs
time after a failure and nothing else, so nobody has to agree with anybody.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from firesteel.checkpoint.blocks import HEADER_LENGTH, file_header, read_segment
from firesteel.checkpoint.storage import OutputFile, Storage
from firesteel.common.errors import FileMissingError
from firesteel.plan.state_handles import Segment

__all__ = ["LocalCopies", "SegmentCopy", "copy_name"]

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"[0-9a-f]{16}\.(\d+)-(\d+)-(\d+)-(\d+)\.\d+")


def copy_name(root: str, file: str, offset: int) -> str:
    """The name of the copy of a segment that lies in a file below ``root``."""
    directory, _, base = file.rpartition("/")
    directory_digest = hashlib.sha256(f"{root}/{directory}".encode()).hexdigest()[:16]
    return f"{directory_digest}.{base}.{offset}"


@dataclass(frozen=True, slots=True)
class _Writer:
    """Who wrote a copy, as its name says."""

    vertex: int
    subtask: int
    attempt: int
    checkpoint_id: int

    @staticmethod
    def of(name: str) -> _Writer | None:
        match = _NAME.fullmatch(name)
        return None if match is None else _Writer(*map(int, match.groups()))


class LocalCopies:
    """The copies of one job, as one of its tasks sees them.

    ``directories`` hold nothing but the copies of this job; the subtasks take turns. ``release`` is called when the
    task needs them no longer, ``warn`` the first time that a copy cannot be written. No method raises.
    """

    def __init__(
        self,
        directories: Sequence[Storage],
        attempt: int,
        *,
        release: Callable[[], object] = lambda: None,
        warn: Callable[[str], object] = _LOG.warning,
    ) -> None:
        self._directories = directories
        self._attempt = attempt
        self._release = release
        self._warn = warn
        self._has_warned = False
        #: By checkpoint, for each of this task's subtasks: the names of the segments that it refers to.
        self._chains: dict[int, dict[tuple[int, int], frozenset[str]]] = {}
        #: How many segments and bytes were read from copies.
        self.segments_read = 0
        self.bytes_read = 0

    # Writing ------------------------------------------------------------------------------------------

    def begin(self, root: str, file: str, offset: int) -> SegmentCopy:
        """Begin the copy of a segment, which lies at ``offset`` in a file below ``root``."""
        name = copy_name(root, file, offset)
        writer = _Writer.of(name)
        directory = self._directories[0 if writer is None else writer.subtask % len(self._directories)]
        return SegmentCopy(directory, name, self._not_written)

    def acknowledge(
        self, checkpoint_id: int, vertex: int, subtask: int, root: str, segments: Iterable[Segment]
    ) -> None:
        """A subtask's snapshot for a checkpoint is durable; it consists of these segments of keyed state."""
        names = frozenset(copy_name(root, segment.file, segment.offset) for segment in segments)
        self._chains.setdefault(checkpoint_id, {})[vertex, subtask] = names

    def _not_written(self, error: Exception) -> None:
        say = _LOG.debug if self._has_warned else self._warn
        self._has_warned = True
        say(
            f"a local copy of state cannot be written; a restart reads it from the checkpoint storage: {error}"
        )

    # Reading ------------------------------------------------------------------------------------------

    def read(self, root: str, segment: Segment, durable: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
        """The blocks of a segment, from its copy when there is a good one, else from storage: ``durable``."""
        name = copy_name(root, segment.file, segment.offset)
        for directory in self._directories:
            try:
                blocks = read_segment(directory, replace(segment, file=name, offset=HEADER_LENGTH))
            except FileMissingError:
                continue
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a copy, there is a better one
                self._discard_unusable(directory, name, error)
                continue
            self.segments_read += 1
            self.bytes_read += segment.length
            return self._guarded(blocks, durable, directory, name)
        return durable()

    def _guarded(
        self, blocks: Iterator[bytes], durable: Callable[[], Iterator[bytes]], directory: Storage, name: str
    ) -> Iterator[bytes]:
        """The blocks of a copy that was good when it was checked; should it fail now, storage has the rest."""
        given = 0
        try:
            for block in blocks:
                yield block
                given += 1
        except Exception as error:  # noqa: BLE001 - as above
            self._discard_unusable(directory, name, error)
        else:
            return
        yield from itertools.islice(durable(), given, None)

    def _discard_unusable(self, directory: Storage, name: str, error: Exception) -> None:
        _LOG.info("a local copy of state cannot be used, it is read from the checkpoint storage: %s", error)
        _delete(directory, name)

    # Removing -----------------------------------------------------------------------------------------

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: earlier ones are needed no longer, except what it builds on."""
        chains = self._chains.pop(checkpoint_id, None)
        if chains is None:
            return  # a savepoint, or news that comes late
        self._chains = {number: later for number, later in self._chains.items() if number > checkpoint_id}

        def is_obsolete(name: str, writer: _Writer) -> bool:
            if writer.checkpoint_id > checkpoint_id:
                return False
            mine = chains.get((writer.vertex, writer.subtask))
            return writer.attempt < self._attempt if mine is None else name not in mine

        self._remove(is_obsolete)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted: what this attempt has copied for it goes."""
        self._chains.pop(checkpoint_id, None)
        self._remove(
            lambda _, writer: writer.checkpoint_id == checkpoint_id and writer.attempt == self._attempt
        )

    def end_job(self) -> None:
        """The job is over, it will not start again: remove everything, and `close`."""
        for directory in self._directories:
            try:
                directory.delete_directory()
            except Exception as error:  # noqa: BLE001 - another task may be doing the same
                _LOG.debug("local copies of state cannot be removed: %s", error)
        self.close()

    def close(self) -> None:
        """The task ends; its copies stay for its successor."""
        self._release()

    def _remove(self, is_obsolete: Callable[[str, _Writer], bool]) -> None:
        for directory in self._directories:
            try:
                names = directory.list()
            except Exception as error:  # noqa: BLE001 - what is left over does no harm
                _LOG.debug("local copies of state cannot be listed: %s", error)
                continue
            for name in names:
                writer = _Writer.of(name)
                if writer is not None and is_obsolete(name, writer):
                    _delete(directory, name)


def _delete(directory: Storage, name: str) -> None:
    try:
        directory.delete(name)
    except Exception as error:  # noqa: BLE001 - what is left over does no harm
        _LOG.debug("a local copy of state cannot be removed: %s", error)


class SegmentCopy:
    """A copy being written. When something fails there is no copy, and ``warn`` hears why; nothing is raised."""

    def __init__(self, directory: Storage, name: str, warn: Callable[[Exception], None]) -> None:
        self._directory = directory
        self._name = name
        self._warn = warn
        self._output: OutputFile | None = None
        self._try(self._begin)

    def write(self, data: bytes) -> None:
        """Append bytes of the segment."""
        if (output := self._output) is not None:
            self._try(lambda: output.write(data))

    def close(self) -> None:
        """The segment is complete."""
        if (output := self._output) is not None:
            self._try(output.close)
            self._output = None

    def discard(self) -> None:
        """Delete the copy, complete or not."""
        self._abandon()
        _delete(self._directory, self._name)

    def _begin(self) -> None:
        self._directory.delete(self._name)  # left by a job with this id whose checkpoints were deleted
        self._output = self._directory.create(self._name)
        self._output.write(file_header())

    def _abandon(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            try:
                output.abort()
            except Exception as error:  # noqa: BLE001 - what is left over does no harm
                _LOG.debug("a local copy of state cannot be removed: %s", error)

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - a copy never makes a checkpoint fail
            self._abandon()
            self._warn(error)
