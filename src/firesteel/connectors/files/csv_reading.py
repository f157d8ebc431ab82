"""CSV files: read a block of whole lines at a time, each with the byte at which it begins.

Values in quotation marks may have line ends in them, so nobody can tell where a row begins in the middle of a file. Such files
are read from their beginning, though not when reading resumes; files whose rows are lines are cut.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Any, BinaryIO

from firesteel.common._data_types import DataTypes
from firesteel.common._override import override
from firesteel.common.errors import FileContentError
from firesteel.common.typeinfo import TypeInformation
from firesteel.common.types import Row
from firesteel.connectors.files import line_blocks as lines
from firesteel.connectors.files.csv_parsing import (
    ArrowParser,
    BadRow,
    FileColumn,
    Unfinished,
    columns_by_python,
    count_single_lines,
    first_rows,
    line_of_row,
    parse,
)
from firesteel.connectors.files.csv_schema import CsvSchema
from firesteel.connectors.files.data_type_columns import type_info_of
from firesteel.connectors.files.formats import Block, StreamFormat
from firesteel.connectors.files.opening import open_decompressed
from firesteel.connectors.files.splits import FileSplit
from firesteel.formats.record_classes import Misfit, column_converter


class CsvFormat(StreamFormat[Any]):
    """Reads rows, or records of the schema's class. ``multiline``: values in quotation marks may have line ends in them."""

    gives_away = True

    def __init__(self, schema: CsvSchema, multiline: bool = True) -> None:
        self.schema = schema
        self._multiline = multiline and (schema.dialect.quote, schema.dialect.escape) != (None, None)

    @override
    def is_splittable(self, path: str) -> bool:
        """Where rows are lines."""
        return not self._multiline and lines.is_cuttable(path)

    @override
    def get_produced_type(self) -> TypeInformation | None:
        if self.schema.record is not None or not self.schema.size():
            return None
        return type_info_of(self.schema.row_type)

    @override
    def blocks(self, split: FileSplit) -> Generator[Block, None, None]:
        """Rows, a block of the file at a time."""
        content = _Content(self.schema, split.path, self._multiline)
        with lines.open_at(split) as (file, position):
            while position < split.end:
                size = int(min(lines.BLOCK_BYTES, split.end - position))
                block = lines.whole_lines(file, size)
                if not block:
                    return
                block, values = self._read(content, file, position, block)
                yield Block(values, position)
                position += len(block)

    def _read(
        self, content: _Content, file: BinaryIO, position: int, block: bytes
    ) -> tuple[bytes, list[Any]]:
        """The records of a block, which grows until its last row is complete; the size doubles, so this takes no longer."""
        if self._multiline:
            block = _with_partner(block, content.quote, file)
        while True:
            try:
                return block, content.records(position, block)
            except Unfinished:
                more = lines.whole_lines(file, len(block)) if self._multiline else b""
                if not more:
                    raise content.unfinished(position, block) from None
                block += more


def _with_partner(block: bytes, quote: bytes | None, file: BinaryIO) -> bytes:
    """With more lines while a quotation mark has no partner: then the block ends most likely inside of quotes."""
    if quote is None or block.count(quote) % 2 == 0:
        return block
    added = [block]
    while len(added) < 64 and (line := file.readline()):
        added.append(line)
        if line.count(quote) % 2:
            break
    return b"".join(added)


