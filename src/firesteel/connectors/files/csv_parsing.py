"""Blocks of lines become columns: by Arrow where nothing in a block has a special meaning, else by Python's `csv`.

Arrow is several times as fast, but its quotes, comments and numbers are not Flink's. So it gets only blocks without quotes,
escapes and comments, and when it cannot read one, for whatever reason, Python reads the block again, and says what is wrong.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow_csv

from firesteel.common._data_types import (
    BigIntType,
    BooleanType,
    CharType,
    DataType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    TinyIntType,
    VarCharType,
)
from firesteel.connectors.files.csv_columns import Reader, reader_of
from firesteel.connectors.files.csv_schema import CsvFileDialect

#: Values may be as long as they like.
csv.field_size_limit(2**31 - 1)

_LINE_ENDS = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


class Unfinished(Exception):
    """The last value of a block goes on behind its end."""


class BadRow(Exception):
    """A row that cannot be read; ``index`` counts from the beginning of the block, rows that are left out included."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.index = index


@dataclass(frozen=True)
class FileColumn:
    """A column of a file: where it is in every row, what it is, and how a value is made of a text."""

    index: int
    name: str
    data_type: DataType
    read: Reader

    @staticmethod
    def of(index: int, name: str, data_type: DataType, separator: str, null: str | None) -> FileColumn:
        """The column of a type."""
        return FileColumn(index, name, data_type, reader_of(data_type, separator, null))


# Rows of texts ----------------------------------------------------------------------------------------


def text_rows(text: str, dialect: CsvFileDialect) -> Iterator[list[str]]:
    """The rows of a block, without blank lines and comments. Raises `Unfinished` and `csv.Error`."""
    return _Rows(text, dialect).rows()


class _Rows:
    def __init__(self, text: str, dialect: CsvFileDialect) -> None:
        if dialect.escape is not None and dialect.escape in text:
            text = _unescaped(text, dialect.escape)
        self._lines = iter(_lines(text))
        self._comments = dialect.comments and "#" in text
        self._at_start = True
        self._reader = csv.reader(
            self._source() if self._comments else self._lines,
            delimiter=dialect.separator,
            quotechar=dialect.quote,
            quoting=csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL,
            escapechar=dialect.escape,
            strict=True,
        )

    @property
    def line(self) -> int:
        """How many lines were taken."""
        return self._reader.line_num

    def rows(self) -> Iterator[list[str]]:
        if not self._comments:
            yield from self._reader
            return
        while True:
            self._at_start = True  # the next line that is asked for begins a row
            try:
                yield next(self._reader)
            except StopIteration:
                return

    def _source(self) -> Iterator[str]:
        for line in self._lines:
            if self._at_start and line.lstrip(" \t").startswith("#"):
                yield "\n"  # so that lines are counted; no row is on it
                continue
            self._at_start = False
            yield line


def _lines(text: str) -> list[str]:
    if text.count("\r") == text.count("\r\n"):
        lines = [f"{line}\n" for line in text.split("\n")]
        last = lines.pop()[:-1]
        return [*lines, last] if last else lines
    return _LINE_ENDS.findall(text)


def _unescaped(text: str, escape: str) -> str:
    r"""With the characters that ``\n`` and the like stand for, still escaped."""
    pairs = re.compile(re.escape(escape) + "(.)", re.DOTALL)
    return pairs.sub(lambda pair: escape + _ESCAPED.get(pair[1], pair[1]), text)


def parse(text: str, dialect: CsvFileDialect, width: int, skipped: int, multiline: bool) -> list[list[str]]:
    """All rows of a block but the first ``skipped``. Blank lines are no rows; for a single column they are an empty text."""
    rows: list[list[str]] = []
    source = _Rows(text, dialect)
    try:
        rows.extend(source.rows())
    except csv.Error as error:
        if str(error) == "unexpected end of data":
            raise Unfinished from None
        count = len(_without_blanks(rows, text, dialect, width))
        raise BadRow(f"the row cannot be divided into values: {error}", count - skipped) from None
    if not multiline and source.line != len(rows):
        raise Unfinished
    return _without_blanks(rows, text, dialect, width)[skipped:]


def _without_blanks(rows: list[list[str]], text: str, dialect: CsvFileDialect, width: int) -> list[list[str]]:
    if [] not in rows:
        return rows
    if width == 1 and not (dialect.comments and "#" in text):
        return [row or [""] for row in rows]
    return [row for row in rows if row]


def line_of_row(text: str, dialect: CsvFileDialect, index: int, width: int | None) -> int:
    """In which line of a block, from 0, a row begins."""
    source = _Rows(text, dialect)
    seen, line = 0, 0
    try:
        for row in source.rows():
            if row or width == 1:
                if seen == index:
                    return line
                seen += 1
            line = source.line
    except csv.Error:
        pass
    return line


def count_single_lines(text: str, dialect: CsvFileDialect, multiline: bool) -> int:
    """How many rows come before the first that does not end, or, without ``multiline``, not in its line."""
    source = _Rows(text, dialect)
    count = lines = 0
    try:
        for row in source.rows():
            lines += 1
            if not multiline and source.line != lines:
                break
            count += bool(row)
    except csv.Error:
        pass
    return count


# Columns of values ------------------------------------------------------------------------------------


