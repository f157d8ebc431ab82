"""Jobs that read Kafka for a while: failures, other parallelisms, new partitions, brokers and records that go away."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Configuration, Duration, Types, WatermarkStrategy
from firesteel.common.errors import JobExecutionError
from firesteel.common.serialization import SimpleStringSchema
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.connectors.kafka.source_splits import KafkaSplit
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from firesteel.datastream.window import TumblingEventTimeWindows
from firesteel.testing import CheckpointHarness, OperatorCheckpoint, simulated_environment
from firesteel_support.ledger import Ledger, LedgerSink
from firesteel_support.servers.kafka import KafkaBroker


def builder(kafka: KafkaBroker, topic: str) -> KafkaSourceBuilder[Any]:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_topics(topic)
        .set_value_only_deserializer(SimpleStringSchema())
    )


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"test {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


def environment(parallelism: int, directory: Path, **options: str) -> StreamExecutionEnvironment:
    keys = {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "1 h",
        **options,
    }
    env = simulated_environment(configuration=Configuration.from_dict(keys))
    env.set_parallelism(parallelism)
    env.set_max_parallelism(16)
    return env


def copy(env: StreamExecutionEnvironment, built: KafkaSourceBuilder[Any], ledger: str) -> None:
    stream = env.from_source(built.build(), WatermarkStrategy.no_watermarks(), "kafka").uid("kafka")
    stream.add_sink(LedgerSink(ledger)).uid("ledger")


def texts(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def produce(kafka: KafkaBroker, topic: str, partitions: int, first: int, last: int) -> None:
    """Numbers, dealt out to partitions."""
    for partition in range(partitions):
        numbers = [number for number in range(first, last) if number % partitions == partition]
        kafka.produce(topic, [str(number) for number in numbers], partition=partition)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_goes_on_from_a_savepoint_with_another_parallelism(
    kafka: KafkaBroker, tmp_path: Path, ledger: str, parallelism: int
) -> None:
    topic = kafka.topic("rescaled", partitions=4)
    produce(kafka, topic, 4, 0, 40)
    env = environment(2, tmp_path)
    copy(env, builder(kafka, topic).set_group_id(topic), ledger)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(40)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert kafka.committed(topic, topic) == dict.fromkeys(range(4), 10)

    produce(kafka, topic, 4, 40, 80)
    env = environment(parallelism, tmp_path, **{"execution.state-recovery.path": path})
    latest = KafkaOffsetsInitializer.latest()  # counts for nothing: the job continues
    copy(env, builder(kafka, topic).set_group_id(topic).set_starting_offsets(latest), ledger)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(80)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert sorted(Ledger.named(ledger).committed, key=int) == texts(0, 80)


def test_offsets_are_not_committed_when_the_user_does_not_want_it(
    kafka: KafkaBroker, tmp_path: Path, ledger: str
) -> None:
    topic = kafka.topic("uncommitted")
    produce(kafka, topic, 1, 0, 5)
    env = environment(1, tmp_path)
    copy(
        env,
        builder(kafka, topic).set_group_id(topic).set_property("commit.offsets.on.checkpoint", "false"),
        ledger,
    )
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(5)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert kafka.committed(topic, topic) == {}


def test_new_partitions_and_topics_are_found_and_read_from_their_beginning(kafka: KafkaBroker) -> None:
    name = f"found-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(f"{name}-a")
    kafka.produce(f"{name}-a", ["old", "begin"])
    start = {KafkaTopicPartition(f"{name}-a", 0): 1}
    env = simulated_environment(parallelism=2)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_topic_pattern(f"{name}-.*")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_starting_offsets(KafkaOffsetsInitializer.offsets(start, KafkaOffsetResetStrategy.LATEST))
        .set_property("partition.discovery.interval.ms", "100")
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as results:
        seen = iter(results)
        assert next(seen) == "begin"
        kafka.create_topic(f"{name}-b")
        kafka.produce(f"{name}-b", ["new topic"])
        kafka.add_partitions(f"{name}-a", 2)
        kafka.produce(f"{name}-a", ["new partition"], partition=1)
        assert {next(seen), next(seen)} == {"new topic", "new partition"}


def test_a_broker_that_crashes_and_comes_back_loses_nothing(
    kafka: KafkaBroker, tmp_path: Path, ledger: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.topic("crashed", partitions=2)
    produce(kafka, topic, 2, 0, 20)
    env = environment(2, tmp_path)
    copy(env, builder(kafka, topic), ledger)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(20)
    kafka.restart()
    produce(kafka, topic, 2, 20, 40)
    Ledger.named(ledger).wait_until_written(40)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert sorted(Ledger.named(ledger).committed, key=int) == texts(0, 40)
    assert f"the Kafka source has trouble with {kafka.bootstrap_servers}, and tries again: " in caplog.text


def harness(kafka: KafkaBroker, topic: str, splits: list[KafkaSplit], **properties: str) -> CheckpointHarness:
    names = {key.replace("_", "."): value for key, value in properties.items()}
    driven = CheckpointHarness(builder(kafka, topic).set_properties(names).build())
    driven[0].source.assign(splits, True)
    return driven


def poll_until(driven: CheckpointHarness, count: int) -> list[Any]:
    while len(driven[0].output.values) < count:
        driven[0].poll()
    return driven[0].output.values


def test_positions_of_a_checkpoint_are_dealt_out_to_other_readers(kafka: KafkaBroker) -> None:
    topic = kafka.topic("harness", partitions=3)
    produce(kafka, topic, 3, 0, 30)
    before = harness(kafka, topic, [KafkaSplit(topic, number, 0, 10) for number in range(3)])
    while len(before[0].output.values) < 17:
        before[0].poll(1)
    checkpoint: OperatorCheckpoint = before.checkpoint(1)
    first = list(before[0].output.values)
    before.close()
    after = CheckpointHarness(builder(kafka, topic).build(), parallelism=2, restore=checkpoint)
    for subtask in after:
        subtask.source.assign([], True)
    rest = [value for subtask in after for value in subtask.drain()]
    after.close()
    assert sorted(first + rest, key=int) == texts(0, 30)


def test_a_running_job_tells_how_far_it_is_and_what_is_left(
    kafka: KafkaBroker, tmp_path: Path, ledger: str
) -> None:
    topic = kafka.topic("measured", partitions=2)
    produce(kafka, topic, 2, 0, 20)
    env = environment(1, tmp_path, **{"firesteel.metrics.interval": "10 ms"})
    copy(env, builder(kafka, topic), ledger)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(20)
    place = f"KafkaSourceReader.topic.{topic}.partition"
    expected = {f"{place}.{n}.currentOffset": 9 for n in (0, 1)} | {
        f"{place}.{n}.records-lag": 0 for n in (0, 1)
    }
    expected["pendingRecords"] = 0
    while True:
        found = {each.full_name: each.value for each in client.metrics().values if each.full_name in expected}
        if found == expected:
            break
    client.cancel().result()


def test_pending_records_are_what_the_broker_has_and_nobody_has_read(kafka: KafkaBroker) -> None:
    topic = kafka.topic("pending")
    produce(kafka, topic, 1, 0, 10)
    driven = harness(kafka, topic, [KafkaSplit(topic, 0, 0)])
    while len(driven[0].output.values) < 3:
        driven[0].poll(1)
    reader = driven[0].source._reader
    while reader.pending_records() != 7:
        pass
    produce(kafka, topic, 1, 10, 15)
    while reader.pending_records() != 12:
        pass
    driven.close()


def test_records_that_retention_took_before_they_were_read_are_an_error(kafka: KafkaBroker) -> None:
    topic = kafka.topic("retention")
    produce(kafka, topic, 1, 0, 10)
    kafka.delete_records_before(topic, 0, 6)
    driven = harness(kafka, topic, [KafkaSplit(topic, 0, 2, 10)])
    with pytest.raises(
        Exception, match="is to resume at offset 2 of partition 0 of topic 'retention"
    ) as failed:
        driven[0].drain()
    assert "there are records from offset 6 to 9. 4 offsets were deleted" in str(failed.value)
    assert "auto.offset.reset" in str(failed.value)
    driven.close()


@pytest.mark.parametrize(("chosen", "values"), [("earliest", texts(6, 10)), ("latest", [])])
def test_unless_the_user_chose_where_to_go_on(kafka: KafkaBroker, chosen: str, values: list[str]) -> None:
    topic = kafka.topic("reset")
    produce(kafka, topic, 1, 0, 10)
    kafka.delete_records_before(topic, 0, 6)
    driven = harness(kafka, topic, [KafkaSplit(topic, 0, 2, 10)], auto_offset_reset=chosen)
    assert driven[0].drain() == values
    driven.close()


def test_a_topic_that_was_made_again_is_an_error(kafka: KafkaBroker) -> None:
    topic = kafka.topic("again")
    produce(kafka, topic, 1, 0, 3)
    driven = harness(kafka, topic, [KafkaSplit(topic, 0, 8)])
    with pytest.raises(Exception, match="The topic ends 5 before it: it was probably deleted and made again"):
        driven[0].drain()
    driven.close()


def test_a_topic_that_is_deleted_while_a_job_reads_it_ends_the_job(
    kafka: KafkaBroker, tmp_path: Path, ledger: str
) -> None:
    topic = kafka.topic("deleted")
    produce(kafka, topic, 1, 0, 3)
    env = environment(1, tmp_path, **{"restart-strategy.type": "none"})
    copy(env, builder(kafka, topic).set_property("metadata.max.age.ms", "100"), ledger)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(3)
    kafka.delete_topic(topic)
    with pytest.raises(JobExecutionError) as failed:
        client.get_job_execution_result().result()
    assert f"partition 0 of topic {topic!r} is not there any more: the topic was deleted" in str(failed.value)
    assert "Create it again and start without the checkpoint" in str(failed.value)


class Millis(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


def test_each_partition_has_watermarks_of_its_own(kafka: KafkaBroker) -> None:
    """One partition is far ahead of the other: no record of the slow one is late."""
    topic = kafka.topic("times", partitions=2)
    kafka.produce(topic, [str(number) for number in range(100_000, 200_000, 1000)], partition=0)
    kafka.produce(topic, [str(number) for number in range(0, 100_000, 1000)], partition=1)
    env = simulated_environment(parallelism=1)
    source = builder(kafka, topic).set_bounded(KafkaOffsetsInitializer.latest()).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Millis())
    counted = (
        env.from_source(source, strategy, "kafka")
        .map(lambda _: ("all", 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Duration.of_seconds(10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    assert [count for _, count in counted.execute_and_collect()] == [10] * 20


def test_records_have_kafkas_timestamps_and_readers_without_partitions_hold_nobody_back(
    kafka: KafkaBroker,
) -> None:
    topic = kafka.topic("own-times")
    for number in range(30):
        kafka.produce(topic, ["x"], timestamp=1000 * number + 1)
    env = simulated_environment(parallelism=3)
    source = builder(kafka, topic).build()
    counted = (
        env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
        .map(lambda value: (value, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Duration.of_seconds(10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    with counted.execute_and_collect() as results:
        seen = iter(results)
        assert [next(seen), next(seen)] == [("x", 10), ("x", 10)]


class UntilTheEnd(SimpleStringSchema):
    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element == "end")


def test_the_old_consumer_begins_where_it_is_told_and_ends_when_its_schema_says_so(
    kafka: KafkaBroker,
) -> None:
    topic = kafka.topic("old")
    kafka.produce(topic, ["a", "b", "c", "end", "d"])
    properties = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic}
    env = simulated_environment(parallelism=1)
    consumer = FlinkKafkaConsumer(topic, UntilTheEnd(), properties).set_start_from_earliest()
    assert list(env.add_source(consumer).execute_and_collect()) == ["a", "b", "c"]

    from confluent_kafka import Consumer, TopicPartition

    client = Consumer(properties)
    client.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    client.close()
    env = simulated_environment(parallelism=1)
    stream = env.add_source(FlinkKafkaConsumer([topic], UntilTheEnd(), properties))
    assert list(stream.execute_and_collect()) == ["c"]
