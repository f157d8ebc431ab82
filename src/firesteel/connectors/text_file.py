"""Lines of text files that are there when the program starts: ``read_text_file``.

A file, a directory or a pattern, divided among subtasks by byte ranges before anything runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.connectors.files.formats import TextLineFormat
from firesteel.connectors.files.paths import FoundFile, find_files, local_path, stat_files
from firesteel.connectors.files.reader import FileReader
from firesteel.connectors.files.splits import FileSplit, cut, split_size
from firesteel.contracts.source import Source, SourceReader, SourceReaderContext


class TextFileSource(Source[str]):
    r"""Emits the lines of text files without their line ends (``\n`` or ``\r\n``).

    ``path`` is a local file, a directory (read with all below it; names that begin with ``.`` or
    ``_`` are left out) or a pattern like ``logs/*.txt``; ``file://`` addresses work too. Files ending
    in .gz, .bz2 or .xz are decompressed. Bytes that are no text in ``charset`` become U+FFFD.
    """

    def __init__(self, path: str | os.PathLike[str], charset: str = "UTF-8") -> None:
        self._format = TextLineFormat(charset)
        self.path = local_path(path, "text files")
        try:
            paths = find_files(self.path)
        except FileNotFoundError as error:
            raise ProgramError(f"{error.strerror}: {self.path!r}") from error
        self.files = sorted(stat_files(paths), key=lambda file: file.path)

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[FileSplit]:
        """The splits of one subtask: contiguous in the order of the files, even by bytes."""
        total = sum(file.size for file in self.files)
        size = split_size(total, parallelism)
        splits, before = [], 0
        for file in self.files:
            for split, middle in self._splits(file, size):
                if (before + middle) * parallelism // total == subtask:
                    splits.append(split)
            before += file.size
        return splits

    def _splits(self, file: FoundFile, size: int) -> Iterator[tuple[FileSplit, int]]:
        """The splits of a file, each with the position of its middle, by which it is assigned to a subtask."""
        for split in cut(file, size, self._format.is_splittable(file.path)):
            yield split, (split.start + int(min(split.end, file.size))) // 2

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask's splits."""
        return FileReader(self._format, context)
