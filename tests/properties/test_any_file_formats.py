"""Records of any type, written by a file sink's writer, cut anywhere and read with restores anywhere, are read exactly once."""

from __future__ import annotations

import io
import math
import string
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common._override import override
from firesteel.common.serialization import BulkWriterFactory
from firesteel.common.time import Instant
from firesteel.common.typeinfo import Types
from firesteel.common.types import Row
from firesteel.connectors.files import avro_files, line_blocks
from firesteel.connectors.files.formats import FileFormat
from firesteel.connectors.files.paths import FoundFile
from firesteel.connectors.files.reader import FileReader
from firesteel.connectors.files.splits import FileSplit, cut
from firesteel.contracts.source import SourceReaderContext
from firesteel.datastream.connectors.file_system import StreamFormat
from firesteel.datastream.formats.avro import AvroBulkWriters, AvroReaderFormat, AvroSchema
from firesteel.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from firesteel.datastream.formats.json import JsonBulkWriters, JsonReaderFormat
from firesteel.datastream.formats.orc import OrcBulkWriters, OrcColumnarRowInputFormat
from firesteel.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from firesteel.table import DataTypes


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Reading:
    number: int
    text: str | None
    value: float
    good: bool
    parts: list[int]


@dataclass(frozen=True)
class Rich:
    number: int
    amount: Decimal
    day: date
    at: time
    moment: datetime
    key: UUID
    color: Color
    maybe: int | None = None


AVRO = AvroSchema.parse_string(
    '{"type": "record", "name": "Reading", "fields": [{"name": "number", "type": "long"}, {"name": "text", "type": '
    '["null", "string"]}, {"name": "value", "type": "double"}, {"name": "good", "type": "boolean"}, {"name": "parts", '
    '"type": {"type": "array", "items": "long"}}]}'
)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
READINGS = st.builds(
    Reading,
    LONGS,
    st.none() | TEXTS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.lists(LONGS, max_size=3),
)
MOMENTS = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
RICH = st.builds(
    Rich,
    LONGS,
    st.decimals(-(10**15), 10**15, places=4),
    st.dates(date(1800, 1, 1)),
    st.times(),
    MOMENTS,
    st.uuids(),
    st.sampled_from(Color),
    st.none() | LONGS,
)


def csv_schema(of: type, **more: Any) -> CsvSchema:
    builder = CsvSchema.builder().add_columns_from(of).set_null_value("\\N")
    return builder.set_use_header().build() if more.get("header") else builder.build()


FORMATS: dict[str, tuple[Callable[[], BulkWriterFactory], Callable[[], FileFormat]]] = {
    "csv": (
        lambda: CsvBulkWriters.for_schema(csv_schema(Reading)),
        lambda: CsvReaderFormat.for_schema(csv_schema(Reading)),
    ),
    "csv with header": (
        lambda: CsvBulkWriters.for_schema(csv_schema(Reading, header=True)),
        lambda: CsvReaderFormat.for_schema(csv_schema(Reading, header=True)),
    ),
    "json": (JsonBulkWriters.for_any_record, lambda: JsonReaderFormat.for_schema(Reading)),
    "avro": (lambda: AvroBulkWriters.for_generic_record(AVRO), lambda: AvroReaderFormat.for_schema(Reading)),
    "parquet": (
        lambda: ParquetBulkWriters.for_row_type(Reading),
        lambda: ParquetColumnarRowInputFormat(Reading, batch_size=3),
    ),
    "orc": (
        lambda: OrcBulkWriters.for_row_type(Reading),
        lambda: OrcColumnarRowInputFormat(Reading, batch_size=3),
    ),
}


def written(factory: BulkWriterFactory, batches: list[list[Any]], path: Path) -> None:
    """As the sink writes, with a flush behind every batch, so that there are several blocks and row groups."""
    with path.open("wb") as file:
        writer = factory.create(file)
        for batch in filter(None, batches):
            writer.add_elements(batch)
            writer.flush()
        writer.finish()


def new_reader(file_format: FileFormat, splits: list[FileSplit]) -> FileReader:
    reader = FileReader(file_format, SourceReaderContext(0, 1, lambda: 0.0, lambda: None))
    reader.open()
    reader.add_splits(splits)
    reader.notify_no_more_splits()
    return reader


