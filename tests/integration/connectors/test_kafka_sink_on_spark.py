"""To Kafka on Spark, exactly once, with a worker that dies on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment

from firesteel.common import SimpleStringSchema, WatermarkStrategy
from firesteel.datastream import MapFunction
from firesteel.datastream.connectors import NumberSequenceSource
from firesteel.datastream.connectors.base import DeliveryGuarantee
from firesteel.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from firesteel.datastream.functions import RuntimeContext
from firesteel_support.servers.kafka import KafkaBroker

pytestmark = pytest.mark.spark

COUNT = 2000


class DiesOnce(MapFunction):
    """Asks the broker before each of its numbers, and kills its own process when something was written."""

    def __init__(self, servers: str, topic: str, grave: Path) -> None:
        self._servers, self._topic, self._grave = servers, topic, grave

    def open(self, runtime_context: RuntimeContext) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "observer"})

    def map(self, value: Any) -> str:
        from confluent_kafka import TopicPartition

        _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), 60)
        if end and not self._grave.exists():
            self._grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return str(value)


def test_numbers_are_written_once_although_a_worker_is_killed(
    environment: SparkEnvironment, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(1, **options)
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    record.set_value_serialization_schema(SimpleStringSchema())
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("spark")
        .set_record_serializer(record.build())
        .build()
    )
    numbers = env.from_source(NumberSequenceSource(1, COUNT), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(DiesOnce(kafka.bootstrap_servers, topic, tmp_path / "died")).sink_to(sink)
    env.execute()
    assert (tmp_path / "died").exists()
    assert [int(value) for value in kafka.values(topic)] == list(range(1, COUNT + 1))