class _Content:
    """What is in a file: its columns, and the records of its blocks."""

    def __init__(self, schema: CsvSchema, path: str, multiline: bool = True) -> None:
        self._schema = schema
        self._multiline = multiline
        self._dialect = schema.dialect
        self._path = path
        self.quote = None if self._dialect.quote is None else self._dialect.quote.encode()
        self._skipped = self._dialect.use_header + self._dialect.skip_first

    # Columns ------------------------------------------------------------------------------------------

    @cached_property
    def _header(self) -> list[str] | None:
        """The names in the first row, wherever reading begins; None without a header."""
        if not self._dialect.use_header:
            return None
        with open_decompressed(self._path) as file:
            _, block = lines.without_mark(0, lines.whole_lines(file, lines.BLOCK_BYTES))
        try:
            rows = first_rows(self._decoded(0, block), self._dialect, 1)
        except Exception as error:
            raise FileContentError(f"the header cannot be read: {error}", file=self._path, line=1) from error
        return rows[0] if rows else []

    @cached_property
    def _width(self) -> int:
        """How many values a row has."""
        return self._schema.size() if self._header is None else len(self._header)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self._schema.row_type.names or self._header or ())

    @cached_property
    def _columns(self) -> list[FileColumn]:
        null = self._dialect.null
        if not self._schema.size():
            return [
                FileColumn.of(i, name, DataTypes.STRING(), "", null) for i, name in enumerate(self._names)
            ]
        places = self._places()
        return [
            FileColumn.of(place, field.name, field.data_type, separator, null)
            for place, field, separator in zip(
                places, self._schema.row_type, self._schema.separators, strict=True
            )
        ]

    def _places(self) -> list[int]:
        """Where the columns of the schema are in a row."""
        names = self._schema.row_type.names
        header = self._header
        if header is None:
            return list(range(len(names)))
        stripped = [name.strip() for name in header]
        if self._dialect.strict_headers and stripped != names:
            raise FileContentError(
                f"the header must be {', '.join(names)}", file=self._path, line=1, text=", ".join(stripped)
            )
        for name in names:
            if name not in stripped:
                reason = f"the header has no column {name!r}; expected are {', '.join(names)}"
                raise FileContentError(reason, file=self._path, line=1, text=", ".join(stripped))
        return [stripped.index(name) for name in names]

    @cached_property
    def _arrow(self) -> ArrowParser:
        return ArrowParser(self._columns, self._width, self._dialect)

    @cached_property
    def _converters(self) -> list[Any]:
        """What the class of records has to say about values; those without a type of their own are texts so far."""
        record = self._schema.record
        if record is None:
            return []
        return [column_converter(hint, from_text=True) for hint in record.hints]

    # Records ------------------------------------------------------------------------------------------

    def records(self, position: int, block: bytes) -> list[Any]:
        """The records of a block. The first rows of a file may be none."""
        is_first = position == 0
        if is_first:
            _, block = lines.without_mark(0, block)
        if not self._columns:
            return []
        columns = None if is_first and self._skipped else self._arrow.columns(block)
        text = None if columns is not None else self._decoded(position, block)
        skipped = self._skipped if is_first else 0
        try:
            if columns is None:
                rows = parse(text or "", self._dialect, self._width, skipped, self._multiline)
                columns = columns_by_python(rows, self._columns, self._width, self._dialect)
            return self._made(columns)
        except BadRow as error:
            text = self._decoded(position, block) if text is None else text
            raise self._explained(str(error), position, text, error.index, skipped) from None

    def _made(self, columns: list[Sequence[Any]]) -> list[Any]:
        self._check_nulls(columns)
        record = self._schema.record
        if record is None:
            return Row._make_all(zip(*columns, strict=True), self._names)
        converted = []
        for name, convert, column in zip(record.names, self._converters, columns, strict=True):
            try:
                converted.append(convert(column))
            except Misfit as error:
                reason = f"column {name!r}: {error}, which is {column[error.index]!r}"
                raise BadRow(reason, error.index) from None
        return record.records(record.names, converted)

    def _check_nulls(self, columns: list[Sequence[Any]]) -> None:
        if self._dialect.null is None:
            return
        for column, values in zip(self._columns, columns, strict=True):
            if not column.data_type._nullable and None in values:
                reason = f"column {column.name!r}: None is not allowed there"
                raise BadRow(reason, list(values).index(None))

    # Errors -------------------------------------------------------------------------------------------

    def _decoded(self, position: int, block: bytes) -> str:
        try:
            return block.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileContentError(
                f"expected text in UTF-8, got a byte that is none: {block[error.start : error.start + 1]!r}",
                file=self._path,
                line=lines.line_number(self._path, position) + block[: error.start].count(b"\n"),
                position=position + error.start,
                text=block[max(0, error.start - 20) : error.start + 20],
            ) from None

    def _explained(self, reason: str, position: int, text: str, index: int, skipped: int) -> FileContentError:
        number = line_of_row(text, self._dialect, index + skipped, self._width)
        before = text.split("\n")[:number]
        line = text.split("\n")[number] if number < text.count("\n") + 1 else ""
        at = position + len("\n".join(before).encode()) + (1 if before else 0)
        return FileContentError(
            reason,
            file=self._path,
            line=lines.line_number(self._path, position) + number,
            position=at,
            text=line.rstrip("\r"),
        )

    def unfinished(self, position: int, block: bytes) -> FileContentError:
        """The error for a value in quotation marks that does not end, or not in its line."""
        text = self._decoded(position, block)
        index = count_single_lines(text, self._dialect, self._multiline)
        remedy = " in its line; values with line ends need multiline=True, which does not cut files"
        reason = f"a value in quotation marks does not end{'' if self._multiline else remedy}"
        return self._explained(reason, position, text, index, 0)
