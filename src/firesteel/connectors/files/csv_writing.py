"""CSV files: records become columns of texts, and these the rows of a file, a batch at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, BinaryIO

from firesteel.common._data_types import DataType
from firesteel.common._override import override
from firesteel.common._type_conversion import fields_of
from firesteel.common.errors import ProgramError, TypeMismatchError, short_repr
from firesteel.common.serialization import BulkWriter, BulkWriterFactory
from firesteel.common.types import Row
from firesteel.connectors.files.csv_columns import Writer, simple_texts, writer_of
from firesteel.connectors.files.csv_parsing import expected_name
from firesteel.connectors.files.csv_schema import CsvSchema
from firesteel.formats.record_classes import plain_values

_UNFIT = (TypeError, ValueError, ArithmeticError, AttributeError)


class CsvWriterFactory(BulkWriterFactory):
    """Makes CSV files of a schema."""

    def __init__(self, schema: CsvSchema) -> None:
        if not schema.size():
            raise ProgramError("a CSV file cannot be written without columns; add some to the schema")
        self._schema = schema
        self.concatenates = not schema.dialect.use_header
        _writers(schema)  # types without texts show here

    @override
    def create(self, stream: BinaryIO) -> BulkWriter:
        """A writer of one file."""
        return CsvFileWriter(self._schema, stream)


def _writers(schema: CsvSchema) -> list[Writer]:
    null = schema.dialect.null or ""
    pairs = zip(schema.row_type.field_types(), schema.separators, strict=True)
    return [writer_of(kind, separator, null) for kind, separator in pairs]


class CsvFileWriter(BulkWriter):
    """Writes batches of records, the first one behind the header if there is to be one."""

    def __init__(self, schema: CsvSchema, stream: BinaryIO) -> None:
        self._stream = stream
        self._dialect = schema.dialect
        self._names = tuple(schema.row_type.names)
        self._types = schema.row_type.field_types()
        self._writers = _writers(schema)
        self._texts_of_any = schema.record is not None
        self._header = schema.dialect.use_header

    @override
    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    @override
    def add_elements(self, elements: list[Any]) -> None:
        rows = self._rows(elements)
        columns = zip(*rows, strict=True) if rows else []
        texts = [self._texts(index, column, elements) for index, column in enumerate(columns)]
        self._write(texts, elements)

    def _rows(self, records: list[Any]) -> Sequence[Sequence[Any]]:
        if set(map(type, records)) == {Row} and {row._fields for row in records} <= {None, self._names}:
            rows: list[Sequence[Any]] = [row._values for row in records]
            if set(map(len, rows)) == {len(self._names)}:
                return rows
        return [self._fields(record) for record in records]

    def _fields(self, record: Any) -> Sequence[Any]:
        if isinstance(record, Row) and record._fields == self._names:
            return record._values
        try:
            fields = fields_of(record, self._names)
        except (TypeError, ValueError) as error:
            raise TypeMismatchError(
                "a record with the columns of the file", record, hint=str(error)
            ) from None
        if len(fields) != len(self._names):
            hint = f"it has {len(fields)} fields instead of {len(self._names)}"
            raise TypeMismatchError("a record with the columns of the file", record, hint=hint)
        return fields

    def _texts(self, index: int, column: Sequence[Any], records: list[Any]) -> Sequence[str]:
        null = self._dialect.null or ""
        write = self._writers[index]
        if self._texts_of_any and expected_name(self._types[index]) == "VARCHAR":
            # The class has a type of its own for the column; its values have texts of their own.
            column = [each if each is None else str(each) for each in plain_values(column)]
        texts = simple_texts(self._types[index], column)
        if texts is not None:
            return texts
        try:
            return [null if value is None else write(value) for value in column]
        except _UNFIT:
            raise self._misfit(index, column, records, write) from None

    def _misfit(
        self, index: int, column: Sequence[Any], records: list[Any], write: Writer
    ) -> TypeMismatchError:
        for position, value in enumerate(column):
            try:
                if value is not None:
                    write(value)
            except _UNFIT:
                record = short_repr(records[position])
                return _mismatch(self._names[index], self._types[index], value, record)
        raise AssertionError("a column that could not be written as a whole can be written value by value")

    def _write(self, columns: list[Sequence[str]], records: list[Any]) -> None:
        text = None if self._header else self._plain(columns, len(records))
        if text is None:
            text = self._quoted(list(zip(*columns, strict=True)), records)
        self._stream.write(text.encode("utf-8"))

    def _plain(self, columns: list[Sequence[str]], count: int) -> str | None:
        """The rows without quotes, three times as fast; None when some of them may need quotes."""
        dialect, width = self._dialect, len(self._names)
        if width == 1 or not count:
            return None
        end = dialect.line_separator
        # Rows are not kept: zip has one tuple for all of them, and nothing is left for the garbage collector.
        text = end.join(map(dialect.separator.join, zip(*columns, strict=True))) + end
        special = [char for char in (dialect.quote, dialect.escape) if char is not None]
        as_many = [(dialect.separator, width - 1), *((char, end.count(char)) for char in ("\n", "\r"))]
        if any(char in text for char in special):
            return None
        return text if all(text.count(char) == each * count for char, each in as_many) else None

    def _quoted(self, rows: list[tuple[str, ...]], records: list[Any]) -> str:
        text = io.StringIO()
        writer = csv.writer(
            text,
            delimiter=self._dialect.separator,
            quotechar=self._dialect.quote,
            escapechar=self._dialect.escape,
            quoting=csv.QUOTE_NONE if self._dialect.quote is None else csv.QUOTE_MINIMAL,
            lineterminator=self._dialect.line_separator,
        )
        if self._header:
            writer.writerow(self._names)
            self._header = False
        try:
            writer.writerows(rows)
        except csv.Error as error:
            raise TypeMismatchError(
                "values without separators and line ends, because there is no quote or escape character",
                _culprit(rows, records, self._dialect.separator),
                hint=str(error),
            ) from None
        return text.getvalue()

    @override
    def flush(self) -> None:
        """Nothing is kept back."""

    @override
    def finish(self) -> None:
        """A file without records has its header nevertheless."""
        if self._header:
            self._write([], [])


def _culprit(rows: list[tuple[str, ...]], records: list[Any], separator: str) -> Any:
    for row, record in zip(rows, records, strict=True):
        if any(char in str(value) for value in row for char in (separator, "\r", "\n")):
            return record
    return records[0] if records else None


def _mismatch(name: str, data_type: DataType, value: Any, record: str) -> TypeMismatchError:
    hint = f"it is in the record {record}"
    return TypeMismatchError(expected_name(data_type), value, path=(f"column {name!r}",), hint=hint)
