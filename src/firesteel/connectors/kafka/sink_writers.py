"""Writers of the Kafka sink: one that sends at once, and one that stages records for the committer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from firesteel.common._override import override
from firesteel.connectors.kafka.sink_client import KafkaCluster, OutgoingRecord
from firesteel.connectors.kafka.sink_records import Serializer
from firesteel.connectors.kafka.sink_staging import Chunk, Staging
from firesteel.contracts.sink import SinkFunction, SinkWriter

__all__ = ["Partitions", "SendingWriter", "StagingWriter"]

#: How often the client is asked whether something could not be delivered, in seconds.
_LOOK_SECONDS = 1.0
#: How long the number of partitions of a topic is taken for granted, as by Java's client.
_METADATA_SECONDS = 300.0


class Partitions:
    """How many partitions topics have; asked for now and then, because topics grow."""

    def __init__(self, cluster: KafkaCluster, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self._known: dict[str, tuple[int, float]] = {}

    def __call__(self, topic: str) -> int:
        """How many a topic has."""
        count, until = self._known.get(topic, (0, -math.inf))
        now = self._now()
        if now >= until:
            count = self._cluster.partitions(topic)
            self._known[topic] = (count, now + _METADATA_SECONDS)
        return count


class _SerializingWriter(SinkWriter[Any]):
    """Makes Kafka's records of what comes."""

    def __init__(self, cluster: KafkaCluster, serializer: Serializer) -> None:
        self._cluster = cluster
        self._serializer = serializer

    @override
    def write(self, value: Any, context: SinkFunction.Context) -> None:
        self._take(self._serializer.records([value], [context.timestamp()]))

    @override
    def write_batch(
        self, values: list[Any], timestamps: Sequence[int | None] | None, context: SinkFunction.Context
    ) -> None:
        self._take(self._serializer.records(values, timestamps))

    def _take(self, records: list[OutgoingRecord]) -> None:
        raise NotImplementedError


class SendingWriter(_SerializingWriter):
    """NONE and AT_LEAST_ONCE: everybody sees records as soon as they are sent.

    ``flushes``: a checkpoint waits until everything before it is delivered.
    """

    def __init__(
        self, cluster: KafkaCluster, serializer: Serializer, now: Callable[[], float], flushes: bool
    ) -> None:
        super().__init__(cluster, serializer)
        self._producer = cluster.producer()
        self._now = now
        self._flushes = flushes
        self._look_at = math.inf

    @override
    def _take(self, records: list[OutgoingRecord]) -> None:
        self._producer.produce(records)
        if self._look_at == math.inf:
            self._look_at = self._now() + _LOOK_SECONDS

    @override
    def flush(self, end_of_input: bool) -> None:
        """Wait for the brokers; at the end of the input with NONE too, because nobody would write it later."""
        if self._flushes or end_of_input:
            self._producer.flush()
            self._look_at = math.inf
        else:
            self._producer.check()

    @override
    def next_deadline(self) -> float:
        return self._look_at

    @override
    def on_time(self, now: float) -> None:
        """Did something go wrong while no more records came?"""
        self._producer.check()
        self._look_at = now + _LOOK_SECONDS

    @override
    def close(self) -> None:
        self._producer.close()
        self._cluster.close()


class StagingWriter(_SerializingWriter):
    """EXACTLY_ONCE: keeps the records for the checkpoint."""

    def __init__(
        self, cluster: KafkaCluster, serializer: Serializer, now: Callable[[], float], staging: Staging
    ) -> None:
        super().__init__(cluster, serializer)
        self._now = now
        self._staging = staging

    @override
    def _take(self, records: list[OutgoingRecord]) -> None:
        self._staging.add(records, self._now())

    @override
    def prepare_commit(self) -> list[Chunk]:
        return self._staging.take(self._now())

    @override
    def close(self) -> None:
        self._cluster.close()
