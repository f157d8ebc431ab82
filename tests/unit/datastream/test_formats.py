"""Formats at PyFlink's import paths: their factories, properties, and what is not there yet."""

from __future__ import annotations

import importlib
import io
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from firesteel import pyflink_alias
from firesteel.common import Configuration
from firesteel.common.errors import InvalidOptionError, ProgramError
from firesteel.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory
from firesteel.common.typeinfo import Types
from firesteel.datastream.formats.orc import OrcBulkWriters
from firesteel.datastream.formats.parquet import (
    ParquetBulkWriters,
)

ROW = Types.ROW_NAMED(["text"], [Types.STRING()])
TEXTS = [("a" * 40,) for _ in range(1000)]


@pytest.fixture
def _alias() -> Iterator[None]:
    pyflink_alias.install()
    yield
    pyflink_alias.uninstall()


@pytest.mark.usefixtures("_alias")
def test_programs_find_the_formats_where_pyflink_has_them() -> None:
    found = importlib.import_module("pyflink.datastream.formats.parquet")
    assert found.ParquetBulkWriters is ParquetBulkWriters
    assert importlib.import_module("pyflink.datastream.formats.orc").OrcBulkWriters is OrcBulkWriters
    for kind in ("Json", "Csv", "Avro"):
        module = importlib.import_module(f"pyflink.datastream.formats.{kind.lower()}")
        for name in (f"{kind}RowSerializationSchema", f"{kind}RowDeserializationSchema"):
            assert getattr(module, name) is getattr(importlib.import_module("pyflink.common"), name)


def write(factory: BulkWriterFactory, records: list[Any] = TEXTS) -> io.BytesIO:
    stream = io.BytesIO()
    writer = pickle.loads(pickle.dumps(factory)).create(stream)  # as it gets to a task
    writer.add_elements(records)
    writer.finish()
    return io.BytesIO(stream.getvalue())


@pytest.mark.parametrize("row_type", [ROW, pa.schema([("text", pa.string())])], ids=["types", "schema"])
def test_factories_travel_and_know_their_row_type(row_type: Any) -> None:
    for factory in (ParquetBulkWriters.for_row_type(row_type), OrcBulkWriters.for_row_type(row_type)):
        assert isinstance(factory, RowDataBulkWriterFactory)
        assert factory.get_row_type() == row_type
        assert write(factory).getvalue()


@pytest.mark.parametrize("name", ["snappy", "gzip", "zstd", "lz4", "brotli", "uncompressed"])
def test_parquet_files_are_compressed_as_asked_for(name: str) -> None:
    properties = Configuration().set_string("parquet.compression", name.upper())
    for factory in (
        ParquetBulkWriters.for_row_type(ROW, properties),
        ParquetBulkWriters.for_row_type(ROW, compression=name),
    ):
        column = parquet.ParquetFile(write(factory)).metadata.row_group(0).column(0)
        assert column.compression == name.upper()


@pytest.mark.parametrize("name", ["zlib", "zstd", "snappy", "lz4", "uncompressed"])
def test_orc_files_are_compressed_as_asked_for(name: str) -> None:
    properties = Configuration().set_string(
        "orc.compress", "NONE" if name == "uncompressed" else name.upper()
    )
    for factory in (
        OrcBulkWriters.for_row_type(ROW, properties),
        OrcBulkWriters.for_row_type(ROW, hadoop_config=properties),
        OrcBulkWriters.for_row_type(ROW, compression=name),
    ):
        assert orc.ORCFile(write(factory)).compression == name.upper()


def test_defaults() -> None:
    assert (
        parquet.ParquetFile(write(ParquetBulkWriters.for_row_type(ROW)))
        .metadata.row_group(0)
        .column(0)
        .compression
        == "SNAPPY"
    )
    file = orc.ORCFile(write(OrcBulkWriters.for_row_type(ROW)))
    assert (file.compression, file.compression_size, file.row_index_stride) == ("ZLIB", 256 << 10, 10_000)


def test_other_properties() -> None:
    properties = {"parquet.block.size": 1, "parquet.page.size": 64, "parquet.enable.dictionary": "false"}
    factory = ParquetBulkWriters.for_row_type(ROW, Configuration.from_dict(properties))
    column = parquet.ParquetFile(write(factory)).metadata.row_group(0).column(0)
    assert not any("DICTIONARY" in encoding for encoding in column.encodings)
    more = {"orc.compress.size": 128 << 10, "orc.row.index.stride": 2000, "orc.stripe.size": 1 << 16}
    file = orc.ORCFile(write(OrcBulkWriters.for_row_type(ROW, Configuration.from_dict(more))))
    assert (file.compression_size, file.row_index_stride) == (128 << 10, 2000)


def test_arguments_win_over_properties() -> None:
    properties = Configuration().set_integer("parquet.block.size", 1).set_string("parquet.compression", "LZO")
    factory = ParquetBulkWriters.for_row_type(ROW, properties, row_group_bytes=1 << 20, compression="gzip")
    stream = io.BytesIO()
    writer = factory.create(stream)
    for record in TEXTS[:3]:
        writer.add_element(record)
    writer.finish()
    file = parquet.ParquetFile(io.BytesIO(stream.getvalue()))
    assert (file.num_row_groups, file.metadata.row_group(0).column(0).compression) == (1, "GZIP")


def test_what_is_refused() -> None:
    with pytest.raises(
        ProgramError, match=r"compression of Parquet files must be one of snappy, gzip.*'lzo'"
    ):
        ParquetBulkWriters.for_row_type(ROW, compression="lzo")
    with pytest.raises(ProgramError, match=r"compression of ORC files must be one of zlib.*'gzip'"):
        OrcBulkWriters.for_row_type(ROW, compression="gzip")
    with pytest.raises(ProgramError, match="size of a row group must be above 0, got 0"):
        ParquetBulkWriters.for_row_type(ROW, row_group_bytes=0)
    with pytest.raises(ProgramError, match="size of a stripe must be above 0, got -1"):
        OrcBulkWriters.for_row_type(ROW, stripe_bytes=-1)
    with pytest.raises(ProgramError, match="must be a multiple of 65536, got 4096"):
        OrcBulkWriters.for_row_type(ROW, Configuration().set_integer("orc.compress.size", 4096))
    with pytest.raises(
        InvalidOptionError, match=r"unknown property 'fs.s3a.key' of a file format; known are parquet"
    ):
        ParquetBulkWriters.for_row_type(ROW, Configuration().set_string("fs.s3a.key", "x"))
    with pytest.raises(InvalidOptionError, match=r"parquet\.block\.size"):
        ParquetBulkWriters.for_row_type(ROW, Configuration().set_string("parquet.block.size", "large"))
