"""The Kafka sink by hand, on a simulated cluster: checkpoints, savepoints, other parallelisms, limits."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from firesteel.common.errors import ProgramError, StateError, TypeMismatchError, UserCodeError
from firesteel.common.serialization import SerializationSchema, SimpleStringSchema
from firesteel.connectors.kafka import sink_staging
from firesteel.connectors.kafka.sink import Delivery, KafkaRecordSink
from firesteel.connectors.kafka.sink_client import OutgoingRecord
from firesteel.connectors.kafka.sink_committer import TransactionCommitter
from firesteel.connectors.kafka.sink_partitioners import FlinkFixedPartitioner
from firesteel.connectors.kafka.sink_properties import SinkProperties
from firesteel.connectors.kafka.sink_records import RecordForm, Serializer
from firesteel.connectors.kafka.sink_staging import Chunk, Staging
from firesteel.contracts.sink import CommitOutcome, CommitRequest
from firesteel.testing import CheckpointHarness
from firesteel_support.simulated_kafka import Outcome, SimulatedKafka


@pytest.fixture
def cluster() -> SimulatedKafka:
    return SimulatedKafka({"topic": 3})


def sink(cluster: SimulatedKafka, delivery: Delivery = Delivery.EXACTLY_ONCE, **own: str) -> KafkaRecordSink:
    form = RecordForm("topic", SimpleStringSchema(), partitioner=FlinkFixedPartitioner())
    properties = SinkProperties.of({"bootstrap.servers": "simulated", **own})
    return KafkaRecordSink(properties, form, delivery, "prefix", cluster)


def seen(cluster: SimulatedKafka) -> list[str]:
    return [(record.value or b"").decode() for record in cluster.read("topic")]


def test_records_are_seen_when_their_checkpoint_is_complete(cluster: SimulatedKafka) -> None:
    harness = CheckpointHarness(sink(cluster))
    harness[0].process(["a", "b"])
    harness.checkpoint(1)
    harness[0].process(["c"])
    assert seen(cluster) == []
    harness.complete(1)
    assert seen(cluster) == ["a", "b"]


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.NONE])
def test_other_guarantees_show_records_at_once(cluster: SimulatedKafka, delivery: Delivery) -> None:
    harness = CheckpointHarness(sink(cluster, delivery))
    harness[0].process(["a", "b"])
    assert seen(cluster) == ["a", "b"]


def test_a_lost_record_fails_the_checkpoint(cluster: SimulatedKafka) -> None:
    harness = CheckpointHarness(sink(cluster, Delivery.AT_LEAST_ONCE))
    cluster.outcome = lambda request: Outcome.NEVER_RECEIVED
    harness[0].process(["a"])
    with pytest.raises(UserCodeError, match="timed out"):
        harness.checkpoint(1)


def test_no_transaction_is_open_between_checkpoints(cluster: SimulatedKafka) -> None:
    harness = CheckpointHarness(sink(cluster))
    for number in range(1, 4):
        harness[0].process([str(number)])
        harness.checkpoint(number)
        harness.complete(number)
        assert all(known.open is None for known in cluster.coordinated.values())
    assert seen(cluster) == ["1", "2", "3"]


def test_a_savepoint_from_long_ago_is_not_written_twice_but_what_came_after_it_is(
    cluster: SimulatedKafka,
) -> None:
    first = CheckpointHarness(sink(cluster))
    first[0].process(["staged with the savepoint"])
    savepoint = first.checkpoint(1)
    first.complete(1)
    first[0].process(["after"])
    first.checkpoint(2)
    first.complete(2)
    again = CheckpointHarness(sink(cluster), restore=savepoint)
    again[0].process(["after"])
    again.checkpoint(3)
    again.complete(3)
    assert seen(cluster) == ["staged with the savepoint", "after", "after"]


def test_a_savepoint_that_was_never_committed_is_written_by_the_first_who_goes_on(
    cluster: SimulatedKafka,
) -> None:
    first = CheckpointHarness(sink(cluster))
    first[0].process(["a"])
    savepoint = first.checkpoint(1)
    for _ in range(2):
        CheckpointHarness(sink(cluster), restore=savepoint)
    first.complete(1)  # a zombie hears of it at last
    assert seen(cluster) == ["a"]


def test_another_prefix_finds_what_was_written_under_the_first(cluster: SimulatedKafka) -> None:
    first = CheckpointHarness(sink(cluster))
    first[0].process(["a"])
    checkpoint = first.checkpoint(1)
    first.complete(1)
    other = KafkaRecordSink(
        sink(cluster).properties, sink(cluster).form, Delivery.EXACTLY_ONCE, "other", cluster
    )
    CheckpointHarness(other, restore=checkpoint)
    assert seen(cluster) == ["a"]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7])
def test_chunks_of_one_subtask_are_written_by_several_in_their_order(
    cluster: SimulatedKafka, parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_staging, "_CHUNK_RECORDS", 2)
    first = CheckpointHarness(sink(cluster))
    first[0].process([str(number) for number in range(19)])
    checkpoint = first.checkpoint(1)
    CheckpointHarness(sink(cluster), parallelism, restore=checkpoint)
    assert seen(cluster) == [str(number) for number in range(19)]


def test_a_chunk_waits_for_those_before_it(cluster: SimulatedKafka) -> None:
    staging = Staging("id", 1 << 20)
    chunks = []
    for value in (b"a", b"b"):
        staging.add([OutgoingRecord("topic", 0, None, value)], time.time())
        chunks += pickle.loads(pickle.dumps(staging.take(time.time())))
    committer = TransactionCommitter(cluster, time.time, 60, patience=0.0)
    with pytest.raises(Exception, match="their predecessors have no marker"):
        committer.commit([CommitRequest(chunks[1])])
    committer.commit([CommitRequest(chunks[0])])
    committer.commit([CommitRequest(chunks[1])])
    assert seen(cluster) == ["a", "b"]


def test_what_is_committed_again_is_told_so(cluster: SimulatedKafka) -> None:
    staging = Staging("id", 1 << 20)
    staging.add([OutgoingRecord("topic", 0, None, b"a")], time.time())
    (chunk,) = staging.take(time.time())
    for expected in (CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED):
        request = CommitRequest(chunk)
        TransactionCommitter(cluster, time.time, 60).commit([request])
        assert request.outcome is expected


def test_very_much_is_written_by_several_transactions(
    cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_staging, "_CHUNK_RECORDS", 10)
    monkeypatch.setattr("firesteel.connectors.kafka.sink_committer._TRANSACTION_BYTES", 300)
    requests: list[str] = []

    def outcome(request: str) -> str:
        requests.append(request)
        return Outcome.DONE

    harness = CheckpointHarness(sink(cluster))
    harness[0].process([str(number) for number in range(100)])
    harness.checkpoint(1)
    cluster.outcome = outcome
    harness.complete(1)
    assert requests.count("commit") > 1
    assert seen(cluster) == [str(number) for number in range(100)]


# Limits -------------------------------------------------------------------------------------------------


def test_staging_beyond_its_memory_waits_in_a_file() -> None:
    staging = Staging("id", 1 << 30, memory_bytes=2_000_000)
    records = [OutgoingRecord("topic", 0, b"k", bytes(1000), 5, (("h", b"v"),)) for _ in range(10_000)]
    staging.add(records[:5000], 1.0)
    staging.add(records[5000:], 2.0)
    chunks = staging.take(3.0)
    assert [isinstance(chunk.payload, bytes) for chunk in chunks] != [True] * len(chunks)
    kept: list[Chunk] = pickle.loads(pickle.dumps(chunks))
    assert all(isinstance(chunk.payload, bytes) for chunk in kept)
    for copies in (chunks, kept):
        assert [record for chunk in copies for record in chunk.records()] == records


def test_more_than_may_be_staged_is_refused(cluster: SimulatedKafka) -> None:
    harness = CheckpointHarness(sink(cluster, **{"firesteel.staged.max.bytes": "3000000"}))
    harness[0].process(["x" * 2_000_000])
    with pytest.raises(UserCodeError, match="take checkpoints more often"):
        harness[0].process(["x" * 2_000_000])


def test_a_marker_that_the_cluster_may_have_forgotten_is_not_guessed(cluster: SimulatedKafka) -> None:
    staging = Staging("id", 1 << 20)
    staging.add([OutgoingRecord("topic", 0, None, b"a")], 0.0)
    (chunk,) = staging.take(0.0)
    days = 86_400.0
    with pytest.raises(StateError, match=r"staged 8\.0 days ago"):
        TransactionCommitter(cluster, lambda: 8 * days, 7 * days).commit([CommitRequest(chunk)])
    TransactionCommitter(cluster, lambda: 6 * days, 7 * days).commit([CommitRequest(chunk)])
    TransactionCommitter(cluster, lambda: 8 * days, 7 * days).commit([CommitRequest(chunk)])
    assert seen(cluster) == ["a"]


# Records ------------------------------------------------------------------------------------------------


class Batches(SerializationSchema):
    def __init__(self) -> None:
        self.batches: list[int] = []

    def serialize(self, value: Any) -> bytes:
        if value == "bad":
            raise ValueError("it is bad")
        return f"<{value}>".encode()

    def serialize_batch(self, elements: list[Any]) -> list[bytes]:
        self.batches.append(len(elements))
        return [self.serialize(element) for element in elements]


def serializer(**settings: Any) -> Serializer:
    form = RecordForm(**{"topic": "topic", "value": SimpleStringSchema(), **settings})
    return Serializer(form, 1, 4, lambda topic: 3)


def test_a_schema_that_takes_batches_gets_them() -> None:
    schema = Batches()
    records = serializer(value=schema).records(["a", "b"], None)
    assert [record.value for record in records] == [b"<a>", b"<b>"]
    assert schema.batches == [2]


@pytest.mark.parametrize("schema", [Batches(), SimpleStringSchema()])
def test_the_record_that_does_not_fit_is_named(cluster: SimulatedKafka, schema: SerializationSchema) -> None:
    bad = "bad" if isinstance(schema, Batches) else 5
    form = RecordForm("topic", schema)
    harness = CheckpointHarness(KafkaRecordSink(sink(cluster).properties, form, cluster=cluster))
    with pytest.raises(UserCodeError) as raised:
        harness[0].process(["a", bad, "c"])
    assert f"record:   {bad!r}" in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topic": lambda value: None}, "expected the name of a topic, got None"),
        ({"headers": lambda value: {"a": 5}}, "expected a name (str) and bytes, str or None, got ('a', 5)"),
        ({"timestamp": lambda value: -1}, "expected milliseconds since 1970, got -1"),
    ],
)
def test_functions_of_records_must_give_what_is_needed(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeMismatchError) as raised:
        serializer(**settings).records(["a"], None)
    assert message in str(raised.value)


def test_a_partition_that_does_not_exist_is_refused() -> None:
    class Wrong(FlinkFixedPartitioner):
        def partition(self, *arguments: Any) -> int:
            return 7

    with pytest.raises(
        ProgramError, match="chose partition 7 of topic 'topic', which has the partitions 0 to 2"
    ):
        serializer(partitioner=Wrong()).records(["a"], None)


def test_times_before_1970_are_the_time_of_writing() -> None:
    records = serializer().records(["a", "b", "c"], [-5, None, 7])
    assert [record.timestamp for record in records] == [0, 0, 7]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("transactional.id", "x", "use set_transactional_id_prefix"),
        ("ssl.truststore.location", "x", "set ssl.ca.location (a PEM file)"),
        ("firesteel.stage", "1", "has no property 'firesteel.stage'"),
        ("firesteel.staged.max.bytes", "much", "must be a whole number above 0, got 'much'"),
        ("sasl.jaas.config", "GssapiLoginModule required;", "set sasl.username and sasl.password"),
    ],
)
def test_properties_that_cannot_be_are_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(ProgramError) as raised:
        SinkProperties.of({key: value})
    assert message in str(raised.value)


def test_properties_of_java_are_understood() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="secret";'
    properties = SinkProperties.of(
        {"sasl.jaas.config": jaas, "max.request.size": "5", "key.serializer": "x", "max.block.ms": "7"}
    )
    assert properties.given == {"sasl.username": "me", "sasl.password": "secret", "message.max.bytes": "5"}
    assert properties.max_block_ms == 7
