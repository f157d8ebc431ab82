"""The Kafka sink on a real broker: what is promised when jobs fail and brokers die, and what a record is made of."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import (
    Configuration,
    JobClient,
    RestartStrategies,
    Row,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
)
from firesteel.common.errors import JobExecutionError
from firesteel.common.serialization import RowFieldExtractorSchema, SerializationSchema
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.connectors.base import DeliveryGuarantee
from firesteel.datastream.connectors.kafka import (
    FlinkFixedPartitioner,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    RoundRobinPartitioner,
    Semantic,
)
from firesteel.datastream.functions import MapFunction, RuntimeContext, SourceFunction
from firesteel.testing import Emit, ScriptedSource, WaitForCheckpoint, simulated_environment
from firesteel_support.servers.kafka import KafkaBroker, kafka_broker

GUARANTEES = list(DeliveryGuarantee)


def environment(directory: Path, parallelism: int = 2, seed: int = 0) -> StreamExecutionEnvironment:
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    return simulated_environment(seed, parallelism, Configuration.from_dict(options))


def record(topic: str) -> KafkaRecordSerializationSchemaBuilder:
    return (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(SimpleStringSchema())
    )


def sink(
    kafka: KafkaBroker | str,
    serializer: KafkaRecordSerializationSchemaBuilder,
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
) -> KafkaSinkBuilder:
    servers = kafka if isinstance(kafka, str) else kafka.bootstrap_servers
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix("tests")
        .set_record_serializer(serializer.build())
    )


def numbers(count: int, parts: int = 5, scripts: int = 2) -> tuple[ScriptedSource, list[str]]:
    """A source that waits for a checkpoint after every few of its numbers, and the numbers."""
    played: list[list[Any]] = []
    for script in range(scripts):
        steps: list[Any] = []
        for part in range(parts):
            steps += [Emit([f"{script}-{part}-{n:04}" for n in range(count)]), WaitForCheckpoint()]
        played.append(steps)
    expected = [f"{s}-{p}-{n:04}" for s in range(scripts) for p in range(parts) for n in range(count)]
    return ScriptedSource(*played), expected


def texts(kafka: KafkaBroker, topic: str) -> list[str]:
    return [value.decode() for value in kafka.values(topic)]


class FailsInItsFirstAttempts(MapFunction):
    def __init__(self, attempts: int = 3, at: int = 30) -> None:
        self._attempts, self._at = attempts, at

    def open(self, runtime_context: RuntimeContext) -> None:
        self._attempt = runtime_context.get_attempt_number()
        self._count = 0

    def map(self, value: Any) -> Any:
        self._count += 1
        if self._attempt < self._attempts and self._count == self._at + 7 * self._attempt:
            raise ValueError(f"attempt {self._attempt} is not to succeed")
        return value


# Guarantees ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_everything_arrives_where_nothing_fails(
    guarantee: DeliveryGuarantee, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic(partitions=3)
    source, expected = numbers(50)
    env = environment(tmp_path)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    stream.sink_to(sink(kafka, record(topic), guarantee).build())
    env.execute()
    assert sorted(texts(kafka, topic)) == expected


@pytest.mark.parametrize("seed", range(3))
def test_exactly_once_survives_failures(seed: int, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic(partitions=2)
    source, expected = numbers(20)
    env = environment(tmp_path, 1 + seed, seed)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    form = record(topic).set_partitioner(FlinkFixedPartitioner())
    stream.map(FailsInItsFirstAttempts()).sink_to(sink(kafka, form, DeliveryGuarantee.EXACTLY_ONCE).build())
    env.execute()
    seen = texts(kafka, topic)
    assert Counter(seen) == Counter(expected)
    for script in "01":
        assert [text for text in seen if text[0] == script] == [
            text for text in expected if text[0] == script
        ]


def test_at_least_once_loses_nothing(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic()
    source, expected = numbers(20)
    env = environment(tmp_path)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    stream.map(FailsInItsFirstAttempts()).sink_to(sink(kafka, record(topic)).build())
    env.execute()
    seen = texts(kafka, topic)
    assert set(seen) == set(expected)


def test_without_checkpoints_exactly_once_writes_at_the_end(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    env = simulated_environment(parallelism=2)
    stream = env.from_collection([str(number) for number in range(100)])
    stream.sink_to(sink(kafka, record(topic), DeliveryGuarantee.EXACTLY_ONCE).build())
    env.execute()
    assert sorted(map(int, texts(kafka, topic))) == list(range(100))


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that nobody else uses."""
    directory = tmp_path / "broker"
    directory.mkdir()
    global BROKER
    for broker in kafka_broker(directory):
        BROKER = broker
        yield broker


