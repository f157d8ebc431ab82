"""Parquet and ORC files: records become Arrow batches, batches become row groups and stripes."""

from __future__ import annotations

import io
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import orc, parquet

from firesteel.common._override import override
from firesteel.common.errors import ProgramError, TypeMismatchError, short_repr
from firesteel.common.serialization import BulkWriter, RowDataBulkWriterFactory
from firesteel.connectors.files.arrow_columns import Structs
from firesteel.connectors.files.arrow_types import columns_of

PARQUET_COMPRESSIONS = ("snappy", "gzip", "zstd", "lz4", "brotli", "uncompressed")
ORC_COMPRESSIONS = ("zlib", "zstd", "snappy", "lz4", "uncompressed")
#: The ORC library allocates this many bytes at a time, and a compressed block must be some of these.
ORC_BLOCK = 64 << 10


class ArrowBatches:
    """Makes Arrow batches of records, with errors that name the record."""

    def __init__(self, columns: Structs) -> None:
        self._columns = columns
        self.schema = pa.schema(list(columns.kind))

    def batch(self, records: list[Any]) -> pa.RecordBatch:
        """The records as a batch, one array for each field."""
        for index, record in enumerate(records):
            if record is None:
                raise self._explained(self._columns.misfit(record, index), records)
        try:
            arrays = self._columns.field_arrays(records)
        except TypeMismatchError as error:
            raise self._explained(error, records) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _explained(self, error: TypeMismatchError, records: list[Any]) -> TypeMismatchError:
        """Records come in batches, so the runtime would name another one: the last of the batch."""
        record = short_repr(records[error.index or 0])
        error.hint = f"{error.hint + '; ' if error.hint else ''}it is in the record {record}"
        return error.at(None, None)


# Parquet ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParquetSettings:
    """How Parquet files are written. ``row_group_bytes`` are those of the columns in memory, before compression."""

    compression: str = "snappy"
    row_group_bytes: int = 64 << 20
    page_bytes: int = 1 << 20
    dictionary: bool = True

    def __post_init__(self) -> None:
        _check_choice("compression of Parquet files", self.compression, PARQUET_COMPRESSIONS)
        _check_positive("size of a row group", self.row_group_bytes)
        _check_positive("size of a page", self.page_bytes)


class ArrowWriterFactory(RowDataBulkWriterFactory):
    """A factory of writers for rows of a type, which is checked when the program is built.

    ``local_zone`` is as for `columns_of`.
    """

    #: How errors call the format.
    format_name: str

    def __init__(self, row_type: Any, local_zone: bool) -> None:
        super().__init__(row_type)
        self._local_zone = local_zone
        for field in self._columns().kind:
            self._check_field(field)

    def _columns(self) -> Structs:
        return columns_of(self._row_type, self._local_zone)

    def _check_field(self, field: pa.Field) -> None:
        """A field that the format has no type for shows when a file without records is written."""
        try:
            self._write_empty(pa.schema([field]), io.BytesIO())
        except pa.ArrowNotImplementedError as error:
            raise ProgramError(
                f"{self.format_name} files have no type for field {field.name!r}, which is {field.type} ({error}); "
                "give it another type, such as Types.STRING() or Types.LONG()"
            ) from error

    @abstractmethod
    def _write_empty(self, schema: pa.Schema, stream: BinaryIO) -> None:
        """Write a file without records."""


class ParquetWriterFactory(ArrowWriterFactory):
    """Makes Parquet files."""

    format_name = "Parquet"

    def __init__(
        self, row_type: Any, local_zone: bool = True, settings: ParquetSettings | None = None
    ) -> None:
        self._settings = settings or ParquetSettings()
        super().__init__(row_type, local_zone)

    @override
    def create(self, stream: BinaryIO) -> BulkWriter:
        """A writer of one file."""
        return ParquetFileWriter(ArrowBatches(self._columns()), stream, self._settings)

    @override
    def _write_empty(self, schema: pa.Schema, stream: BinaryIO) -> None:
        _open_parquet(schema, stream, self._settings).close()


def _open_parquet(schema: pa.Schema, stream: BinaryIO, settings: ParquetSettings) -> parquet.ParquetWriter:
    return parquet.ParquetWriter(
        pa.PythonFile(stream, mode="w"),
        schema,
        compression="none" if settings.compression == "uncompressed" else settings.compression,
        use_dictionary=settings.dictionary,
        data_page_size=settings.page_bytes,
    )


