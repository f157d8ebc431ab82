"""The Kafka source against a real broker, in jobs on the simulator."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common import WatermarkStrategy
from firesteel.common.serialization import DeserializationSchema, SimpleStringSchema
from firesteel.datastream import OutputTag
from firesteel.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from firesteel.datastream.formats.json import JsonSchema
from firesteel.testing import simulated_environment
from firesteel_support.servers.kafka import KafkaBroker

EARLIEST = KafkaOffsetsInitializer.earliest()
LATEST = KafkaOffsetsInitializer.latest()


def builder(kafka: KafkaBroker) -> KafkaSourceBuilder[Any]:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_value_only_deserializer(SimpleStringSchema())
    )


def read(built: KafkaSourceBuilder[Any], parallelism: int = 2) -> list[Any]:
    """What a bounded job reads, sorted."""
    env = simulated_environment(parallelism=parallelism)
    source = built.set_bounded(built._stopping or LATEST).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    return sorted(stream.execute_and_collect())


@pytest.fixture(scope="module")
def numbers(kafka: KafkaBroker) -> str:
    """A topic of three partitions with 0..9 in each, at times of 1000, 2000..."""
    topic = kafka.topic("numbers", partitions=3)
    for partition in range(3):
        for number in range(10):
            kafka.produce(
                topic, [f"{partition}/{number}"], partition=partition, timestamp=1000 * (number + 1)
            )
    return topic


def expected(*ranges: range) -> list[str]:
    return sorted(f"{partition}/{number}" for partition, numbers in enumerate(ranges) for number in numbers)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_a_bounded_source_reads_all_partitions_and_ends(
    kafka: KafkaBroker, numbers: str, parallelism: int
) -> None:
    assert read(builder(kafka).set_topics(numbers), parallelism) == expected(range(10), range(10), range(10))


def test_reading_begins_at_a_time(kafka: KafkaBroker, numbers: str) -> None:
    built = builder(kafka).set_topics(numbers).set_starting_offsets(KafkaOffsetsInitializer.timestamp(8500))
    assert read(built) == expected(range(8, 10), range(8, 10), range(8, 10))


def test_at_a_time_behind_all_records_there_is_nothing(kafka: KafkaBroker, numbers: str) -> None:
    built = builder(kafka).set_topics(numbers).set_starting_offsets(KafkaOffsetsInitializer.timestamp(99_000))
    assert read(built) == []


def test_a_source_between_two_times(kafka: KafkaBroker, numbers: str) -> None:
    built = builder(kafka).set_topics(numbers).set_bounded(KafkaOffsetsInitializer.timestamp(3000))
    assert read(built) == expected(range(2), range(2), range(2))


def test_reading_begins_at_given_offsets_and_at_the_strategy_elsewhere(
    kafka: KafkaBroker, numbers: str
) -> None:
    start = {KafkaTopicPartition(numbers, 0): 9, KafkaTopicPartition(numbers, 1): 7}
    built = (
        builder(kafka)
        .set_topics(numbers)
        .set_starting_offsets(KafkaOffsetsInitializer.offsets(start, KafkaOffsetResetStrategy.LATEST))
    )
    assert read(built) == expected(range(9, 10), range(7, 10))


def test_reading_begins_at_the_offsets_of_a_group(kafka: KafkaBroker, numbers: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": numbers})
    client.commit(offsets=[TopicPartition(numbers, 1, 5)], asynchronous=False)
    client.close()
    start = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST)
    built = builder(kafka).set_topics(numbers).set_group_id(numbers).set_starting_offsets(start)
    assert read(built) == expected(range(0), range(5, 10))


def test_partitions_and_patterns_choose(kafka: KafkaBroker, numbers: str) -> None:
    built = builder(kafka).set_partitions({KafkaTopicPartition(numbers, 2)})
    assert read(built) == expected(range(0), range(0), range(10))
    built = builder(kafka).set_topic_pattern(numbers[:-4] + ".*")
    assert read(built) == expected(range(10), range(10), range(10))


class Everything(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaRecord) -> Any:
        return None if record.value is None else tuple(record)


def test_a_deserializer_sees_all_that_kafka_has(kafka: KafkaBroker) -> None:
    topic = kafka.topic("whole")
    kafka.produce(topic, [b"v"], key=b"k", headers=[("h", b"1"), ("e", None)], timestamp=42)
    kafka.produce(topic, [None], key=b"gone")
    assert read(builder(kafka).set_topics(topic).set_deserializer(Everything())) == [
        (topic, 0, 0, 42, b"k", b"v", [("h", b"1"), ("e", None)])
    ]


def test_the_end_of_a_bounded_source_may_be_a_mark_of_a_transaction(kafka: KafkaBroker) -> None:
    from confluent_kafka import Producer

    topic = kafka.topic("transactions")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for value, end in (("given up", producer.abort_transaction), ("kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end()
    assert read(builder(kafka).set_topics(topic)) == ["given up", "kept"]
    committed = builder(kafka).set_topics(topic).set_property("isolation.level", "read_committed")
    assert read(committed) == ["kept"]


class Numbers(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return int(message)


def test_what_cannot_be_deserialized_is_named(kafka: KafkaBroker) -> None:
    topic = kafka.topic("malformed", partitions=2)
    kafka.produce(topic, [b"1", b"2", b"x3"], partition=1)
    with pytest.raises(Exception, match=r"Numbers raised ValueError: .*the message is b'x3'") as failed:
        read(builder(kafka).set_topics(topic).set_value_only_deserializer(Numbers()))
    assert f"of topic '{topic}', partition 1, offset 2" in str(failed.value)


def test_messages_that_do_not_fit_go_aside_with_where_they_are(kafka: KafkaBroker) -> None:
    topic, aside = kafka.topic("aside", partitions=1), OutputTag("aside")
    kafka.produce(topic, [b'{"n": 1}', b"no JSON", b'{"n": 2}'], timestamp=7000)
    source = (
        builder(kafka).set_topics(topic).set_value_only_deserializer(JsonSchema()).set_bounded(LATEST).build()
    )
    env = simulated_environment(parallelism=1)
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").on_error(dead_letter=aside)
    letters = records.get_side_output(aside).map(lambda letter: (letter.value, letter.where["offset"]))
    found = list(records.union(letters).execute_and_collect())
    assert sorted(found, key=str) == [(b"no JSON", 1), {"n": 1}, {"n": 2}]


def test_an_unknown_topic_is_named_with_those_that_there_are(kafka: KafkaBroker, numbers: str) -> None:
    with pytest.raises(Exception, match=r"there is no topic 'nubmers'; the brokers have .*numbers"):
        read(builder(kafka).set_topics("nubmers"))


def test_a_partition_that_is_not_there_is_named(kafka: KafkaBroker, numbers: str) -> None:
    with pytest.raises(Exception, match="has no partition 3, but 3, counted from 0"):
        read(builder(kafka).set_partitions({KafkaTopicPartition(numbers, 3)}))


def test_brokers_that_cannot_be_reached_are_named() -> None:
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers("127.0.0.1:9")
        .set_topics("any")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_property("default.api.timeout.ms", "500")
    )
    with pytest.raises(Exception, match=r"Kafka at 127\.0\.0\.1:9 does not tell the topics") as failed:
        read(built)
    assert "bootstrap.servers" in str(failed.value)


def test_a_group_without_offsets_is_an_error_without_a_strategy(kafka: KafkaBroker, numbers: str) -> None:
    start = KafkaOffsetsInitializer.committed_offsets()
    built = builder(kafka).set_topics(numbers).set_group_id("without").set_starting_offsets(start)
    with pytest.raises(Exception, match="has committed no offset for partition 0 of topic 'numbers"):
        read(built)
