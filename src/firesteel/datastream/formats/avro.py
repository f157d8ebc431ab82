"""Avro, at PyFlink's import path: files, schemas for rows, and `AvroRecordSchema` for classes, dicts and schema registries."""

from __future__ import annotations

from firesteel.datastream.formats._avro_files import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroReaderFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from firesteel.formats.avro_records import AvroRecordSchema
from firesteel.formats.avro_rows import AvroRowDeserializationSchema, AvroRowSerializationSchema
from firesteel.formats.avro_state import AvroSerializer
from firesteel.formats.avro_types import avro_schema_of
from firesteel.formats.schema_registry import SchemaRegistry, SchemaRegistryError

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroReaderFormat",
    "AvroRecordSchema",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "AvroSerializer",
    "GenericRecordAvroTypeInfo",
    "SchemaRegistry",
    "SchemaRegistryError",
    "avro_schema_of",
]
