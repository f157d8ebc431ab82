"""How small part files become larger ones, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from firesteel.common._override import override
from firesteel.common.errors import ProgramError

_PIECE_BYTES = 1 << 20


class CompactInput(Protocol):
    """A file to be compacted."""

    def open(self) -> BinaryIO:
        """Open it, to read from its beginning."""
        ...


class FileCompactor(ABC):
    """Makes one file of several. It must keep all records, and only once; the order of the files is that of their ends."""

    @abstractmethod
    def compact(self, inputs: Sequence[CompactInput], stream: BinaryIO, write: Callable[[Any], None]) -> None:
        """Write all that is in some files: to ``stream``, or record by record with ``write``, which uses the sink's format.

        Use one of the two. The stream is not to be closed.
        """

    @property
    def writes_records(self) -> bool:
        """Whether it uses ``write``."""
        return False

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Put files one behind the other, with something behind each of them if that is given."""
        return ConcatFileCompactor(file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Copy a file; more than one are refused."""
        return IdenticalFileCompactor()


class OutputStreamBasedFileCompactor(FileCompactor):
    """Makes the bytes of a file out of the bytes of several."""

    @override
    def compact(self, inputs: Sequence[CompactInput], stream: BinaryIO, write: Callable[[Any], None]) -> None:
        self.do_compact(inputs, stream)

    @abstractmethod
    def do_compact(self, inputs: Sequence[CompactInput], stream: BinaryIO) -> None:
        """Write what is in some files to a stream."""


class ConcatFileCompactor(OutputStreamBasedFileCompactor):
    """One file behind the other, for formats in which that is a file again, such as lines of text."""

    def __init__(self, file_delimiter: bytes | None = None) -> None:
        if file_delimiter is not None and not isinstance(file_delimiter, bytes):
            raise ProgramError(
                f"the delimiter of a ConcatFileCompactor must be bytes, got {file_delimiter!r}; for example b'\\n'"
            )
        self._delimiter = file_delimiter

    @override
    def do_compact(self, inputs: Sequence[CompactInput], stream: BinaryIO) -> None:
        for each in inputs:
            _copy(each, stream)
            if self._delimiter is not None:
                stream.write(self._delimiter)


class IdenticalFileCompactor(OutputStreamBasedFileCompactor):
    """A copy of the only file."""

    @override
    def do_compact(self, inputs: Sequence[CompactInput], stream: BinaryIO) -> None:
        if len(inputs) != 1:
            raise ProgramError(
                f"an IdenticalFileCompactor copies one file, got {len(inputs)}; use FileCompactor.concat_file_compactor() or a "
                "RecordWiseFileCompactor"
            )
        _copy(inputs[0], stream)


class RecordWiseFileCompactor(FileCompactor):
    """Reads the records of all files and writes them with the sink's format, for formats that cannot be put together.

    ``reader`` gives the records of an open file, as the sink would be given them.
    """

    def __init__(self, reader: Callable[[BinaryIO], Iterable[Any]]) -> None:
        if not callable(reader):
            raise ProgramError(
                f"a RecordWiseFileCompactor needs a function that gives the records of an open file, got {reader!r}"
            )
        self._reader = reader

    @property
    @override
    def writes_records(self) -> bool:
        return True

    @override
    def compact(self, inputs: Sequence[CompactInput], stream: BinaryIO, write: Callable[[Any], None]) -> None:
        for each in inputs:
            with each.open() as file:
                for record in self._reader(file):
                    write(record)


def _copy(given: CompactInput, stream: BinaryIO) -> None:
    with given.open() as file:
        while piece := file.read(_PIECE_BYTES):
            stream.write(piece)


@dataclass(frozen=True)
class FileCompactStrategy:
    """When the files of a bucket are compacted: at a number of checkpoints, or when they are large enough together.

    >>> FileCompactStrategy.builder().enable_compaction_on_checkpoint(5).set_size_threshold(1 << 20).build()
    FileCompactStrategy(size_threshold=1048576, num_checkpoints_before_compaction=5, num_compact_threads=1)
    """

    size_threshold: int = -1
    num_checkpoints_before_compaction: int = -1
    num_compact_threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Build one step by step."""
        return FileCompactStrategy.Builder()

    def is_due(self, size: int, waited: int) -> bool:
        """Whether files of a size, of which the oldest has waited for some checkpoints, are to be compacted."""
        is_large = 0 <= self.size_threshold <= size
        return is_large or 0 < self.num_checkpoints_before_compaction <= waited

    class Builder:
        """Collects when files are compacted; unless told, never, which `build` refuses."""

        def __init__(self) -> None:
            self._size = self._checkpoints = -1
            self._threads = 1

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compact as soon as files have that many bytes together."""
            self._size = _checked("the size threshold", size_threshold, least=0)
            return self

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Compact when a file has waited for that many checkpoints."""
            self._checkpoints = _checked("the number of checkpoints", num_checkpoints_before_compaction)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """How many buckets a subtask compacts at the same time."""
            self._threads = _checked("the number of threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy; one that would never compact is refused."""
            if self._size < 0 and self._checkpoints < 0:
                raise ProgramError(
                    "a FileCompactStrategy must say when files are compacted; call enable_compaction_on_checkpoint() or "
                    "set_size_threshold(), or both"
                )
            return FileCompactStrategy(self._size, self._checkpoints, self._threads)


def _checked(what: str, value: int, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ProgramError(
            f"{what} of a FileCompactStrategy must be a whole number of at least {least}, got {value!r}"
        )
    return value
