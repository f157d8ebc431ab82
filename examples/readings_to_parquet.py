"""Readings to Parquet (J27): a stream in columnar files, each closed with a checkpoint, although the job fails.

A Parquet file can only be read when its last bytes are there, so the sink closes its files at every checkpoint, and
gives them their names when the checkpoint is complete. What a failed attempt was writing is thrown away, and written
again. Each sensor has a folder of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from failing_mapper import FailingMapper
from firesteel.common import Types, WatermarkStrategy
from firesteel.datastream import SinkFunction, StreamExecutionEnvironment
from firesteel.datastream.connectors import BucketAssigner, FileSink, OutputFileConfig, Source
from firesteel.datastream.formats.parquet import ParquetBulkWriters
from sensor_readings import SensorReading
from transactional_output import readings_per_second

READING = Types.ROW_NAMED(["id", "timestamp", "temperature"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])


class BySensor(BucketAssigner):
    """A folder for each sensor, named as Spark and others name partitions."""

    def get_bucket_id(self, element: SensorReading, context: SinkFunction.Context) -> str:
        """For example ``id=sensor_1``."""
        return f"id={element.id}"


def parquet_files(directory: str) -> FileSink:
    """Files of readings, compressed more than by default."""
    return (
        FileSink.for_bulk_format(directory, ParquetBulkWriters.for_row_type(READING, compression="zstd"))
        .with_bucket_assigner(BySensor())
        .with_output_file_config(OutputFileConfig("readings", ".parquet"))
        .build()
    )


def build(env: StreamExecutionEnvironment, source: Source, failures: int, directory: str) -> None:
    """Write readings, and fail a few times on the way."""
    readings = env.from_source(source, WatermarkStrategy.no_watermarks(), "readings").set_parallelism(1)
    survivors = readings.map(FailingMapper(30, failures)).set_parallelism(1)
    survivors.sink_to(parquet_files(directory))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    directory = tempfile.mkdtemp(prefix="readings-to-parquet-")
    build(env, readings_per_second(100, 20.0), 2, directory)
    env.execute("Readings to Parquet")
    for path in sorted(Path(directory).glob("id=*/readings-*.parquet")):
        print(f"{path.relative_to(directory)}: {path.stat().st_size} bytes")
    print(f"the files are in {directory}")


if __name__ == "__main__":
    main()
