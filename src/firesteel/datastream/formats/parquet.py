"""Parquet files, at PyFlink's import path; read by `FileSource`, written by `FileSink.for_bulk_format`."""

from __future__ import annotations

from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.serialization import BulkWriterFactory
from firesteel.connectors.files.arrow_readers import GroupsBulkFormat, GroupsStreamFormat, ParquetGroups
from firesteel.connectors.files.arrow_records import DictShape, shape_of
from firesteel.connectors.files.arrow_writers import ParquetSettings, ParquetWriterFactory
from firesteel.connectors.files.avro_schema import AvroSchema, arrow_schema
from firesteel.connectors.files.formats import StreamFormat
from firesteel.datastream.formats._writer_properties import Property, as_bool, as_int, as_name, settings_from

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
        """Write rows of a type: ``DataTypes.ROW(fields)``, ``Types.ROW_NAMED(names, types)``, a class or a ``pyarrow.Schema``.

        Timestamps without a zone are times of the machine's zone, and are written as moments; with ``utc_timestamp``
        they are written as they are. ``hadoop_config`` may have ``parquet.compression``, ``parquet.block.size``,
        ``parquet.page.size`` and ``parquet.enable.dictionary``. ``compression`` (snappy, gzip, zstd, lz4, brotli or
        uncompressed; snappy by default) and ``row_group_bytes`` (bytes of the columns in memory; 64 MB by default) say
        the same as the first two, and win over them.
        """
        given = {"compression": compression, "row_group_bytes": row_group_bytes}
        settings = settings_from(ParquetSettings, _PROPERTIES, hadoop_config, given)
        return ParquetWriterFactory(row_type, not utc_timestamp, settings)


class ParquetColumnarRowInputFormat(GroupsBulkFormat):
    """Reads Parquet files, by row groups; only the columns that are asked for.

    ``row_type`` is ``DataTypes.ROW(fields)``, or, not in PyFlink, ``Types.ROW_NAMED(names, types)``, a class of records, a
    ``pyarrow.Schema``, or None for rows as the file has them. Columns that a file does not have are None. Timestamps that the
    file has as moments become times of the machine's zone, with ``is_utc_timestamp`` times in UTC.
    """

    def __init__(
        self,
        row_type: Any = None,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if hadoop_config is not None and hadoop_config.key_set():
            unknown = sorted(hadoop_config.key_set())[0]
            raise InvalidOptionError(
                f"unknown property {unknown!r} of a reader of Parquet files; there are none"
            )
        shape = shape_of(row_type, not is_utc_timestamp, is_case_sensitive)
        super().__init__(shape, ParquetGroups, "Parquet", batch_size)


class AvroParquetReaders:
    """Reads Avro records from Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat[Any]:
        """Read records of a schema, as dicts."""
        return GroupsStreamFormat(DictShape(arrow_schema(schema)), ParquetGroups, "Parquet")


class AvroParquetWriters:
    """Writes Avro records to Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Write records of a schema: dicts, rows or instances of classes."""
        return ParquetWriterFactory(arrow_schema(schema))