BROKER: KafkaBroker


class KillsTheBroker(MapFunction):
    """Twice; it comes back by itself while the job goes on."""

    killed = 0

    def map(self, value: str) -> str:
        if value.endswith("-0010") and KillsTheBroker.killed < 2:
            KillsTheBroker.killed += 1
            BROKER.kill()
            threading.Thread(target=BROKER.start).start()
        return value


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_nothing_is_lost_when_the_broker_dies_in_the_middle(
    guarantee: DeliveryGuarantee, mortal: KafkaBroker, tmp_path: Path
) -> None:
    KillsTheBroker.killed = 0
    topic = mortal.topic()
    source, expected = numbers(20, parts=3, scripts=1)
    env = environment(tmp_path, parallelism=1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    stream.map(KillsTheBroker()).sink_to(sink(mortal, record(topic), guarantee).build())
    env.execute()
    assert KillsTheBroker.killed == 2
    seen = texts(mortal, topic)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert seen == expected
    assert set(seen) == set(expected)


# Records ------------------------------------------------------------------------------------------------


class First(SerializationSchema):
    def serialize(self, value: str) -> bytes | None:
        return value[0].encode()


def run(stream_of: list[Any], sink_builder: KafkaSinkBuilder, parallelism: int = 1) -> None:
    env = simulated_environment(parallelism=parallelism)
    env.from_collection(stream_of).sink_to(sink_builder.build())
    env.execute()


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_record_has_key_headers_and_timestamp(guarantee: DeliveryGuarantee, kafka: KafkaBroker) -> None:
    topic = kafka.topic(retention_ms="-1")  # times of long ago
    form = record(topic).set_key_serialization_schema(First())
    form.set_header_provider(lambda value: {"whole": value, "nothing": None})
    form.set_timestamp(lambda value: 1_700_000_000_000 + len(value))
    run(["abc", "d"], sink(kafka, form, guarantee))
    found = [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in kafka.consume(topic)]
    assert found == [
        (b"a", b"abc", [("whole", b"abc"), ("nothing", None)], 1_700_000_000_003),
        (b"d", b"d", [("whole", b"d"), ("nothing", None)], 1_700_000_000_001),
    ]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_the_event_time_becomes_the_timestamp(guarantee: DeliveryGuarantee, kafka: KafkaBroker) -> None:
    topic = kafka.topic(retention_ms="-1")  # times of long ago
    env = simulated_environment(parallelism=1)
    source = ScriptedSource([Emit(["a", "b"], timestamps=[1_700_000_000_000, None])])
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "source")
    stream.sink_to(sink(kafka, record(topic), guarantee).build())
    env.execute()
    first, second = [message.timestamp()[1] for message in kafka.consume(topic)]
    assert first == 1_700_000_000_000
    assert second > first  # the time of writing


