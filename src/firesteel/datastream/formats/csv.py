"""CSV, at PyFlink's import path: files, schemas for rows, and `CsvRecordSchema` for classes and lists of texts."""

from __future__ import annotations

from firesteel.datastream.formats._csv_files import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvSchema,
    CsvSchemaBuilder,
)
from firesteel.formats.csv_objects import CsvRecordSchema
from firesteel.formats.csv_row_writer import CsvRowSerializationSchema
from firesteel.formats.csv_rows import CsvRowDeserializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRecordSchema",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
