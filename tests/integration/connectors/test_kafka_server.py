"""The Kafka broker for tests does what tests rely on."""

from __future__ import annotations

from firesteel_support.servers.kafka import KafkaBroker


def test_records_survive_a_crash_of_the_broker(kafka: KafkaBroker) -> None:
    topic = kafka.topic("crash", partitions=2)
    kafka.produce(topic, [b"a", b"b"], partition=1, key=b"k", headers=[("h", b"1")], timestamp=5)
    kafka.restart()
    kafka.produce(topic, [b"c"], partition=0)
    assert kafka.values(topic) == [b"c", b"a", b"b"]
    message = kafka.consume(topic)[1]
    assert (message.key(), message.headers(), message.timestamp()[1]) == (b"k", [("h", b"1")], 5)


def test_what_retention_takes_is_gone(kafka: KafkaBroker) -> None:
    topic = kafka.topic("retention")
    kafka.produce(topic, [b"a", b"b", b"c"])
    kafka.delete_records_before(topic, 0, 2)
    assert kafka.values(topic) == [b"c"]


def test_partitions_can_be_added(kafka: KafkaBroker) -> None:
    topic = kafka.topic("growing")
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, [b"a"], partition=2)
    assert kafka.values(topic) == [b"a"]


def test_transactions_hide_what_was_aborted(kafka: KafkaBroker) -> None:
    from confluent_kafka import Producer

    topic = kafka.topic("transactions")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for value, end in ((b"given up", producer.abort_transaction), (b"kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end()
    assert kafka.values(topic) == [b"kept"]
    assert kafka.values(topic, "read_uncommitted") == [b"given up", b"kept"]
