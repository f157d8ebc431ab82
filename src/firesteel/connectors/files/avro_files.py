"""Avro's container files: read a block at a time, wherever blocks begin, and written a batch at a time.

A file is a header, with the schema and a marker, and blocks, each with the marker behind it. So the first block of a split is
behind the first marker in it. Reading resumes at the byte where a block begins, and a number of records in it.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from typing import Any, BinaryIO

from firesteel.common._override import override
from firesteel.common.errors import FileContentError, InvalidArgumentError, TypeMismatchError
from firesteel.common.serialization import BulkWriter, BulkWriterFactory
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.files.avro_schema import AvroSchema, fastavro
from firesteel.connectors.files.formats import Block, StreamFormat
from firesteel.connectors.files.opening import is_compressed, open_decompressed
from firesteel.connectors.files.records_of_dicts import records_of_dicts
from firesteel.connectors.files.splits import FileSplit
from firesteel.formats.record_classes import to_dict

#: How long the marker between blocks is.
MARKER_BYTES = 16
#: How much is searched for a marker at once.
SEARCH_BYTES = 1 << 16
CODECS = ("null", "deflate", "bzip2", "xz", "zstandard", "snappy", "lz4")


class AvroFormat(StreamFormat[Any]):
    """Reads Avro files: dicts, or what ``schema`` says; by ``reader_schema``, if the file was written by another one."""

    gives_away = True

    def __init__(self, reader_schema: AvroSchema | None = None, schema: Any = None) -> None:
        fastavro()
        self._reader_schema = reader_schema
        self._schema = schema
        self._type_info = records_of_dicts(schema).type_info

    @override
    def is_splittable(self, path: str) -> bool:
        """Between blocks."""
        return not is_compressed(path)

    @override
    def get_produced_type(self) -> TypeInformation | None:
        return self._type_info

    @override
    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """The blocks of a split, as they are in the file."""
        make = records_of_dicts(self._schema).make
        with open_decompressed(split.path) as file:
            for position, block in _AvroFile(file, split.path, self._reader_schema).blocks(split):
                yield Block(make(list(_explained(block, split.path, position)), split.path), position)


class _AvroFile:
    """An open file, whose header was read."""

    def __init__(self, file: BinaryIO, path: str, reader_schema: AvroSchema | None) -> None:
        self._file = file
        self._path = path
        self._reader_schema = None if reader_schema is None else reader_schema.parsed
        try:
            header = fastavro().reader(file)
        except Exception as error:  # whatever bytes that are no Avro bring about
            raise FileContentError(
                f"it is no Avro file that can be read: {error}", file=path, position=0
            ) from error
        self._body = file.tell()
        file.seek(0)
        self._header = file.read(self._body)
        self._marker = header._header["sync"]

    def blocks(self, split: FileSplit) -> Iterator[tuple[int, Any]]:
        """The blocks that begin in a split, each with its position."""
        start = self._body if split.start == 0 else self._behind_marker(max(split.start, self._body))
        if split.offset is not None:
            start = split.offset
        if start is None or start >= split.end:
            return
        self._file.seek(start)
        source = _Spliced(self._header, self._file)
        position = start
        try:
            for block in fastavro().block_reader(source, reader_schema=self._reader_schema):
                if position >= split.end:
                    return
                yield position, block
                position = self._file.tell()
        except FileContentError:
            raise
        except Exception as error:
            reason = f"the block there is damaged or does not fit the schema: {error}"
            raise FileContentError(reason, file=self._path, position=position) from error

    def _behind_marker(self, start: int) -> int | None:
        """The first block that begins at ``start`` or later: its marker may begin up to 16 bytes earlier."""
        position = max(start - MARKER_BYTES, self._body - MARKER_BYTES)
        self._file.seek(position)
        data = b""
        while more := self._file.read(SEARCH_BYTES):
            data += more
            index = data.find(self._marker)
            if index >= 0:
                return position + index + MARKER_BYTES
            kept = MARKER_BYTES - 1
            position += max(0, len(data) - kept)
            data = data[-kept:]
        return None


class _Spliced(io.RawIOBase):
    """The header of a file, then the file from where it stands."""

    def __init__(self, header: bytes, file: BinaryIO) -> None:
        self._header = io.BytesIO(header)
        self._file = file

    @override
    def read(self, size: int = -1) -> bytes:
        return self._header.read(size) or self._file.read(size)

    @override
    def tell(self) -> int:
        """Something that grows; fastavro writes it down for whoever asks."""
        return self._file.tell()


def _explained(block: Any, path: str, position: int) -> Iterator[Any]:
    count = 0
    try:
        for record in block:
            yield record
            count += 1
    except Exception as error:
        reason = f"record {count} of the block there cannot be read: {error}"
        raise FileContentError(reason, file=path, position=position) from error


# Writing ----------------------------------------------------------------------------------------------


class AvroWriterFactory(BulkWriterFactory):
    """Makes Avro files of records of a schema."""

    concatenates = False

    def __init__(self, schema: AvroSchema, codec: str = "null") -> None:
        if codec not in CODECS:
            raise InvalidArgumentError(
                f"the codec of Avro files must be one of {', '.join(CODECS)}, got {codec!r}"
            )
        self._schema = schema
        self._codec = codec

    @override
    def create(self, stream: BinaryIO) -> BulkWriter:
        """A writer of one file."""
        return AvroFileWriter(self._schema, stream, self._codec)


class AvroFileWriter(BulkWriter):
    """Writes a block when there is enough for one, and the last one at the end."""

    def __init__(self, schema: AvroSchema, stream: BinaryIO, codec: str) -> None:
        from fastavro.write import Writer

        self._writer = Writer(_Appended(stream), schema.parsed, codec=codec, validator=None)

    @override
    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    @override
    def add_elements(self, elements: list[Any]) -> None:
        """Write records one after the other."""
        write = self._writer.write
        for element in elements:
            try:
                write(to_dict(element))
            except Exception as error:  # noqa: BLE001 - fastavro passes on whatever a value brings about
                # Some of the record may have been written: the file is thrown away with the task that fails.
                hint = f"{type(error).__name__}: {error}"
                raise TypeMismatchError("a record of the Avro schema", element, hint=hint) from None

    @override
    def flush(self) -> None:
        """Write what is there as a block."""
        self._writer.flush()

    @override
    def finish(self) -> None:
        """Write the last block; nothing follows it."""
        self._writer.flush()


class _Appended(io.RawIOBase):
    """What fastavro may know of a stream: that it can be written to. It would look into a file that can be sought in."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @override
    def write(self, data: Any) -> int:
        self._stream.write(bytes(data))
        return len(data)

    @override
    def flush(self) -> None:
        """The sink does so when it has to."""