class ParquetFileWriter(BulkWriter):
    """Writes a row group when there is enough for one, and the last one at the end."""

    def __init__(self, batches: ArrowBatches, stream: BinaryIO, settings: ParquetSettings) -> None:
        self._batches = batches
        self._row_group_bytes = settings.row_group_bytes
        self._writer = _open_parquet(batches.schema, stream, settings)
        self._group: list[pa.RecordBatch] = []
        self._bytes = 0

    @override
    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    @override
    def add_elements(self, elements: list[Any]) -> None:
        """Add records as one batch."""
        batch = self._batches.batch(elements)
        self._group.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._row_group_bytes:
            self.flush()

    @override
    def flush(self) -> None:
        """Write what is there as a row group."""
        if self._group:
            group = pa.Table.from_batches(self._group, self._batches.schema)
            self._writer.write_table(group, row_group_size=group.num_rows)
        self._group, self._bytes = [], 0

    @override
    def finish(self) -> None:
        """Write the last row group and the file's footer."""
        self.flush()
        self._writer.close()


# ORC --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OrcSettings:
    """How ORC files are written."""

    compression: str = "zlib"
    stripe_bytes: int = 64 << 20
    compression_block_bytes: int = 256 << 10
    row_index_stride: int = 10_000

    def __post_init__(self) -> None:
        _check_choice("compression of ORC files", self.compression, ORC_COMPRESSIONS)
        _check_positive("size of a stripe", self.stripe_bytes)
        _check_positive("size of a compressed block", self.compression_block_bytes)
        if self.compression_block_bytes % ORC_BLOCK:
            raise ProgramError(
                f"the size of a compressed block must be a multiple of {ORC_BLOCK}, got {self.compression_block_bytes}"
            )
        _check_positive("row index stride", self.row_index_stride)


class OrcWriterFactory(ArrowWriterFactory):
    """Makes ORC files. Their timestamps have no zone."""

    format_name = "ORC"

    def __init__(self, row_type: Any, settings: OrcSettings | None = None) -> None:
        self._settings = settings or OrcSettings()
        super().__init__(row_type, local_zone=False)

    @override
    def _check_field(self, field: pa.Field) -> None:
        if _has_row_in_row(field.type):
            # Arrow 26 reads a row behind one that is None as if its fields were empty or 0, so nothing could be trusted.
            raise ProgramError(
                f"ORC files cannot have rows inside of rows, as field {field.name!r} has: {field.type}; the ORC "
                "library loses values when an inner row is None. Put its fields into the outer row, or use Parquet"
            )
        super()._check_field(field)

    @override
    def create(self, stream: BinaryIO) -> BulkWriter:
        """A writer of one file."""
        return OrcFileWriter(ArrowBatches(self._columns()), stream, self._settings)

    @override
    def _write_empty(self, schema: pa.Schema, stream: BinaryIO) -> None:
        writer = _open_orc(stream, self._settings)
        writer.write(schema.empty_table())
        writer.close()


def _open_orc(stream: BinaryIO, settings: OrcSettings) -> orc.ORCWriter:
    return orc.ORCWriter(
        pa.PythonFile(stream, mode="w"),
        compression=settings.compression,
        stripe_size=settings.stripe_bytes,
        compression_block_size=settings.compression_block_bytes,
        row_index_stride=settings.row_index_stride,
    )


class OrcFileWriter(BulkWriter):
    """Gives every batch to the ORC library, which makes stripes."""

    def __init__(self, batches: ArrowBatches, stream: BinaryIO, settings: OrcSettings) -> None:
        self._batches = batches
        self._writer = _open_orc(stream, settings)

    @override
    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    @override
    def add_elements(self, elements: list[Any]) -> None:
        """Add records as one batch."""
        self._writer.write(pa.Table.from_batches([self._batches.batch(elements)]))

    @override
    def flush(self) -> None:
        """Nothing: the format's own buffer holds a stripe, and is written when it is full."""

    @override
    def finish(self) -> None:
        """Write the last stripe and the file's footer."""
        self._writer.close()


def _has_row_in_row(kind: pa.DataType, in_row: bool = False) -> bool:
    is_row = pa.types.is_struct(kind)
    if is_row and in_row:
        return True
    # A map has rows of keys and values, but only as far as Arrow is concerned.
    inner = [kind.key_type, kind.item_type] if pa.types.is_map(kind) else _children(kind)
    return any(_has_row_in_row(child, in_row or is_row) for child in inner)


def _children(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(index).type for index in range(kind.num_fields)]


def _check_choice(what: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ProgramError(f"the {what} must be one of {', '.join(choices)}, got {given!r}")


def _check_positive(what: str, given: int) -> None:
    if given <= 0:
        raise ProgramError(f"the {what} must be above 0, got {given}")
