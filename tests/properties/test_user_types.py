"""Types that users have come back as they were: from keys, copies, the wire, state, savepoints and formats."""

from __future__ import annotations

import dataclasses
import datetime
import pickle
import uuid
import zoneinfo
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from firesteel.common._values import private
from firesteel.common.configuration import Configuration
from firesteel.common.serialization import DeserializationSchema, SerializationSchema
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream.formats.avro import AvroRecordSchema, AvroSerializer
from firesteel.datastream.formats.csv import CsvRecordSchema
from firesteel.datastream.formats.json import JsonSchema
from firesteel.datastream.functions import KeyedProcessFunction, RuntimeContext
from firesteel.datastream.state import MapStateDescriptor, ValueStateDescriptor
from firesteel.datastream.window import CountTumblingWindowAssigner
from firesteel.plan.key_groups import stable_hash
from firesteel.runtime.elements import Chunk
from firesteel.runtime.wire_format import decode, encode, read_header
from firesteel.testing import simulated_environment
from firesteel_support.ledger import Ledger, LedgerSink
from firesteel_support.user_types import Everything, Flat, Reading, everything, keys_of_users, readings

RECORDS = st.one_of(everything(), readings(), keys_of_users())


def comparable(value: Any) -> Any:
    """With moments in UTC: two of different zones are never equal in the hour that comes twice."""
    if isinstance(value, Everything):
        return dataclasses.replace(value, at=value.at.astimezone(datetime.UTC))
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC)
    return tuple(map(comparable, value)) if type(value) is tuple else value


def same(found: Any, value: Any) -> bool:
    return type(found) is type(value) and bool(comparable(found) == comparable(value))


@given(key=keys_of_users(), other=keys_of_users())
def test_equal_keys_are_placed_alike_wherever_they_have_been(key: Any, other: Any) -> None:
    assert stable_hash(pickle.loads(pickle.dumps(key))) == stable_hash(key)
    if hash(key) == hash(other) and key == other:
        assert stable_hash(key) == stable_hash(other)


