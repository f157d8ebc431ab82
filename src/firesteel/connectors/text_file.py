"""Lines of text files: a file, a directory or a pattern, divided among subtasks by byte ranges.

A line belongs to the range in which its first byte lies: a reader skips what is left of a line that
began before its range and finishes the one that begins in it. Ranges end anywhere, so nobody has
to look into the files to make them.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import lzma
import math
import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from firesteel.common.errors import ProgramError
from firesteel.connectors.backlog import Backlog
from firesteel.contracts.source import Polled, Source, SourceContext, SourceReader

#: Ranges are as large as an even division allows, between these two.
MIN_SPLIT_BYTES = 1 << 20
MAX_SPLIT_BYTES = 16 << 20
#: How much is read, decoded and divided into lines at once: about a millisecond of work.
BLOCK_BYTES = 1 << 18

_COMPRESSED: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file as it was when the source was built. Only splittable ones are read by several subtasks."""

    path: str
    size: int
    splittable: bool


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The lines of a file whose first byte lies in ``start`` <= position < ``end``."""

    path: str
    start: int
    end: float


class TextFileSource(Source):
    r"""Emits the lines of text files without their line ends (``\n`` or ``\r\n``).

    ``path`` is a local file, a directory (read with all below it; names that begin with ``.`` or
    ``_`` are left out) or a pattern like ``logs/*.txt``; ``file://`` addresses work too. Files ending
    in .gz, .bz2 or .xz are decompressed. Bytes that are no text in ``charset`` become U+FFFD.
    """

    def __init__(self, path: str | os.PathLike[str], charset: str = "UTF-8") -> None:
        self.charset = _known_charset(charset)
        self.path = _local_path(path)
        wide = "\n".encode(self.charset) != b"\n"
        self.files = [_text_file(name, wide) for name in _find_files(self.path)]

    def splits_of(self, subtask: int, parallelism: int) -> list[FileSplit]:
        """The splits of one subtask: contiguous in the order of the files, even by bytes."""
        total = sum(file.size for file in self.files)
        size = min(max(-(-total // parallelism), MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)
        found, before = [], 0
        for file in self.files:
            for split, middle in _splits(file, size):
                if (before + middle) * parallelism // total == subtask:
                    found.append(split)
            before += file.size
        return found

    def create_reader(self, context: SourceContext) -> SourceReader:
        """The reader of one subtask's splits."""
        return _TextReader(self.splits_of(context.subtask, context.parallelism), self.charset)


class _TextReader(SourceReader):
    def __init__(self, splits: list[FileSplit], charset: str) -> None:
        self._blocks = _read_splits(splits, charset)
        self._lines = Backlog()
        self._ended = False

    def poll(self, limit: int) -> Polled:
        """The next lines; a block is read when the last one is used up."""
        if not self._lines and not self._ended:
            block = next(self._blocks, None)
            if block is None:
                self._ended = True
            else:
                self._lines.refill(block)
        return Polled(self._lines.take(limit), ended=self._ended)

    def stop(self) -> None:
        """Leave out the rest."""
        self._lines.refill([])
        self._ended = True

    def close(self) -> None:
        """Close the file at hand."""
        self._blocks.close()


# Reading --------------------------------------------------------------------------------------------


def _read_splits(splits: list[FileSplit], charset: str) -> Generator[list[str], None, None]:
    for split in splits:
        with _open(split, charset) as file:
            yield from map(_lines_of, _blocks_of(file, split, charset))


def _open(split: FileSplit, charset: str) -> IO[Any]:
    """The file as bytes, or as text where line ends cannot be found in the bytes."""
    opener = _COMPRESSED.get(Path(split.path).suffix, open)
    if split.end < math.inf:
        file: IO[Any] = opener(split.path, "rb")
    else:
        # newline="\n" keeps "\r" as it is; _lines_of sees to it.
        file = opener(split.path, "rt", encoding=charset, errors="replace", newline="\n")
    return file


def _blocks_of(file: IO[Any], split: FileSplit, charset: str) -> Iterator[str]:
    """Texts of whole lines. Every read is completed to the end of its last line."""
    position: float = split.start
    if split.start:
        # From one byte earlier: if that is a line end, the first line begins exactly at the start.
        file.seek(split.start - 1)
        position += len(file.readline()) - 1
    while position < split.end:
        block = file.read(int(min(BLOCK_BYTES, split.end - position)))
        if not block:
            return
        if block[-1:] not in ("\n", b"\n"):
            block += file.readline()
        position += len(block)
        yield block if isinstance(block, str) else block.decode(charset, "replace")


def _lines_of(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()  # what follows the last line end is no line
    return lines


# Finding and dividing -------------------------------------------------------------------------------


def _splits(file: TextFile, size: int) -> Iterator[tuple[FileSplit, int]]:
    """The splits of a file, each with the position of its middle, by which it is assigned to a subtask."""
    if file.size and not file.splittable:
        yield FileSplit(file.path, 0, math.inf), file.size // 2
        return
    for start in range(0, file.size, size):
        end = min(start + size, file.size)
        yield FileSplit(file.path, start, end), (start + end) // 2


def _text_file(name: str, wide: bool) -> TextFile:
    splittable = not wide and Path(name).suffix not in _COMPRESSED
    return TextFile(name, os.path.getsize(name), splittable)


def _known_charset(charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError as error:
        raise ProgramError(
            f"unknown charset {charset!r}; use a name such as 'UTF-8' or 'ISO-8859-1'"
        ) from error


def _local_path(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    parts = urlsplit(text)
    if parts.scheme == "file":
        return unquote(parts.path)
    if "://" in text:
        raise ProgramError(
            f"text files are read from paths of this machine's file system, got {text!r}; "
            "mount the storage or copy the files first"
        )
    return text


def _find_files(path: str) -> list[str]:
    absolute = os.path.abspath(path)  # tasks may run in another directory
    if os.path.isfile(absolute):
        return [absolute]
    if os.path.isdir(absolute):
        return sorted(_files_below(absolute))
    found = [name for match in glob.glob(absolute, recursive=True) for name in _matched(match)]
    if not found:
        what = "no file matches the pattern" if glob.has_magic(path) else "there is no file or directory"
        raise ProgramError(f"{what} {path!r} to read text from (looked in {os.getcwd()!r})")
    return sorted(set(found))


def _matched(match: str) -> list[str]:
    return list(_files_below(match)) if os.path.isdir(match) else [match]


def _files_below(directory: str) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        yield from (os.path.join(folder, name) for name in names if not name.startswith((".", "_")))
