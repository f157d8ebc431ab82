"""CSV to Parquet: a dataclass is the schema of both, and totals go to JSON lines (J27).

The columns of the CSV file are found by the names in its header. What cannot be read ends the job, with the file, the line and the
text in its error.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

from firesteel.common import Types, WatermarkStrategy
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.connectors import BucketAssigner, FileSink, FileSource, OutputFileConfig
from firesteel.datastream.formats.csv import CsvReaderFormat, CsvSchema
from firesteel.datastream.formats.json import JsonLinesEncoder
from firesteel.datastream.formats.parquet import ParquetBulkWriters

SALES = """day,shop,amount,note
2026-03-01,north,12.50,
2026-03-01,south,3.99,"small, but nice"
2026-03-02,north,100.00,gift
"""


@dataclass(frozen=True)
class Sale:
    """A line of the file."""

    day: date
    shop: str
    amount: Decimal
    note: str | None


def sales(path: str) -> FileSource[Sale]:
    """Sales of CSV files; an empty note is none."""
    schema = CsvSchema.builder().add_columns_from(Sale).set_use_header().set_null_value("").build()
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build()


def parquet_files(directory: str) -> FileSink:
    """The same sales in columns."""
    return (
        FileSink.for_bulk_format(directory, ParquetBulkWriters.for_row_type(Sale))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig("sales", ".parquet"))
        .build()
    )


def json_files(directory: str) -> FileSink:
    """Anything as lines of JSON."""
    return (
        FileSink.for_row_format(directory, JsonLinesEncoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig("totals", ".jsonl"))
        .build()
    )


def build(env: StreamExecutionEnvironment, source: str, directory: str) -> None:
    """Copy sales, and follow the total of each shop."""
    stream = env.from_source(sales(source), WatermarkStrategy.no_watermarks(), "sales")
    stream.sink_to(parquet_files(f"{directory}/sales")).name("Parquet")
    amounts = stream.map(
        lambda sale: (sale.shop, sale.amount), output_type=Types.TUPLE([Types.STRING(), Types.BIG_DEC()])
    )
    totals = amounts.key_by(lambda pair: pair[0]).reduce(lambda total, one: (total[0], total[1] + one[1]))
    totals.map(lambda pair: {"shop": pair[0], "total": float(pair[1])}).sink_to(
        json_files(f"{directory}/totals")
    )


def main() -> None:
    """Run it on three sales, and show what the files have."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "sales.csv"
        source.write_text(SALES)
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        build(env, str(source), directory)
        env.execute("CSV to Parquet")
        for path in sorted(Path(directory, "totals").glob("totals-*")):
            print(path.read_text(), end="")
        print(f"{len(list(Path(directory, 'sales').glob('sales-*.parquet')))} Parquet file")


if __name__ == "__main__":
    main()
