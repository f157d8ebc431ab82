"""ORC files, at PyFlink's import path; read by `FileSource`, written by `FileSink.for_bulk_format`."""

from __future__ import annotations

from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.serialization import BulkWriterFactory
from firesteel.connectors.files.arrow_readers import GroupsBulkFormat, OrcGroups
from firesteel.connectors.files.arrow_records import shape_of
from firesteel.connectors.files.arrow_writers import OrcSettings, OrcWriterFactory
from firesteel.datastream.formats._writer_properties import Property, as_int, as_name, settings_from

__all__ = ["OrcBulkWriters", "OrcColumnarRowInputFormat"]

_PROPERTIES = {
    "orc.compress": Property("compression", as_name),
    "orc.stripe.size": Property("stripe_bytes", as_int),
    "orc.compress.size": Property("compression_block_bytes", as_int),
    "orc.row.index.stride": Property("row_index_stride", as_int),
}


class OrcBulkWriters:
    """Makes writers of ORC files."""

    @staticmethod
    def for_row_type(
        row_type: Any,
        writer_properties: Configuration | None = None,
        hadoop_config: Configuration | None = None,
        *,
        compression: str | None = None,
        stripe_bytes: int | None = None,
    ) -> BulkWriterFactory:
        """Write rows of a type: ``DataTypes.ROW(fields)``, ``Types.ROW_NAMED(names, types)``, a class or a ``pyarrow.Schema``.

        ``writer_properties`` and ``hadoop_config`` may have ``orc.compress``, ``orc.stripe.size``,
        ``orc.compress.size`` and ``orc.row.index.stride``. ``compression`` (zlib, zstd, snappy, lz4 or uncompressed;
        zlib by default) and ``stripe_bytes`` (64 MB by default) say the same as the first two, and win over them.
        """
        properties = Configuration(hadoop_config).add_all(writer_properties or Configuration())
        given = {"compression": compression, "stripe_bytes": stripe_bytes}
        return OrcWriterFactory(row_type, settings_from(OrcSettings, _PROPERTIES, properties, given))


class OrcColumnarRowInputFormat(GroupsBulkFormat):
    """Reads ORC files, by stripes; only the columns that are asked for. Not in PyFlink, named as in Java.

    ``row_type`` is as for ``ParquetColumnarRowInputFormat``. Timestamps have no zone.
    """

    def __init__(self, row_type: Any = None, batch_size: int = 2048, is_case_sensitive: bool = True) -> None:
        super().__init__(shape_of(row_type, False, is_case_sensitive), OrcGroups, "ORC", batch_size)
