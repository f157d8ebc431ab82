"""Code of the user that a source calls may give one object for all records: each record is what it was when it was given."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Types, WatermarkStrategy
from firesteel.common.serialization import ByteArraySchema, DeserializationSchema, SimpleStringSchema
from firesteel.connectors.files.formats import TextLineFormat
from firesteel.connectors.kafka.source_records import (
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    decode_messages,
)
from firesteel.connectors.message_source import MessageDecoder
from firesteel.connectors.postgres.changes import ChangeDeserializer, PostgresChange, records_of
from firesteel.contracts.source import SourceReaderContext
from firesteel.datastream.connectors import FileSource
from firesteel.datastream.connectors.base import (
    AcknowledgingClient,
    AcknowledgingSource,
    AsyncSource,
    BlockingSource,
    Delivery,
    Fetched,
)
from firesteel.datastream.connectors.file_system import StreamFormat
from firesteel.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSource
from firesteel.formats.decoding import decode
from firesteel.formats.json_objects import JsonSchema
from firesteel.testing import simulated_environment

WANTED = [{"n": 1}, {"n": 2}, {"n": 3}]
MESSAGES = [b"1", b"2", b"3"]


class Reused(DeserializationSchema):
    def __init__(self) -> None:
        self.record: dict[str, Any] = {}

    def deserialize(self, message: bytes) -> Any:
        self.record["n"] = int(message)
        return self.record


class ReusedInBatches(Reused):
    def deserialize_batch(self, messages: list[bytes]) -> list[Any]:
        return [dict(self.deserialize(message)) for message in messages[:-1]] + [
            self.deserialize(messages[-1])
        ]


class Twice(Reused):
    gives_many = True

    def deserialize(self, message: bytes) -> Any:
        record = super().deserialize(message)
        return [record, record]


class ReusedJson(JsonSchema):
    """The promise of the base is not true of it."""

    record: Any = None

    def deserialize(self, message: bytes) -> Any:
        self.record = self.record or {}
        self.record["n"] = super().deserialize(message)
        return self.record


class Promises(Reused):
    gives_away = True


@pytest.mark.parametrize("schema", [Reused, ReusedInBatches, ReusedJson])
def test_a_schema(schema: Callable[[], Any]) -> None:
    one = schema()
    records = [*decode(one, MESSAGES[:2]).values, *decode(one, MESSAGES[2:]).values]
    assert records == WANTED
    assert records[-1] is not one.record
    assert decode(one, [b"1", b"x", b"3"]).values == [WANTED[0], WANTED[2]]


def test_a_schema_that_gives_many() -> None:
    records = decode(Twice(), MESSAGES).values
    assert records == [record for record in WANTED for _ in range(2)]
    assert records[0] is not records[1]


def test_a_promise_is_taken_at_its_word() -> None:
    assert decode(Promises(), MESSAGES).values == [{"n": 3}] * 3
    assert JsonSchema.gives_away
    assert SimpleStringSchema.gives_away
    assert ByteArraySchema.gives_away
    assert not ReusedJson.gives_away
    assert not Reused.gives_away


class Message:
    """What the Kafka client gives, as far as it is asked here."""

    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class WholeReused(KafkaRecordDeserializationSchema):
    def __init__(self) -> None:
        self.record: dict[str, Any] = {}

    def deserialize(self, record: KafkaRecord) -> Any:
        self.record["n"] = int(record.value or b"0")
        return self.record


class WholeReusedInBatches(WholeReused):
    def deserialize_records(self, records: list[KafkaRecord]) -> list[Any]:
        return [dict(self.deserialize(record)) for record in records[:-1]] + [self.deserialize(records[-1])]


class TombstonesToo(Reused):
    def deserialize(self, message: bytes | None) -> Any:
        return super().deserialize(message or b"0")


class TwiceTombstonesToo(Twice):
    def deserialize(self, message: bytes | None) -> Any:
        return super().deserialize(message or b"0")


def test_schemas_of_kafka() -> None:
    messages = [Message(value) for value in MESSAGES]
    for schema in (
        WholeReused(),
        WholeReusedInBatches(),
        KafkaRecordDeserializationSchema.value_only(Reused()),
    ):
        records = decode_messages(schema, messages).values
        assert records == WANTED
        assert all(one is not other for one, other in itertools.combinations(records, 2))
        assert records[-1] is not getattr(schema, "record", None)
    with_tombstone = [Message(b"1"), Message(None), Message(b"2")]
    only = KafkaRecordDeserializationSchema.value_only(TombstonesToo())
    assert decode_messages(only, with_tombstone).values == [{"n": 1}, {"n": 0}, {"n": 2}]
    many = decode_messages(
        KafkaRecordDeserializationSchema.value_only(TwiceTombstonesToo()), with_tombstone
    ).values
    assert many == [{"n": 1}, {"n": 1}, {"n": 0}, {"n": 0}, {"n": 2}, {"n": 2}]
    assert many[0] is not many[1]


def test_a_function_that_deserializes() -> None:
    record: dict[str, Any] = {}

    def reused(message: bytes) -> Any:
        record["n"] = int(message)
        return record

    decoder = MessageDecoder(reused, bytes, lambda message: {})
    assert decoder.decode(MESSAGES).values == WANTED
    assert MessageDecoder(Reused(), bytes, lambda message: {}).decode(MESSAGES).values == WANTED


def test_an_extractor_of_jdbc(tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE numbers (n INTEGER)")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(1,), (2,), (3,)])
    connection.close()
    record: dict[str, Any] = {}

    def reused(row: Any) -> Any:
        record["n"] = row[0]
        return record

    source = (
        JdbcSource.builder()
        .set_connection_options(JdbcConnectionOptions(f"jdbc:sqlite:{path}"))
        .set_sql("SELECT n FROM numbers ORDER BY n")
        .set_result_extractor(reused)
        .build()
    )
    stream = simulated_environment(parallelism=1).from_source(
        source, WatermarkStrategy.no_watermarks(), "numbers"
    )
    assert list(stream.execute_and_collect()) == WANTED


class ReusedLines(StreamFormat[Any]):
    def read_records(self, file: Any) -> Any:
        record: dict[str, Any] = {}
        for line in file:
            record["n"] = int(line)
            yield record


class NumberedLines(TextLineFormat):
    """Its base gives texts; it does not."""

    def read_records(self, file: Any) -> Any:
        return ReusedLines().read_records(file)

    blocks = StreamFormat.blocks

    def is_splittable(self, path: str) -> bool:
        return False

    def get_produced_type(self) -> Any:
        return Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize("stream_format", [ReusedLines, NumberedLines])
def test_a_file_format(stream_format: Callable[[], Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1\n2\n3\n")
    source = FileSource.for_record_stream_format(stream_format(), str(tmp_path / "file")).build()
    stream = simulated_environment(parallelism=1).from_source(source, WatermarkStrategy.no_watermarks(), "f")
    assert list(stream.execute_and_collect()) == WANTED


class ReusedChange(ChangeDeserializer):
    def __init__(self) -> None:
        self.record: dict[str, Any] = {}

    def deserialize(self, change: PostgresChange, /) -> Any:
        for _ in range(2):
            self.record["n"] = self.record.get("n", 0) + 1
            yield self.record


def test_changes_of_a_database() -> None:
    change = PostgresChange("truncate", "public", "t", None, None)
    assert records_of(ReusedChange(), change) == WANTED[:2]
    assert records_of(ChangeDeserializer.changes(), change) == [change]
    assert ChangeDeserializer.rows().gives_away
    assert not ReusedChange.gives_away


class Blocking(BlockingSource):
    def read(self, positions: Mapping[Any, Any]) -> Iterator[Fetched | None]:
        record: dict[str, Any] = {}
        batch: list[Any] = []
        for n in (1, 2, 3):
            record["n"] = n
            batch[:] = [record]
            yield Fetched(batch)


class Async(AsyncSource):
    async def read(self, positions: Mapping[Any, Any]) -> AsyncIterator[Fetched]:
        record: dict[str, Any] = {}
        for n in (1, 2, 3):
            await asyncio.sleep(0)
            record["n"] = n
            yield Fetched([record])


class Queue(AcknowledgingSource, AcknowledgingClient):
    def __init__(self) -> None:
        self.record: dict[str, Any] = {}

    def connect(self, context: SourceReaderContext) -> AcknowledgingClient:
        return self

    def receive(self, seconds: float) -> list[Delivery]:
        self.record["n"] = n = self.record.get("n", 0) + 1
        return [Delivery(self.record, n)] if n <= 3 else []

    def acknowledge(self, tags: list[Any]) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("source", [Blocking, Async, Queue])
def test_a_client_that_reads_ahead(source: Callable[[], Any]) -> None:
    woken = threading.Event()
    reader = source().create_reader(SourceReaderContext(0, 1, lambda: 0.0, woken.set, checkpointing=True))
    records: list[Any] = list(reader.poll(1).values)
    time.sleep(0.1)  # its thread reads ahead
    deadline = time.monotonic() + 60
    while len(records) < 3 and time.monotonic() < deadline:
        woken.wait(0.01)
        records += reader.poll(1).values
    reader.close()
    assert records == WANTED