def read(
    file_format: FileFormat, splits: list[FileSplit], limits: list[int], restores: list[int]
) -> list[Any]:
    """What polls give, with a new reader from the snapshot of the old one after so many polls."""
    reader, records, turn = new_reader(file_format, splits), [], 0
    while True:
        polled = reader.poll(limits[turn % len(limits)])
        records += polled.values
        if polled.ended:
            reader.close()
            return records
        turn += 1
        if turn in restores:
            left = reader.snapshot_state(turn)
            reader.close()
            reader = new_reader(file_format, left)


def splits_of(file_format: FileFormat, path: Path, size: int) -> list[FileSplit]:
    found = FoundFile(str(path), path.stat().st_size, 0)
    return list(cut(found, size, file_format.is_splittable(str(path))))


SIZES = st.integers(1, 300)
LIMITS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
RESTORES = st.lists(st.integers(1, 40), max_size=5)


@pytest.mark.parametrize("kind", FORMATS)
@given(
    batches=st.lists(st.lists(READINGS, max_size=5), max_size=4),
    size=SIZES,
    block=st.integers(1, 200),
    limits=LIMITS,
    restores=RESTORES,
)
def test_what_was_written_is_read_once_however_it_is_cut_and_restored(
    kind: str,
    batches: list[list[Reading]],
    size: int,
    block: int,
    limits: list[int],
    restores: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    make_writers, make_format = FORMATS[kind]
    path = tmp_path_factory.mktemp("files") / "records"
    written(make_writers(), batches, path)
    file_format = make_format()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "BLOCK_BYTES", block)
        patch.setattr(avro_files, "SEARCH_BYTES", block)
        records = read(file_format, splits_of(file_format, path, size), limits, restores)
    assert records == [record for batch in batches for record in batch]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
