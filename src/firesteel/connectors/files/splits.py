"""Pieces of files: what a reader reads, how far it has come in it, and how files are cut into them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from firesteel.connectors.files.paths import FoundFile

#: Splits are as large as an even division allows, between these two.
MIN_SPLIT_BYTES = 1 << 20
MAX_SPLIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The records of a file whose first byte lies in ``start`` <= position < ``end``.

    Reading resumes ``skip`` records behind ``offset``, where a record begins; None: it has not begun. What ``offset`` counts
    is up to the format: bytes, or groups of records. Whole files, which cannot be cut, end at infinity.
    """

    path: str
    start: int
    end: float
    offset: int | None = None
    skip: int = 0


def split_size(total: int, parallelism: int) -> int:
    """How large splits should be, so that every reader gets some."""
    return min(max(-(-total // parallelism), MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)


def cut(file: FoundFile, size: int, splittable: bool) -> Iterator[FileSplit]:
    """The splits of a file, in order; an empty one has none."""
    if not splittable:
        if file.size:
            yield FileSplit(file.path, 0, math.inf)
        return
    for start in range(0, file.size, size):
        yield FileSplit(file.path, start, min(start + size, file.size))
