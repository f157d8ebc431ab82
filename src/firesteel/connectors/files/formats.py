"""How records are read from files. A format gives the records of a split in blocks, each with a place to resume at."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from firesteel.common.errors import ProgramError
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.connectors.files.splits import FileSplit

#: How much is read, decoded and divided into lines at once: about a millisecond of work.
BLOCK_BYTES = 1 << 18

_COMPRESSED: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


@dataclass(frozen=True, slots=True)
class Block:
    """Some records. Whoever has the first n of them resumes ``skip + n`` records behind ``offset``."""

    values: list[Any]
    offset: int
    skip: int = 0


class StreamFormat(ABC):
    """How a file is read record by record."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """Whether a file can be read from the middle."""

    @abstractmethod
    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """The records of a split, from its ``offset`` on when it has one; closing the generator closes the file."""

    def get_produced_type(self) -> TypeInformation | None:
        """The declared type of the records."""
        return None

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        r"""Lines of text without their ends (``\n`` or ``\r\n``); .gz, .bz2 and .xz are decompressed."""
        return TextLineFormat(charset_name)


class TextLineFormat(StreamFormat):
    """Lines of text. Bytes that are no text in ``charset`` become U+FFFD."""

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            self.charset = codecs.lookup(charset).name
        except LookupError as error:
            raise ProgramError(
                f"unknown charset {charset!r}; use a name such as 'UTF-8' or 'ISO-8859-1'"
            ) from error
        self._is_wide = "\n".encode(self.charset) != b"\n"

    def is_splittable(self, path: str) -> bool:
        """Where line ends can be found in the bytes."""
        return not self._is_wide and Path(path).suffix not in _COMPRESSED

    def get_produced_type(self) -> TypeInformation:
        """Texts."""
        return Types.STRING()

    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """Lines, a block of the file at a time."""
        opener = _COMPRESSED.get(Path(split.path).suffix, open)
        if split.end < math.inf:
            with opener(split.path, "rb") as file:
                yield from self._byte_blocks(file, split)
        else:
            # newline="\n" keeps "\r" as it is; _lines_of sees to it.
            with opener(split.path, "rt", encoding=self.charset, errors="replace", newline="\n") as file:
                yield from _text_blocks(file)

    def _byte_blocks(self, file: IO[bytes], split: FileSplit) -> Iterator[Block]:
        """A line belongs to the split in which its first byte lies, wherever that ends: nobody has to look first."""
        position = _first_line(file, split)
        while position < split.end:
            block = _whole_lines(file, int(min(BLOCK_BYTES, split.end - position)))
            if not block:
                return
            yield Block(_lines_of(block.decode(self.charset, "replace")), position)
            position += len(block)


def _first_line(file: IO[bytes], split: FileSplit) -> int:
    """Go to the first line of a split, or to where reading resumes; the position there."""
    if split.offset is not None:
        file.seek(split.offset)
        return split.offset
    if split.start == 0:
        return 0
    # From one byte earlier: if that is a line end, the first line begins exactly at the start.
    file.seek(split.start - 1)
    return split.start - 1 + len(file.readline())


def _text_blocks(file: IO[str]) -> Iterator[Block]:
    """Without positions: reading resumes by counting lines from the beginning."""
    count = 0
    while text := _whole_lines(file, BLOCK_BYTES):
        lines = _lines_of(text)
        yield Block(lines, 0, count)
        count += len(lines)


def _whole_lines(file: IO[Any], size: int) -> Any:
    """About so much of a file, completed to the end of its last line."""
    block = file.read(size)
    if block and block[-1:] not in ("\n", b"\n"):
        block += file.readline()
    return block


def _lines_of(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()  # what follows the last line end is no line
    return lines
