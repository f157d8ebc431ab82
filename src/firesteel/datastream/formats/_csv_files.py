"""CSV files: read by `FileSource`, written by `FileSink`."""

from __future__ import annotations

from typing import Any

from firesteel.common.serialization import BulkWriterFactory
from firesteel.connectors.files.csv_reading import CsvFormat
from firesteel.connectors.files.csv_schema import CsvSchema, CsvSchemaBuilder
from firesteel.connectors.files.csv_writing import CsvWriterFactory

__all__ = ["CsvBulkWriters", "CsvReaderFormat", "CsvSchema", "CsvSchemaBuilder"]


class CsvReaderFormat(CsvFormat):
    """Reads CSV files."""

    @staticmethod
    def for_schema(schema: CsvSchema | Any, *, multiline: bool = True) -> CsvReaderFormat:
        """Read files of a schema: a `CsvSchema`, or, not in PyFlink, a class, a row type or a ``pyarrow.Schema``.

        Records are rows, or what the class says. Values in quotation marks may have line ends in them, and therefore a file
        is read by one subtask; with ``multiline=False`` they may not, and large files are cut. Without a quote character
        they are cut, too.
        """
        return CsvReaderFormat(CsvSchema.of(schema), multiline)


class CsvBulkWriters:
    """Makes writers of CSV files."""

    @staticmethod
    def for_schema(schema: CsvSchema | Any) -> BulkWriterFactory:
        """Write records of a schema: a `CsvSchema`, or, not in PyFlink, a class, a row type or a ``pyarrow.Schema``."""
        return CsvWriterFactory(CsvSchema.of(schema))