def columns_by_python(
    rows: list[list[str]], columns: Sequence[FileColumn], width: int, dialect: CsvFileDialect
) -> list[Sequence[Any]]:
    """The values of some columns of rows that should have ``width`` texts."""
    if set(map(len, rows)) - {width}:
        rows = _of_width(rows, width, dialect)
    texts = list(zip(*rows, strict=True)) if rows else [()] * width
    return [_values(texts[column.index], column, dialect.null) for column in columns]


def _of_width(rows: list[list[str]], width: int, dialect: CsvFileDialect) -> list[list[str]]:
    for index, row in enumerate(rows):
        if len(row) < width or (len(row) > width and not dialect.ignore_extra):
            raise BadRow(f"expected {width} values, got {len(row)}", index)
    return [row[:width] for row in rows]


def _values(texts: Sequence[str], column: FileColumn, null: str | None) -> Sequence[Any]:
    read = column.read
    if null is not None and null in texts:
        if isinstance(column.data_type, _TEXTS):
            return [None if text == null else text for text in texts]
        # An array of nothing is an array, as in Flink.
        is_none = [text == null for text in texts] if not _is_array(column) else [False] * len(texts)
        pairs = zip(texts, is_none, strict=True)
        return _converted(lambda pair: None if pair[1] else read(pair[0]), list(pairs), column, texts)
    if read is str:
        return texts
    return _converted(read, texts, column, texts)


def _converted(
    read: Callable[[Any], Any], given: Sequence[Any], column: FileColumn, texts: Sequence[str]
) -> Sequence[Any]:
    try:
        return list(map(read, given))
    except (ValueError, ArithmeticError):
        pass
    for index, each in enumerate(given):
        try:
            read(each)
        except (ValueError, ArithmeticError):
            expected = expected_name(column.data_type)
            raise BadRow(
                f"column {column.name!r}: expected {expected}, got {texts[index]!r}", index
            ) from None
    raise AssertionError("a column that could not be read as a whole can be read value by value")


def expected_name(data_type: DataType) -> str:
    """How errors call a type."""
    precision = getattr(data_type, "precision", None)
    scale = getattr(data_type, "scale", None)
    if scale is not None:
        return f"DECIMAL({precision}, {scale})"
    return (
        "ARRAY of " + expected_name(data_type.element_type)
        if hasattr(data_type, "element_type")
        else str(data_type)
    )


def _is_array(column: FileColumn) -> bool:
    return hasattr(column.data_type, "element_type")


_TEXTS = (CharType, VarCharType)
_WHOLE: dict[type[DataType], pa.DataType] = {
    TinyIntType: pa.int8(),
    SmallIntType: pa.int16(),
    IntType: pa.int32(),
    BigIntType: pa.int64(),
}
_DIRECT: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.bool_(),
    DoubleType: pa.float64(),
    FloatType: pa.float64(),
}


class ArrowParser:
    """Reads blocks by Arrow, those that it can read as Python would."""

    def __init__(self, columns: Sequence[FileColumn], width: int, dialect: CsvFileDialect) -> None:
        self._columns = columns
        self._null = dialect.null
        special = [
            char for char in (dialect.quote, dialect.escape, "#" if dialect.comments else None) if char
        ]
        self._special = [char.encode() for char in special]
        # A blank line is a row of a single column, but not for Arrow; and its separators are single bytes.
        self._usable = width > 1 and len(dialect.separator.encode()) == 1
        names = [str(index) for index in range(width)]
        self._read = arrow_csv.ReadOptions(use_threads=False, column_names=names)
        self._parse = arrow_csv.ParseOptions(delimiter=dialect.separator, quote_char=False, escape_char=False)
        self._convert = arrow_csv.ConvertOptions(
            column_types={
                str(each.index): _DIRECT.get(type(each.data_type), pa.string()) for each in columns
            },
            include_columns=[str(each.index) for each in columns],
            null_values=[] if dialect.null is None else [dialect.null],
            strings_can_be_null=dialect.null is not None,
            true_values=["true"],
            false_values=["false"],
        )

    def columns(self, block: bytes) -> list[Sequence[Any]] | None:
        """The values of the columns; None when Python has to read the block."""
        if not self._usable or any(char in block for char in self._special):
            return None
        if block.count(b"\r") != block.count(b"\r\n"):
            return None
        try:
            table = arrow_csv.read_csv(pa.BufferReader(block), self._read, self._parse, self._convert)
            return [self._values(column, table.column(index)) for index, column in enumerate(self._columns)]
        except (pa.ArrowInvalid, BadRow):
            return None

    def _values(self, column: FileColumn, array: pa.ChunkedArray) -> Sequence[Any]:
        kind = type(column.data_type)
        if kind in _TEXTS or kind in _DIRECT:
            if kind is FloatType:
                array = array.cast(pa.float32(), safe=False)
            return _python(array)
        if kind in _WHOLE:
            # Arrow takes 0x1F for a number, which it is not here.
            if compute.any(compute.match_substring(array, "x", ignore_case=True)).as_py():
                raise BadRow("", 0)
            return _python(array.cast(_WHOLE[kind]))
        texts = (
            ["" if text is None else text for text in array.to_pylist()]
            if self._null == ""
            else array.to_pylist()
        )
        if None in texts:
            texts = [self._null if text is None else text for text in texts]
        return _values(texts, column, self._null)


def _python(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def first_rows(text: str, dialect: CsvFileDialect, count: int) -> list[list[str]]:
    """The first rows of a block."""
    return list(islice((row for row in text_rows(text, dialect) if row), count))
