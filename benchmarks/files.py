"""Files: reading and writing Parquet, CSV and JSON lines, against plain pyarrow with the conversion to Python objects.

Firesteel's side is the format and the writer themselves, as a source and a sink call them: whole files of rows in one process,
without a job around them. The peer does the same with pyarrow alone: it reads a file and makes tuples of its columns, or makes
columns of tuples and writes a file. JSON lines it can only read; the peer of writing is `json.dumps` for every record.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
from pyarrow import parquet

from _harness import at_least, parser
from _results import begin
from firesteel.common import Row, Types
from firesteel.common.serialization import BulkWriterFactory
from firesteel.datastream.connectors.file_system import BulkFormat, FileSplit, StreamFormat
from firesteel.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat
from firesteel.datastream.formats.json import JsonBulkWriters, JsonReaderFormat
from firesteel.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

NAMES = ["id", "sensor", "celsius", "good", "day"]
ROW = Types.ROW_NAMED(NAMES, [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.STRING()])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("sensor", pa.string()),
        ("celsius", pa.float64()),
        ("good", pa.bool_()),
        ("day", pa.string()),
    ]
)
#: As many as the sink hands to a writer at once.
BATCH = 4096
TARGET = 0.4


def tuples(count: int) -> list[tuple[Any, ...]]:
    """Some records."""
    return [(i, f"sensor {i % 100}", i * 0.25, i % 3 == 0, f"2026-03-{i % 28 + 1:02d}") for i in range(count)]


def read(file_format: BulkFormat | StreamFormat, path: Path) -> int:
    """How many records a format reads."""
    return sum(len(block.values) for block in file_format.blocks(FileSplit(str(path), 0, math.inf)))


def write(factory: BulkWriterFactory, records: list[Any], path: Path) -> int:
    """Write records as the sink does, in batches."""
    with path.open("wb") as file:
        writer = factory.create(file)
        for start in range(0, len(records), BATCH):
            writer.add_elements(records[start : start + BATCH])
        writer.flush()
        writer.finish()
    return len(records)


def columns_to_tuples(table: pa.Table) -> int:
    """The conversion to Python objects, by columns, which is the fastest that pyarrow has."""
    return len(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))


def to_table(records: list[tuple[Any, ...]]) -> pa.Table:
    """The conversion from Python objects."""
    columns = zip(*records, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def write_json(records: list[tuple[Any, ...]], path: Path) -> int:
    """What everybody writes."""
    with path.open("w") as file:
        for record in records:
            file.write(json.dumps(dict(zip(NAMES, record, strict=True))) + "\n")
    return len(records)


def write_csv(records: list[tuple[Any, ...]], path: Path) -> int:
    """By pyarrow."""
    arrow_csv.write_csv(to_table(records), path, arrow_csv.WriteOptions(include_header=False))
    return len(records)


def write_parquet(records: list[tuple[Any, ...]], path: Path) -> int:
    """By pyarrow."""
    parquet.write_table(to_table(records), path)
    return len(records)


def read_csv(path: Path) -> int:
    """By pyarrow, in one thread as everything here."""
    options = arrow_csv.ReadOptions(use_threads=False, column_names=NAMES)
    types = arrow_csv.ConvertOptions(column_types=SCHEMA)
    return columns_to_tuples(arrow_csv.read_csv(path, options, convert_options=types))


def read_json(path: Path) -> int:
    """By pyarrow."""
    options = arrow_json.ReadOptions(use_threads=False)
    return columns_to_tuples(
        arrow_json.read_json(path, options, arrow_json.ParseOptions(explicit_schema=SCHEMA))
    )


def contests(folder: Path, count: int) -> dict[str, tuple[Callable[[], int], Callable[[], int]]]:
    """Both sides of every question; the files that are read are written first."""
    plain = tuples(count)
    rows = Row._make_all(plain, tuple(NAMES))
    writers = {
        "Parquet": ParquetBulkWriters.for_row_type(ROW),
        "CSV": CsvBulkWriters.for_schema(ROW),
        "JSON lines": JsonBulkWriters.for_any_record(),
    }
    formats = {
        "Parquet": ParquetColumnarRowInputFormat(ROW),
        "CSV": CsvReaderFormat.for_schema(ROW),
        "JSON lines": JsonReaderFormat.for_schema(ROW),
    }
    own_writes = {"Parquet": write_parquet, "CSV": write_csv, "JSON lines": write_json}
    own_reads: dict[str, Callable[[Path], int]] = {
        "Parquet": lambda path: columns_to_tuples(parquet.read_table(path, use_threads=False)),
        "CSV": read_csv,
        "JSON lines": read_json,
    }
    found: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {}
    for name, factory in writers.items():
        path, own = folder / f"{name} by Firesteel", folder / f"{name} by pyarrow"
        own_write, own_read, file_format = own_writes[name], own_reads[name], formats[name]
        write(factory, rows, path)
        found[f"{name} written"] = (
            lambda factory=factory, path=path: write(factory, rows, path),  # type: ignore[misc]
            lambda own_write=own_write, own=own: own_write(plain, own),  # type: ignore[misc]
        )
        found[f"{name} read"] = (
            lambda file_format=file_format, path=path: read(file_format, path),  # type: ignore[misc]
            lambda own_read=own_read, path=path: own_read(path),  # type: ignore[misc]
        )
    return found


def seconds(run: Callable[[], int], count: int) -> float:
    """How much of the processor one side takes."""
    began = time.process_time()  # others may use the machine
    assert run() == count
    return time.process_time() - began


def main() -> None:
    """Measure in turns."""
    arguments = parser(__doc__).parse_args()
    count = 20_000 if arguments.quick else 500_000
    results = begin(__file__, f"{count:,} rows of 5 columns in one process", arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (ours, peers) in contests(Path(folder), count).items():
            times = [
                (seconds(ours, count), seconds(peers, count)) for _ in range(3 if arguments.quick else 7)
            ]
            our, peer = (statistics.median(side) for side in zip(*times, strict=True))
            rate, peer_rate = count / our, count / peer
            target = at_least(rate / peer_rate, TARGET)
            rows.append([name, f"{rate:,.0f}", f"{peer_rate:,.0f}", target])
    results.table(["", "records/s", "pyarrow records/s", "target"], rows)


if __name__ == "__main__":
    main()