def murmur2(data: bytes) -> int:
    """Java's hash of keys, as its documentation has it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for begin in range(0, whole, 4):
        k = int.from_bytes(data[begin : begin + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_equal_keys_go_where_java_sends_them(kafka: KafkaBroker) -> None:
    assert murmur2(b"foobar") == -790332482 & 0xFFFFFFFF  # a value that Java's own tests have
    topic = kafka.topic(partitions=7)
    keys = [f"key {number}" for number in range(50)]
    form = record(topic).set_key_serialization_schema(SimpleStringSchema())
    run(keys, sink(kafka, form), parallelism=2)
    found = {message.key(): message.partition() for message in kafka.consume(topic)}
    assert found == {key.encode(): (murmur2(key.encode()) & 0x7FFFFFFF) % 7 for key in keys}


def test_partitions_are_chosen_in_turn_fixed_or_by_a_function(kafka: KafkaBroker) -> None:
    chosen = {}
    for name, partitioner in {
        "in turn": RoundRobinPartitioner(),
        "fixed": FlinkFixedPartitioner(),
        "own": lambda value, count: int(value) // 2 % count,
    }.items():
        topic = kafka.topic(partitions=3)
        run([str(n) for n in range(6)], sink(kafka, record(topic).set_partitioner(partitioner)))
        chosen[name] = [m.partition() for m in sorted(kafka.consume(topic), key=lambda m: int(m.value()))]
    assert chosen == {"in turn": [0, 1, 2, 0, 1, 2], "fixed": [0] * 6, "own": [0, 0, 1, 1, 2, 2]}


class ByFirst(KafkaTopicSelector):
    def __init__(self, topics: dict[str, str]) -> None:
        self._topics = topics

    def apply(self, data: Any) -> str:
        return self._topics[data[0]]


def test_every_record_may_have_its_topic(kafka: KafkaBroker) -> None:
    topics = {name: kafka.topic(name) for name in "ab"}
    form = record("unused").set_topic_selector(ByFirst(topics))
    run(["a1", "b1", "a2"], sink(kafka, form, DeliveryGuarantee.EXACTLY_ONCE))
    assert [texts(kafka, topics[name]) for name in "ab"] == [["a1", "a2"], ["b1"]]


def test_fields_of_a_row_become_key_and_value(kafka: KafkaBroker) -> None:
    """Written as PyFlink's programs do it."""
    topic = kafka.topic(partitions=3)
    row = Types.ROW([Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.BYTE())])
    form = KafkaRecordSerializationSchema.builder().set_topic(topic)
    form.set_key_serialization_schema(RowFieldExtractorSchema(0))
    form.set_value_serialization_schema(RowFieldExtractorSchema(1))
    env = simulated_environment(parallelism=1)
    orders = env.from_collection(
        [Row(b"ann", b"tea"), Row(b"bob", b"ink"), Row(b"ann", b"jam")], type_info=row
    )
    orders.map(lambda order: order, output_type=row).sink_to(
        sink(kafka, form).set_property("group.id", "of no use to a producer").build()
    )
    env.execute()
    found = [(message.key(), message.value()) for message in kafka.consume(topic)]
    assert [value for key, value in found if key == b"ann"] == [b"tea", b"jam"]
    assert sorted(found) == [(b"ann", b"jam"), (b"ann", b"tea"), (b"bob", b"ink")]


