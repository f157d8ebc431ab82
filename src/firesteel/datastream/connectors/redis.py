"""Redis and Valkey: streams as a source, any commands as a sink. Needs ``firesteel[redis]``."""

from __future__ import annotations

from firesteel.connectors.redis.sink import RedisSink
from firesteel.connectors.redis.stream_source import RedisEntry, RedisStreamSource

__all__ = ["RedisEntry", "RedisSink", "RedisStreamSource"]