@example(moment=datetime.datetime(2025, 10, 26, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")))
@given(moment=st.datetimes(timezones=st.timezones(), allow_imaginary=True))
def test_the_hour_that_comes_twice_is_one_key(moment: datetime.datetime) -> None:
    again = moment.replace(fold=1 - moment.fold)
    assert again == moment
    assert stable_hash(again) == stable_hash(moment)


@given(records=st.lists(RECORDS, min_size=1, max_size=4))
def test_records_travel_and_are_copied(records: list[Any]) -> None:
    payload = encode(Chunk(records, None), 3, 2, 1, 9)
    received = decode(read_header(payload).kind, memoryview(payload))
    assert isinstance(received, Chunk)
    assert all(map(same, received.values, records))
    assert all(same(private(record), record) for record in records)


def assert_round_trip(schema: Any, records: list[Any]) -> None:
    assert isinstance(schema, SerializationSchema)
    assert isinstance(schema, DeserializationSchema)
    schema = pickle.loads(pickle.dumps(schema))
    found = schema.deserialize_batch(schema.serialize_batch(records))
    assert all(map(same, found, records)), (found, records)
    assert [schema.deserialize(schema.serialize(record)) for record in records] == found


@given(records=st.lists(everything(), min_size=1, max_size=3))
@pytest.mark.parametrize(
    "schema", [JsonSchema(Everything), AvroRecordSchema(Everything)], ids=["json", "avro"]
)
def test_a_dataclass_of_all_types_comes_back_from_a_format(schema: Any, records: list[Any]) -> None:
    assert_round_trip(schema, records)


@given(records=st.lists(readings(), min_size=1, max_size=3))
@pytest.mark.parametrize("schema", [JsonSchema(Reading), AvroRecordSchema(Reading)], ids=["json", "avro"])
def test_a_struct_of_containers_comes_back_from_a_format(schema: Any, records: list[Any]) -> None:
    assert_round_trip(schema, records)


@given(record=everything())
def test_a_flat_dataclass_comes_back_from_csv(record: Everything) -> None:
    flat = Flat(**{field.name: getattr(record, field.name) for field in dataclasses.fields(Flat)})
    flat.at = flat.at.astimezone(datetime.UTC)
    assert_round_trip(CsvRecordSchema(Flat), [flat])


# In jobs ------------------------------------------------------------------------------------------------

JOBS = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
BACKENDS = ["hashmap", "disk"]


class Count(KeyedProcessFunction):
    """How often a key has come, its first record, and its records by themselves."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def open(self, runtime_context: RuntimeContext) -> None:
        self.first = runtime_context.get_state(ValueStateDescriptor("first", self.kind))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY(), Types.INT())
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if self.first.value() is None:
            self.first.update(value)
        self.seen.put(value, (self.seen.get(value) or 0) + 1)
        yield ctx.get_current_key(), self.first.value(), self.seen.get(value)


def environment(backend: str) -> Any:
    options = {"state.backend.type": backend, "parallelism.default": "3"}
    if backend == "disk":
        options["state.backend.disk.cache-entries"] = "1"
    return simulated_environment(configuration=Configuration.from_dict(options))


@JOBS
@given(records=st.lists(everything(), min_size=1, max_size=4, unique=True))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "kind", [Types.PICKLED_BYTE_ARRAY(), AvroSerializer(Everything)], ids=["any", "avro"]
)
def test_keys_find_their_state(backend: str, kind: Any, records: list[Everything]) -> None:
    env = environment(backend)
    counted = env.from_collection(records * 2).rebalance().key_by(lambda record: record).process(Count(kind))
    with counted.execute_and_collect() as results:
        found = list(results)
    assert len(found) == 2 * len(records)
    for record in records:
        counts = [count for key, first, count in found if key == record and first == record]
        assert sorted(counts) == [1, 2]


@JOBS
@given(records=st.lists(keys_of_users(), min_size=1, max_size=6))
def test_windows_take_such_keys_and_records(records: list[Any]) -> None:
    env = environment("hashmap")
    keyed = env.from_collection([(record, 1) for record in records]).key_by(lambda pair: pair[0])
    summed = keyed.window(CountTumblingWindowAssigner(1)).reduce(lambda a, b: (a[0], a[1] + b[1]))
    with summed.execute_and_collect() as results:
        assert len(list(results)) == len(records)


class Given(Source[Any]):
    """The records, and then nothing for ever."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _GivenReader(self.records if context.subtask == 0 else [])


class _GivenReader(SourceReader):
    def __init__(self, records: list[Any]) -> None:
        self.left = records

    def poll(self, limit: int) -> Polled:
        values, self.left = self.left, []
        return Polled(values, retry_at=float("inf"))


def run_to_savepoint(records: list[Any], ledger: str, backend: str, directory: Path, path: str | None) -> str:
    env = environment(backend)
    if path is not None:
        env.configure(Configuration.from_dict({"execution.state-recovery.path": path}))
    given_records = env.from_source(Given(records), WatermarkStrategy.no_watermarks(), "given").uid("given")
    counted = (
        given_records.key_by(lambda record: record).process(Count(Types.PICKLED_BYTE_ARRAY())).uid("count")
    )
    counted.add_sink(LedgerSink(ledger)).uid("ledger")
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(len(Ledger.named(ledger).committed) + len(records))
    saved: str = client.stop_with_savepoint(False, str(directory)).result()
    return saved


@JOBS
@given(records=st.lists(everything(), min_size=1, max_size=3, unique=True))
def test_keys_and_values_come_back_from_a_savepoint(records: list[Everything], tmp_path: Path) -> None:
    ledger = f"types {uuid.uuid4()}"
    path = run_to_savepoint(records, ledger, "hashmap", tmp_path, None)
    run_to_savepoint(records, ledger, "disk", tmp_path, path)
    found = Ledger.named(ledger).committed
    Ledger.forget(ledger)
    for record in records:
        counts = [count for key, first, count in found if key == record and same(first, record)]
        assert sorted(counts) == [1, 2]
