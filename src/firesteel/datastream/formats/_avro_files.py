"""Avro files: read by `FileSource` and ``create_input``, written by `FileSink`."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common.io import InputFormat
from firesteel.common.serialization import BulkWriterFactory
from firesteel.common.typeinfo import PickledBytesTypeInfo
from firesteel.connectors.files.avro_files import AvroFormat, AvroWriterFactory
from firesteel.connectors.files.avro_schema import AvroSchema
from firesteel.datastream.utils import ResultTypeQueryable

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroReaderFormat",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """The type of dicts of a schema."""

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__()
        self._schema = schema


class AvroReaderFormat(AvroFormat):
    """Reads Avro files in a `FileSource`; not in PyFlink, which has `AvroInputFormat` only."""

    @staticmethod
    def for_schema(schema: Any = None, reader_schema: AvroSchema | None = None) -> AvroReaderFormat:
        """Read dicts, or, with a class or a row type, its instances or rows.

        A file has the schema by which it was written; ``reader_schema`` is another one to see it by, as Avro resolves them.
        """
        if isinstance(schema, AvroSchema):
            schema, reader_schema = None, schema
        return AvroReaderFormat(reader_schema, schema)


class AvroInputFormat(InputFormat, ResultTypeQueryable):
    """Reads Avro files with ``env.create_input``; records are dicts."""

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self.path = path
        self.file_format = AvroFormat(schema)
        self._type_info = GenericRecordAvroTypeInfo(schema)

    @override
    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        return self._type_info


class AvroBulkWriters:
    """Makes writers of Avro files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema, *, codec: str = "null") -> BulkWriterFactory:
        """Write records of a schema: dicts, rows with names, or instances of classes.

        ``codec`` is null (not compressed), deflate, bzip2 or xz; zstandard, snappy and lz4 if their packages are there.
        """
        return AvroWriterFactory(schema, codec)