@pytest.mark.parametrize("semantic", list(Semantic))
def test_the_older_producer_writes_too(semantic: Semantic, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic(partitions=2)
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    producer = FlinkKafkaProducer(topic, SimpleStringSchema(), config, semantic=semantic)
    env = environment(tmp_path)
    env.from_collection(["a", "b", "c", "d"]).add_sink(producer)
    env.execute()
    assert sorted(texts(kafka, topic)) == ["a", "b", "c", "d"]


# What goes wrong ----------------------------------------------------------------------------------------


def failing(stream_of: list[Any], builder: KafkaSinkBuilder) -> str:
    with pytest.raises(JobExecutionError) as raised:
        run(stream_of, builder)
    return str(raised.value)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_servers_that_do_not_answer_are_named(guarantee: DeliveryGuarantee) -> None:
    builder = sink("127.0.0.1:1", record("topic"), guarantee).set_property("max.block.ms", "1000")
    assert "no Kafka broker answers at 127.0.0.1:1 within 1 s" in failing(["a"], builder)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_topic_that_does_not_exist_is_named(guarantee: DeliveryGuarantee, kafka: KafkaBroker) -> None:
    fixed = sink(kafka, record("nowhere"), guarantee)
    assert "the topic 'nowhere' does not exist" in failing(["a"], fixed)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_chosen_topic_that_does_not_exist_is_named(
    guarantee: DeliveryGuarantee, kafka: KafkaBroker
) -> None:
    form = record("unused").set_topic_selector(lambda value: value)
    said = failing([kafka.topic(), "nowhere"], sink(kafka, form, guarantee))
    assert "the topic 'nowhere' does not exist" in said
    assert "record:   'nowhere'" in said


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_record_that_is_too_large_is_refused(guarantee: DeliveryGuarantee, kafka: KafkaBroker) -> None:
    topic = kafka.topic(max_message_bytes="1000")
    small = failing(["x" * 2000], sink(kafka, record(topic), guarantee))
    assert f"a record is too large for the topic {topic!r}" in small
    large = failing(["x" * 2_000_000], sink(kafka, record(topic), guarantee))
    assert f"a record of 2000000 bytes, with key None, is too large for the topic {topic!r}" in large
    assert kafka.values(topic) == []


def test_a_property_that_does_not_exist_is_named(kafka: KafkaBroker) -> None:
    builder = sink(kafka, record(kafka.topic())).set_property("linger", "5")
    assert 'No such configuration property: "linger"' in failing(["a"], builder)


class UntilCancelled(SourceFunction):
    """A record every now and then."""

    cancelled = False

    def run(self, ctx: Any) -> None:
        pace = threading.Event()
        while not self.cancelled:
            with ctx.get_checkpoint_lock():
                ctx.collect("x")
            pace.wait(0.01)

    def cancel(self) -> None:
        self.cancelled = True


def running(directory: Path, builder: KafkaSinkBuilder) -> JobClient:
    """A job that writes until something happens."""
    env = environment(directory, 1)
    env.get_config().set_restart_strategy(RestartStrategies.no_restart())
    env.add_source(UntilCancelled()).sink_to(builder.build())
    return env.execute_async()


def wait_for_records(kafka: KafkaBroker, topic: str) -> None:
    while not kafka.has_records(topic):
        pass


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_topic_that_is_deleted_while_a_job_writes_to_it_ends_the_job(
    guarantee: DeliveryGuarantee, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic("deleted")
    builder = sink(kafka, record(topic), guarantee).set_property("max.block.ms", "1000")
    builder.set_property("topic.metadata.propagation.max.ms", "500")
    builder.set_property("topic.metadata.refresh.interval.ms", "500")
    client = running(tmp_path, builder)
    wait_for_records(kafka, topic)
    kafka.delete_topic(topic)
    with pytest.raises(JobExecutionError) as failed:
        client.get_job_execution_result().result()
    assert f"the topic {topic!r} does not exist at {kafka.bootstrap_servers}, or not any more" in str(
        failed.value
    )
    assert "create it, or correct its name" in str(failed.value)


def test_a_broker_that_does_not_come_back_ends_the_job(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic("lost")
    builder = sink(kafka, record(topic)).set_property("delivery.timeout.ms", "1000")
    client = running(tmp_path, builder.set_property("linger.ms", "0"))
    wait_for_records(kafka, topic)
    kafka.kill()
    try:
        with pytest.raises(JobExecutionError) as failed:
            client.get_job_execution_result().result()
    finally:
        kafka.start()
    assert f"records for the topic {topic!r} could not be delivered to {kafka.bootstrap_servers}" in str(
        failed.value
    )
    assert "delivery.timeout.ms" in str(failed.value)


def rule(kafka: KafkaBroker, permission: str, kind: str, name: str, operation: str) -> None:
    """Where there is a rule, what no rule allows is not allowed."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    binding = AclBinding(
        ResourceType[kind],
        name,
        ResourcePatternType.PREFIXED,
        "User:ANONYMOUS",
        "*",
        AclOperation[operation],
        AclPermissionType[permission],
    )
    for done in kafka.admin().create_acls([binding]).values():
        done.result(60)


def test_what_is_not_allowed_is_named(kafka: KafkaBroker) -> None:
    closed, unread, topic = kafka.topic("closed"), kafka.topic("unread"), kafka.topic("open")
    rule(kafka, "DENY", "TOPIC", closed, "WRITE")
    rule(kafka, "ALLOW", "TOPIC", closed, "DESCRIBE")
    rule(kafka, "DENY", "TOPIC", unread, "READ")
    rule(kafka, "ALLOW", "TOPIC", unread, "WRITE")
    rule(kafka, "DENY", "TRANSACTIONAL_ID", "nobody", "WRITE")
    for guarantee in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):
        assert f"is not allowed to write to the topic {closed!r}" in failing(
            ["a"], sink(kafka, record(closed), guarantee)
        )
    exactly_once = DeliveryGuarantee.EXACTLY_ONCE
    assert "EXACTLY_ONCE: read it, too, for the marker" in failing(
        ["a"], sink(kafka, record(unread), exactly_once)
    )
    prefixed = sink(kafka, record(topic), exactly_once).set_transactional_id_prefix("nobody")
    assert "is not allowed to use the transactional id 'nobody-0-" in failing(["a"], prefixed)
