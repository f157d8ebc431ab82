"""A Kafka topic as a stream on Spark: tasks in other processes, checkpoints, a task that fails on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import WatermarkStrategy
from firesteel.common.serialization import SimpleStringSchema
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from firesteel_support.servers.kafka import KafkaBroker

pytestmark = pytest.mark.spark


def test_a_bounded_topic_is_read_exactly_once_although_a_task_fails(
    kafka: KafkaBroker, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    topic = kafka.topic("spark", partitions=3)
    for partition in range(3):
        kafka.produce(topic, [f"{partition}/{number}" for number in range(2000)], partition=partition)
    env = environment(
        2,
        **{
            "execution.checkpointing.dir": tmp_path / "checkpoints",
            "execution.checkpointing.interval": "200 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "100 ms",
        },
    )
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_topics(topic)
        .set_group_id(topic)
        .set_value_only_deserializer(SimpleStringSchema())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .build()
    )
    marker = tmp_path / "failed"

    def fail_once(value: Any) -> Any:
        if value == "1/1500" and not marker.exists():
            marker.touch()
            raise RuntimeError("fails once")
        return value

    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").map(fail_once)
    found = sorted(stream.execute_and_collect())
    assert found == sorted(f"{partition}/{number}" for partition in range(3) for number in range(2000))
    assert marker.exists()
    assert kafka.committed(topic, topic) == dict.fromkeys(range(3), 2000)
