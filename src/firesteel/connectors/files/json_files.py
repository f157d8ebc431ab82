"""JSON lines in files: read a block of whole lines at a time, written a batch at a time or record by record."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa

from firesteel.common._data_types import RowType
from firesteel.common._override import override
from firesteel.common.errors import FileContentError, ProgramError, TypeMismatchError, short_repr
from firesteel.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation
from firesteel.connectors.files import line_blocks as lines
from firesteel.connectors.files.data_type_columns import type_info_of
from firesteel.connectors.files.formats import Block, StreamFormat
from firesteel.connectors.files.json_rows import JsonRows
from firesteel.connectors.files.splits import FileSplit
from firesteel.formats.json_lines import JsonError, LineDecoder, encode_lines
from firesteel.formats.record_classes import is_record_class, record_class


class JsonLinesFormat(StreamFormat[Any]):
    """Reads a value of JSON from every line: dicts and lists as they are, rows of a type, or instances of a class."""

    gives_away = True

    def __init__(self, schema: Any = None) -> None:
        self._decoder = LineDecoder(_decoded_type(schema))
        declared = type_info_of(schema) if isinstance(schema, RowType) else schema
        self._declared = declared if isinstance(declared, RowTypeInfo) else None
        if self._declared is not None:
            JsonRows(self._declared)  # types that JSON does not have show here

    @cached_property
    def _rows(self) -> JsonRows | None:
        """How rows are made; not before it is used, because formats are pickled."""
        return None if self._declared is None else JsonRows(self._declared)

    @override
    def is_splittable(self, path: str) -> bool:
        """Between lines."""
        return lines.is_cuttable(path)

    @override
    def get_produced_type(self) -> TypeInformation | None:
        return self._declared

    @override
    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """Values, a block of the file at a time."""
        for position, block in lines.line_blocks(split):
            yield Block(self._values(split.path, *lines.without_mark(position, block)), position)

    def _values(self, path: str, position: int, block: bytes) -> list[Any]:
        try:
            return self._decoder.decode(block) if self._rows is None else self._rows.rows(block)
        except JsonError as error:
            raise _explained(path, position, block, str(error), error.line, error.text) from None
        except TypeMismatchError as error:
            number, line = _line(block, error.index or 0)
            raise _explained(path, position, block, str(error), number, line) from None


def _decoded_type(schema: Any) -> Any:
    if schema is None or isinstance(schema, RowTypeInfo | RowType):
        return Any
    if is_record_class(schema):
        record_class(schema)  # errors in its fields show here
        return schema
    if isinstance(schema, pa.Schema):
        raise ProgramError(
            "JSON has no types of Arrow; use Types.ROW_NAMED(names, types), DataTypes.ROW(fields) or a class"
        )
    raise ProgramError(
        "the schema of JSON lines must be Types.ROW_NAMED(names, types), DataTypes.ROW(fields), a dataclass, NamedTuple or "
        f"TypedDict, or None for what is on the lines, got {schema!r} ({type(schema).__name__})"
    )


def _line(block: bytes, index: int) -> tuple[int, bytes]:
    """The line, from 0, of the value with a number, and what is on it."""
    filled = [(number, line) for number, line in enumerate(block.split(b"\n")) if line.strip()]
    return filled[index]


def _explained(
    path: str, position: int, block: bytes, reason: str, line: int, text: bytes
) -> FileContentError:
    before = sum(len(each) + 1 for each in block.split(b"\n")[:line])
    number = lines.line_number(path, position) + line
    return FileContentError(
        reason,
        file=path,
        line=number,
        position=position + before,
        text=text.decode("utf-8", "replace").rstrip("\r"),
    )


class JsonLinesEncoder(Encoder):
    """Writes every record as a line of JSON: rows as objects by the names of their fields, instances of classes likewise."""

    @override
    def encode(self, element: Any, stream: BinaryIO) -> None:
        stream.write(_encoded([element]))


class JsonLinesWriterFactory(BulkWriterFactory):
    """Makes files with lines of JSON, many at a time."""

    @override
    def create(self, stream: BinaryIO) -> BulkWriter:
        """A writer of one file."""
        return JsonLinesWriter(stream)


class JsonLinesWriter(BulkWriter):
    """Writes batches of records."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @override
    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    @override
    def add_elements(self, elements: list[Any]) -> None:
        self._stream.write(_encoded(elements))

    @override
    def flush(self) -> None:
        """Nothing is kept back."""

    @override
    def finish(self) -> None:
        """Nothing ends a file but its last line."""


def _encoded(records: Sequence[Any]) -> bytes:
    try:
        return encode_lines(records)
    except (TypeError, ValueError, OverflowError):
        pass
    for record in records:
        try:
            encode_lines([record])
        except (TypeError, ValueError, OverflowError) as error:
            hint = f"{error}; it is in the record {short_repr(record)}"
            raise TypeMismatchError("a value that JSON has", record, hint=hint) from None
    return encode_lines(records)
