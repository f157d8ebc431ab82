"""The servers that tests of connectors use, each started once, by the first test that asks for it."""

from __future__ import annotations

from firesteel_support.servers.cassandra import cassandra_server
from firesteel_support.servers.kafka import kafka
from firesteel_support.servers.mosquitto import mosquitto
from firesteel_support.servers.nats import nats_server
from firesteel_support.servers.opensearch import opensearch_server
from firesteel_support.servers.postgres import database, postgres_server
from firesteel_support.servers.rabbitmq import rabbitmq_server
from firesteel_support.servers.redis import redis_server
from firesteel_support.servers.s3 import s3

__all__ = [
    "cassandra_server",
    "database",
    "kafka",
    "mosquitto",
    "nats_server",
    "opensearch_server",
    "postgres_server",
    "rabbitmq_server",
    "redis_server",
    "s3",
]