@given(records=st.lists(RICH, max_size=5))
def test_types_that_users_have_are_read_as_they_were_written(
    kind: str, records: list[Rich], tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_writers, make_format = {
        "csv": (
            CsvBulkWriters.for_schema(csv_schema(Rich)),
            CsvReaderFormat.for_schema(csv_schema(Rich), multiline=False),
        ),
        "json": (JsonBulkWriters.for_any_record(), JsonReaderFormat.for_schema(Rich)),
        "parquet": (ParquetBulkWriters.for_row_type(Rich), ParquetColumnarRowInputFormat(Rich)),
    }[kind]
    path = tmp_path_factory.mktemp("files") / "records"
    written(make_writers, [records], path)
    assert read(make_format, splits_of(make_format, path, 1000), [3], []) == records


# Rows of every type ------------------------------------------------------------------------------------

ROW = Types.ROW_NAMED(
    ["id", "name", "byte", "real", "big", "exact", "day", "clock", "stamp", "moment", "raw", "list"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.BYTE(),
        Types.FLOAT(),
        Types.BIG_INT(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.LIST(Types.INT()),
    ],
)


def to_millis(value: Any) -> Any:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


# Years whose local times exist in every zone.
STAMPS = st.datetimes(datetime(1980, 1, 1), datetime(2037, 1, 1)).map(to_millis)
ROWS = st.tuples(
    LONGS,
    TEXTS,
    st.integers(-128, 127),
    st.floats(width=32, allow_nan=False),
    st.integers(1 - 10**38, 10**38 - 1),
    st.decimals(-(10**19), 10**19, places=18),
    st.dates(date(1800, 1, 1)),
    st.times().map(to_millis),
    STAMPS,
    st.builds(
        Instant, st.integers(-(10**9), 4 * 10**9), st.integers(0, 10**6 - 1).map(lambda micros: micros * 1000)
    ),
    st.binary(max_size=5),
    st.lists(st.integers(-9, 9), max_size=3),
)
NULLABLE = ROWS.flatmap(
    lambda values: st.tuples(*(st.just(value) | st.none() for value in values[:-1]), st.just(values[-1]))
)


@given(rows=st.lists(NULLABLE, max_size=6))
def test_rows_of_every_type_are_read_from_parquet_as_they_were_written(
    rows: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("files") / "rows"
    written(ParquetBulkWriters.for_row_type(ROW), [[Row(*row) for row in rows]], path)
    file_format = ParquetColumnarRowInputFormat(ROW)
    assert read(file_format, splits_of(file_format, path, 1000), [9], []) == named(rows)


@given(rows=st.lists(NULLABLE, max_size=6))
def test_rows_of_every_type_are_read_from_csv_as_they_were_written(
    rows: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    schema = CsvSchema.builder().add_columns_from(ROW).set_null_value("\\N").build()
    path = tmp_path_factory.mktemp("files") / "rows"
    written(CsvBulkWriters.for_schema(schema), [[Row(*row) for row in rows]], path)
    file_format = CsvReaderFormat.for_schema(schema)
    assert read(file_format, splits_of(file_format, path, 1000), [9], []) == named(rows)


def named(rows: list[tuple[Any, ...]]) -> list[Row]:
    return [Row._make(row, tuple(ROW.get_field_names())) for row in rows]


# CSV by Arrow and by Python ----------------------------------------------------------------------------

ROW_TYPE = DataTypes.ROW(
    [
        DataTypes.FIELD("i", DataTypes.INT()),
        DataTypes.FIELD("d", DataTypes.DOUBLE()),
        DataTypes.FIELD("f", DataTypes.FLOAT()),
        DataTypes.FIELD("b", DataTypes.BOOLEAN()),
        DataTypes.FIELD("s", DataTypes.STRING()),
    ]
)
CELLS = st.one_of(
    st.integers(-(2**33), 2**33).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["", " 1", "1 ", "+1", "-0", "0x1F", "1_0", "1e5", ".5", "5.", "true", "false", "TRUE", " true ", "N"]
    ),
    st.text(string.ascii_letters + "0123456789.+-# \t", max_size=4),
)
GOOD = st.tuples(
    st.integers(-(2**31), 2**31 - 1).map(str),
    st.floats(allow_nan=False).map(str),
    st.floats(allow_nan=False, width=32).map(str),
    st.sampled_from(["true", "false"]),
    st.text(string.ascii_letters, max_size=3),
).map(list)
LINES = st.lists(GOOD | st.lists(CELLS, min_size=4, max_size=6), max_size=6)


@settings(max_examples=300)
@given(lines=LINES, null=st.none() | st.sampled_from(["", "N"]))
def test_csv_gives_the_same_whether_arrow_or_python_reads_it(
    lines: list[list[str]], null: str | None
) -> None:
    builder = CsvSchema.builder().add_columns_from(ROW_TYPE)
    schema = (builder if null is None else builder.set_null_value(null)).build()
    block = "".join(",".join(line) + "\n" for line in lines).encode()
    assert outcome(schema, block, by_arrow=True) == outcome(schema, block, by_arrow=False)


def outcome(schema: CsvSchema, block: bytes, by_arrow: bool) -> Any:
    from firesteel.common.errors import FileContentError
    from firesteel.connectors.files import csv_reading

    class Content(csv_reading._Content):
        def __init__(self) -> None:
            super().__init__(schema, __file__)
            if not by_arrow:
                self._arrow._usable = False

    try:
        return [repr(record) for record in Content().records(1, block)]
    except FileContentError as error:
        return str(error)


# Compression, and formats of one's own -----------------------------------------------------------------


class Numbers(StreamFormat[int]):
    @override
    def read_records(self, file: Any) -> Any:
        return map(int, io.TextIOWrapper(file))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst", ""])
@given(numbers=st.lists(st.integers(0, 99), max_size=30), limits=LIMITS, restores=RESTORES)
def test_compressed_files_are_read_once_wherever_reading_resumes(
    suffix: str,
    numbers: list[int],
    limits: list[int],
    restores: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    import pyarrow as pa

    names = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
    path = tmp_path_factory.mktemp("files") / f"numbers{suffix}"
    data = "".join(f"{number}\n" for number in numbers).encode()
    if suffix == ".xz":
        import lzma

        path.write_bytes(lzma.compress(data))
    else:
        with pa.output_stream(str(path), compression=names.get(suffix)) as stream:
            stream.write(data)
    for file_format in (Numbers(), JsonReaderFormat.for_schema()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(line_blocks, "BLOCK_BYTES", 7)
            whole = [FileSplit(str(path), 0, math.inf)]
            assert read(file_format, whole, limits, restores) == numbers
