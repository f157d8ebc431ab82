"""Proof that part files were finished, for the time when somebody has removed them.

After a failure a committer gets again what was committed before. A part file that is there under its final name needs
no proof. But whoever reads the files may have moved or deleted it, and then it looks like one that was lost. So before a
committer finishes files, it writes their names into a small file of its own:

    <base path>/.finished-parts/.<id of the committer>     {"part-5d1e...-0-*": [[0, 17]]}

Names end in numbers, which are finished one after the other: kept as ranges, the file stays small for ever. An empty file
with the name of a part file behind a dot is a proof too, made by hand.
"""

from __future__ import annotations

import bisect
import json
import os
import re
from collections.abc import Iterable

from firesteel.connectors.files.file_system import FileSystem, make_folders
from firesteel.connectors.files.paths import parent

#: The folder of all proofs, below the base path of a sink.
FOLDER = ".finished-parts"

_NUMBERED = re.compile(r"(.*-[0-9a-f]{16}-\d+-)(0|[1-9]\d*)(\D.*|)", re.DOTALL)


class Numbers:
    """A set of numbers, as ranges of both ends.

    >>> numbers = Numbers([[0, 1]])
    >>> for number in (3, 2, 7):
    ...     numbers.add(number)
    >>> numbers.ranges, 2 in numbers, 5 in numbers
    ([[0, 3], [7, 7]], True, False)
    """

    def __init__(self, ranges: Iterable[list[int]] = ()) -> None:
        self.ranges = list(ranges)

    def __contains__(self, number: int) -> bool:
        index = bisect.bisect(self.ranges, number, key=lambda ends: ends[0]) - 1
        return index >= 0 and number <= self.ranges[index][1]

    def add(self, number: int) -> None:
        """One more."""
        if number in self:
            return
        index = bisect.bisect(self.ranges, number, key=lambda ends: ends[0])
        self.ranges.insert(index, [number, number])
        self._join(index)
        self._join(index - 1)

    def _join(self, index: int) -> None:
        """Make one of a range and the next, if there is nothing between them."""
        if 0 <= index < len(self.ranges) - 1 and self.ranges[index][1] + 1 == self.ranges[index + 1][0]:
            self.ranges[index][1] = self.ranges.pop(index + 1)[1]


class FinishedParts:
    """The proofs of one committer."""

    def __init__(self, files: FileSystem, base_path: str, committer: str) -> None:
        self._files = files
        self._folder = os.path.join(base_path, FOLDER)
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
        for proof in files.names(os.path.join(folder, FOLDER)):
            if proof == f".{os.path.basename(path)}":
                return True
            whole = os.path.join(folder, FOLDER, proof)
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
