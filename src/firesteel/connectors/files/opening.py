"""Opening files for reading: as they are, or decompressed by the end of their name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from firesteel.common._override import override
from firesteel.connectors.files.file_system import open_input


def is_compressed(path: str) -> bool:
    """Whether the name says that the file as a whole is compressed; such a file cannot be read from the middle."""
    return PurePath(path).suffix in _DECOMPRESSORS


def open_decompressed(path: str) -> BinaryIO:
    """The content of a file, from its beginning; .gz, .bz2, .xz and .zst are decompressed.

    Errors of damaged content come while it is read. Closing it closes the file.
    """
    file = open_input(path)
    decompressor = _DECOMPRESSORS.get(PurePath(path).suffix)
    if decompressor is None:
        return file
    try:
        return cast(BinaryIO, _Closing(decompressor(file), file))
    except BaseException:
        file.close()
        raise


def _zstd(file: BinaryIO) -> Any:
    import pyarrow as pa  # only here: whoever reads text does not wait for it

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstd,
}


class _Raw(io.RawIOBase):
    """Reads from a decompressor; both it and the file below are closed with it."""

    def __init__(self, stream: Any, file: BinaryIO) -> None:
        self._stream = stream
        self._file = file

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @override
    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream.close()
            self._file.close()


class _Closing(io.BufferedReader):
    def __init__(self, stream: Any, file: BinaryIO) -> None:
        super().__init__(_Raw(stream, file), 1 << 18)
