"""JSON lines: read by `FileSource`, written by `FileSink`. PyFlink has nothing of the kind."""

from __future__ import annotations

from typing import Any

from firesteel.common.serialization import BulkWriterFactory
from firesteel.connectors.files.json_files import JsonLinesEncoder, JsonLinesFormat, JsonLinesWriterFactory

__all__ = ["JsonBulkWriters", "JsonLinesEncoder", "JsonReaderFormat"]


class JsonReaderFormat(JsonLinesFormat):
    """Reads files with a value of JSON on every line."""

    @staticmethod
    def for_schema(schema: Any = None) -> JsonReaderFormat:
        """Read values as they are, or, with a class or a row type, its instances or rows.

        Fields that the schema does not have are left out. A field of a row type that is missing is None; one of a class must
        be there, unless it has a default. Lines without anything on them are left out.
        """
        return JsonReaderFormat(schema)


class JsonBulkWriters:
    """Makes writers of JSON lines, many at a time; `JsonLinesEncoder` writes records one by one."""

    @staticmethod
    def for_any_record() -> BulkWriterFactory:
        """Write rows, instances of classes, dicts, and whatever else JSON has."""
        return JsonLinesWriterFactory()
