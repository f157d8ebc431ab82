"""The job of the verifier: numbered records, keyed and put into windows, which go to every output that there is.

A window's record names all numbers in it. So each output by itself shows every record that was lost, repeated or
brought out of order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import parquet
from recovery_job import Announced

from firesteel.common import Duration, Row, SimpleStringSchema, Time, Types, WatermarkStrategy
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment
from firesteel.datastream.connectors.base import DeliveryGuarantee, Source
from firesteel.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    StreamFormat,
)
from firesteel.datastream.formats.parquet import ParquetBulkWriters
from firesteel.datastream.window import TumblingEventTimeWindows

KEYS = 13
WINDOW_MILLIS = 200
TABLE = "windows"

ROW = Types.ROW_NAMED(["key", "start", "numbers"], [Types.LONG(), Types.LONG(), Types.STRING()])


@dataclass(frozen=True)
class Setup:
    """Where records come from and go to; None for what is not there."""

    output: str
    files_in: str
    bootstrap_servers: str | None = None
    topic_in: str | None = None
    topic_out: str | None = None
    database: str | None = None
    user: str | None = None
    password: str | None = None

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Setup:
        return cls(**json.loads(path.read_text()))

    @property
    def parquet(self) -> Path:
        return Path(self.output) / "parquet"


def line(number: int) -> str:
    """How a record travels: its key, its number, and its time, which is the number."""
    return f"{number % KEYS} {number} {number}"


def last_line(number: int, lane: int) -> str:
    """A record behind all others, so that their windows fire; it is of no window that anybody waits for."""
    return f"{-1 - lane} {number} {number + 100 * WINDOW_MILLIS}"


# The job ------------------------------------------------------------------------------------------------


def build(env: StreamExecutionEnvironment, setup: Setup) -> None:
    """From Kafka, else from files; to files always, to Kafka and PostgreSQL if they are there."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeOfLine())
    lines = env.from_source(_source(setup), strategy, "numbered").uid("numbered")
    announced = lines.map(Announced(Path(setup.output), "source")).uid("announced")
    parsed = announced.map(_parsed).uid("parsed")
    if setup.topic_in is None:  # several readers of files have no order
        for each in (lines, announced, parsed):
            each.set_parallelism(1)
    windows = (
        parsed.key_by(lambda record: record[0])
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
        .process(NumbersOfWindow(), output_type=ROW)
        .uid("windows")
    )
    windows.sink_to(_files(setup)).uid("files")
    if setup.topic_out is not None:
        _to_kafka(windows, setup)
    if setup.database is not None:
        windows.sink_to(_table(setup)).uid("table")


def _source(setup: Setup) -> Source[str]:
    if setup.topic_in is None:
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), setup.files_in)
        return files.monitor_continuously(Duration.of_millis(100)).build()
    from firesteel.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

    return (
        KafkaSource.builder()
        .set_bootstrap_servers(setup.bootstrap_servers)
        .set_topics(setup.topic_in)
        .set_group_id("verifier")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


def _files(setup: Setup) -> FileSink:
    return (
        FileSink.for_bulk_format(str(setup.parquet), ParquetBulkWriters.for_row_type(ROW))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig("windows", ".parquet"))
        .build()
    )


def _to_kafka(windows: DataStream[Row], setup: Setup) -> None:
    from firesteel.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink

    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(setup.topic_out)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(setup.bootstrap_servers)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("verifier")
        .build()
    )
    texts = windows.map(lambda row: f"{row[0]} {row[1]} {row[2]}", output_type=Types.STRING()).uid("texts")
    texts.sink_to(sink).uid("topic")


def _table(setup: Setup) -> Any:
    from firesteel.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink

    assert setup.database is not None
    options = JdbcConnectionOptions(url=setup.database, user_name=setup.user, password=setup.password)
    insert = f"INSERT INTO {TABLE} (key, start, numbers) VALUES (?, ?, ?)"
    return JdbcSink.exactly_once_sink(insert, ROW, options)


class TimeOfLine(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value.rpartition(" ")[2])


def _parsed(text: str) -> tuple[int, int]:
    key, number, _ = text.split(" ")
    return int(key), int(number)


class NumbersOfWindow(ProcessWindowFunction):
    """The numbers of a window, in the order in which they came."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[tuple[int, int]]
    ) -> Iterator[Row]:
        yield Row(key, context.window().start, " ".join(str(number) for _, number in elements))


# Outputs ------------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """A record of an output."""

    key: int
    start: int
    numbers: tuple[int, ...]

    @classmethod
    def parse(cls, key: int, start: int, numbers: str) -> Window:
        return cls(key, start, tuple(map(int, numbers.split(" "))))

    @classmethod
    def parse_text(cls, text: str) -> Window:
        key, start, numbers = text.split(" ", 2)
        return cls.parse(int(key), int(start), numbers)


def windows_in_files(setup: Setup) -> list[list[Window]]:
    """Those of every finished file: files have no order among them."""
    return [windows_of(path) for path in finished_files(setup)]


def windows_of(path: Path) -> list[Window]:
    """Those of a file, in its order."""
    rows = parquet.read_table(path).to_pylist()
    return [Window.parse(row["key"], row["start"], row["numbers"]) for row in rows]


def finished_files(setup: Setup) -> list[Path]:
    """Others have names that begin with a dot."""
    return sorted(setup.parquet.glob("windows-*.parquet"))


def check(output: str, sequences: Sequence[Sequence[Window]], count: int) -> None:
    """Refuse an output that has not every number below ``count`` once, in its window, in order for each key.

    Each of the sequences is in the order of the output.
    """
    windows = [window for sequence in sequences for window in sequence]
    seen = Counter(number for window in windows for number in window.numbers)
    expected = Counter(range(count))
    lost, extra = expected - seen, seen - expected
    assert not lost, f"{output}: {lost.total()} of {count} records are lost, such as {sorted(lost)[:5]}"
    assert not extra, f"{output}: {extra.total()} records are too many, such as {sorted(extra)[:5]}"
    for window in windows:
        wrong = [n for n in window.numbers if (n % KEYS, n - n % WINDOW_MILLIS) != (window.key, window.start)]
        assert not wrong, f"{output}: {wrong} are in the window {window}, to which they do not belong"
        assert list(window.numbers) == sorted(window.numbers), f"{output}: {window} is out of order"
    for sequence in sequences:
        newest: dict[int, int] = {}
        for window in sequence:
            before = newest.get(window.key, -1)
            assert window.start > before, f"{output}: window {window} comes behind that of {before}"
            newest[window.key] = window.start
