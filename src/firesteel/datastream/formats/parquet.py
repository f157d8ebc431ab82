"""Parquet files, at PyFlink's import path; written by `FileSink.for_bulk_format`."""

from __future__ import annotations

from typing import Any, NoReturn

from firesteel.common.configuration import Configuration
from firesteel.common.serialization import BulkWriterFactory
from firesteel.connectors.files.arrow_writers import ParquetSettings, ParquetWriterFactory
from firesteel.datastream.connectors.file_system import BulkFormat
from firesteel.datastream.formats.writer_properties import Property, as_bool, as_int, as_name, settings_from
from firesteel.datastream.not_yet import not_yet

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

_PROPERTIES = {
    "parquet.compression": Property("compression", as_name),
    "parquet.block.size": Property("row_group_bytes", as_int),
    "parquet.page.size": Property("page_bytes", as_int),
    "parquet.enable.dictionary": Property("dictionary", as_bool),
}


class ParquetBulkWriters:
    """Makes writers of Parquet files."""

    @staticmethod
    def for_row_type(
        row_type: Any,
        hadoop_config: Configuration | None = None,
        utc_timestamp: bool = False,
        *,
        compression: str | None = None,
        row_group_bytes: int | None = None,
    ) -> BulkWriterFactory:
        """Write rows of a type: ``Types.ROW_NAMED(names, types)`` or a ``pyarrow.Schema``.

        Timestamps without a zone are times of the machine's zone, and are written as moments; with ``utc_timestamp``
        they are written as they are. ``hadoop_config`` may have ``parquet.compression``, ``parquet.block.size``,
        ``parquet.page.size`` and ``parquet.enable.dictionary``. ``compression`` (snappy, gzip, zstd, lz4, brotli or
        uncompressed; snappy by default) and ``row_group_bytes`` (bytes of the columns in memory; 64 MB by default) say
        the same as the first two, and win over them.
        """
        given = {"compression": compression, "row_group_bytes": row_group_bytes}
        settings = settings_from(ParquetSettings, _PROPERTIES, hadoop_config, given)
        return ParquetWriterFactory(row_type, not utc_timestamp, settings)


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads Parquet files; not in this version."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        raise not_yet("ParquetColumnarRowInputFormat", "reading Parquet files is")


class AvroParquetReaders:
    """Reads Avro records from Parquet files; not in this version."""

    @staticmethod
    def for_generic_record(schema: Any) -> NoReturn:
        """Avro comes with a later version."""
        raise not_yet("AvroParquetReaders", "Avro is")


class AvroParquetWriters:
    """Writes Avro records to Parquet files; not in this version."""

    @staticmethod
    def for_generic_record(schema: Any) -> NoReturn:
        """Avro comes with a later version."""
        raise not_yet("AvroParquetWriters", "Avro is")
