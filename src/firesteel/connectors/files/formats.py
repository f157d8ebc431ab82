"""How records are read from files. A format gives the records of a split in blocks, each with a position to resume at."""

from __future__ import annotations

import codecs
import math
from abc import ABC
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from typing import IO, Any, BinaryIO, Generic

from firesteel.common._override import override
from firesteel.common._promises import promise_only_for
from firesteel.common._type_variables import TypeVar
from firesteel.common._values import private_all
from firesteel.common.errors import ProgramError
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.connectors.files import line_blocks as lines
from firesteel.connectors.files.opening import open_decompressed
from firesteel.connectors.files.splits import FileSplit

T = TypeVar("T", covariant=True, default=Any)

#: How many records of a format of one's own are read at once.
BLOCK_RECORDS = 1024


@dataclass(frozen=True, slots=True)
class Block:
    """Some records. Whoever has the first n of them resumes ``skip + n`` records behind ``offset``.

    ``passed``: how many records behind the position at which reading resumed were passed over before these, and since the
    block before; for formats that can do so without reading them.
    """

    values: list[Any]
    offset: int
    skip: int = 0
    passed: int = 0


class FileFormat(ABC, Generic[T]):
    """How files are read: the base of `StreamFormat` and `BulkFormat`.

    The simplest one has `read_records`. One that can do more has `blocks` and `is_splittable`: it can begin in the middle of a
    file, and resume at a position instead of counting records. Formats are pickled.
    """

    #: A promise: no record is kept, changed or given twice, or none can change. So nobody has to copy them.
    gives_away: bool = False

    @override
    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        promise_only_for(cls, "read_records", "blocks")

    def is_splittable(self, path: str) -> bool:
        """Whether a file can be read from the middle."""
        return False

    def read_records(self, file: BinaryIO) -> Iterable[T]:
        """The records of a whole file, which is decompressed if its name says that it is compressed."""
        raise NotImplementedError(f"{type(self).__name__} must have a method read_records or blocks")

    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """The records of a split, from its ``offset`` on when it has one; closing the generator closes the file."""
        with open_decompressed(split.path) as file:
            records, count = iter(self.read_records(file)), 0
            keep = list if self.gives_away else private_all
            while values := keep(islice(records, BLOCK_RECORDS)):
                size = len(values)
                yield Block(values, 0, count)
                count += size

    def get_produced_type(self) -> TypeInformation | None:
        """The declared type of the records."""
        return None


class StreamFormat(FileFormat[T]):
    """How a file is read record by record; see `FileFormat`."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat[str]:
        r"""Lines of text without their ends (``\n`` or ``\r\n``); .gz, .bz2, .xz and .zst are decompressed."""
        return TextLineFormat(charset_name)


class BulkFormat(FileFormat[T]):
    """How a file is read many records at a time; see `FileFormat`."""


class TextLineFormat(StreamFormat[str]):
    """Lines of text. Bytes that are no text in ``charset`` become U+FFFD."""

    gives_away = True

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            self.charset = codecs.lookup(charset).name
        except LookupError as error:
            raise ProgramError(
                f"unknown charset {charset!r}; use a name such as 'UTF-8' or 'ISO-8859-1'"
            ) from error
        self._is_wide = "\n".encode(self.charset) != b"\n"

    @override
    def is_splittable(self, path: str) -> bool:
        """Where line ends can be found in the bytes."""
        return not self._is_wide and lines.is_cuttable(path)

    @override
    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    @override
    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """Lines, a block of the file at a time."""
        if split.end < math.inf:
            for position, block in lines.line_blocks(split):
                yield Block(_lines_of(block.decode(self.charset, "replace")), position)
        else:
            # newline="\n" keeps "\r" as it is; _lines_of sees to it.
            with (
                open_decompressed(split.path) as file,
                TextIOWrapper(file, encoding=self.charset, errors="replace", newline="\n") as text,
            ):
                yield from _text_blocks(text)


def _text_blocks(file: IO[str]) -> Iterator[Block]:
    """Without positions: reading resumes by counting lines from the beginning."""
    count = 0
    while text := _whole_lines(file, lines.BLOCK_BYTES):
        records = _lines_of(text)
        size = len(records)  # before others have the list
        yield Block(records, 0, count)
        count += size


def _whole_lines(file: IO[Any], size: int) -> Any:
    """About ``size`` of a file, completed to the end of its last line."""
    block = file.read(size)
    if block and block[-1:] not in ("\n", b"\n"):
        block += file.readline()
    return block


def _lines_of(text: str) -> list[str]:
    pieces = text.replace("\r\n", "\n").split("\n")
    if not pieces[-1]:
        pieces.pop()  # what follows the last line end is no line
    return pieces
