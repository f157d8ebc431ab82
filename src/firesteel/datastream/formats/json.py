"""JSON, at PyFlink's import path: files, schemas for rows, and `JsonSchema` for classes and plain objects."""

from __future__ import annotations

from firesteel.datastream.formats._json_files import JsonBulkWriters, JsonLinesEncoder, JsonReaderFormat
from firesteel.formats.json_objects import JsonSchema
from firesteel.formats.json_row_schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "JsonBulkWriters",
    "JsonLinesEncoder",
    "JsonReaderFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSchema",
]
