"""Connectors in a job on Spark: the clients live in Spark's Python workers, and survive a restart of the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import redis

from firesteel.common import SimpleStringSchema
from firesteel.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSource
from firesteel.datastream.connectors.redis import RedisSink
from firesteel_support.servers.rabbitmq import RabbitServer
from firesteel_support.servers.redis import RedisServer


def test_from_rabbitmq_to_redis_every_message_counts_once_though_the_job_fails(
    environment: Any, rabbitmq_server: RabbitServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    failed = tmp_path / "failed"
    connection = rabbitmq_server.connect()
    channel = connection.channel()
    channel.queue_declare("spark", durable=True)
    for text in [*map(str, range(500)), "end"]:
        channel.basic_publish("", "spark", text.encode(), pika.BasicProperties(correlation_id=text))
    connection.close()

    class UntilEnd(SimpleStringSchema):
        def is_end_of_stream(self, next_element: Any) -> bool:
            return bool(next_element == "end")

    def fails_once(text: str) -> int:
        if text == "400" and not failed.exists():
            failed.touch()
            raise RuntimeError("in the middle")
        return int(text)

    env = environment(
        2, **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
    )
    env.enable_checkpointing(200)
    config = RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(rabbitmq_server.port).build()
    numbers = env.add_source(RMQSource(config, "spark", True, UntilEnd())).set_parallelism(1)
    counted = RedisSink(redis_server.url, lambda n: [("HINCRBY", "spark", str(n), 1)], exactly_once=True)
    numbers.rebalance().map(fails_once).sink_to(counted)
    env.execute()
    assert failed.exists()
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        assert client.hgetall("spark") == {str(number): "1" for number in range(500)}
