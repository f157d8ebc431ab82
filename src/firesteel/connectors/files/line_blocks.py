"""Whole lines of a split, many at a time, each block with the position at which it begins.

A line belongs to the split in which its first byte lies, wherever it ends: so nobody has to look at a file before it is cut.
Blocks of a compressed file begin at the position that they would have in the decompressed one; there is only one split.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from firesteel.connectors.files.opening import is_compressed, open_decompressed
from firesteel.connectors.files.splits import FileSplit

#: How much is read and divided into lines at once: about a millisecond of work.
BLOCK_BYTES = 1 << 18

_UTF8_MARK = b"\xef\xbb\xbf"


def is_cuttable(path: str) -> bool:
    """Whether a file with lines can be read from the middle."""
    return not is_compressed(path)


def line_blocks(split: FileSplit) -> Generator[tuple[int, bytes], None, None]:
    r"""The lines of a split, from its ``offset`` on when it has one. Lines end with ``\n``, the last one perhaps not."""
    with open_at(split) as (file, position):
        while position < split.end and (
            block := whole_lines(file, int(min(BLOCK_BYTES, split.end - position)))
        ):
            yield position, block
            position += len(block)


@contextmanager
def open_at(split: FileSplit) -> Iterator[tuple[BinaryIO, int]]:
    """The file of a split, at the first line of the split or where reading resumes, and the position there."""
    with open_decompressed(split.path) as file:
        yield file, _first_line(file, split)


def without_mark(position: int, block: bytes) -> tuple[int, bytes]:
    """A block without the mark that some programs put before text in UTF-8."""
    if position == 0 and block.startswith(_UTF8_MARK):
        return len(_UTF8_MARK), block[len(_UTF8_MARK) :]
    return position, block


def whole_lines(file: BinaryIO, size: int) -> bytes:
    """About ``size`` bytes of a file, completed to the end of the last line."""
    block = file.read(size)
    if block and not block.endswith(b"\n"):
        block += file.readline()
    return block


def _first_line(file: BinaryIO, split: FileSplit) -> int:
    """Go to the first line of a split, or to where reading resumes; the position there."""
    if split.offset is not None:
        _go_to(file, split.offset)
        return split.offset
    if split.start == 0:
        return 0
    # From one byte earlier: if that is a line end, the first line begins exactly at the start.
    file.seek(split.start - 1)
    return split.start - 1 + len(file.readline())


def _go_to(file: BinaryIO, position: int) -> None:
    """Seek, or read up to there where a compressed file knows no positions."""
    if file.seekable():
        file.seek(position)
        return
    while position > 0:
        passed = len(file.read(min(BLOCK_BYTES, position)))
        if not passed:
            return
        position -= passed


def line_number(path: str, position: int) -> int:
    """The number of the line, from 1, that a position is in: for errors, by reading everything before it."""
    with open_decompressed(path) as file:
        number, left = 1, position
        while left > 0 and (data := file.read(min(BLOCK_BYTES, left))):
            number += data.count(b"\n")
            left -= len(data)
        return number
