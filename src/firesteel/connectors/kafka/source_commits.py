"""Offsets of the source's group: committed after checkpoints, for whoever watches the group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from firesteel.connectors.kafka.source_client import to_client
from firesteel.connectors.kafka.source_metrics import reader_group
from firesteel.connectors.kafka.source_splits import KafkaTopicPartition
from firesteel.metrics import MetricGroup

__all__ = ["GroupOffsets"]

_LOG = logging.getLogger(__name__)

#: How long a reader that ends waits for its last commit; nothing but what people see depends on it.
LAST_COMMIT_SECONDS = 5.0


class GroupOffsets:
    """Remembers the positions of checkpoints and commits those that became complete; failures are told, not raised."""

    def __init__(self, group: str | None, metrics: MetricGroup) -> None:
        self._group = group
        self._succeeded = reader_group(metrics).counter("commitsSucceeded")
        self._failed = reader_group(metrics).counter("commitsFailed")
        self._confirmed: dict[KafkaTopicPartition, int] = {}
        self._of_checkpoints: dict[int, dict[KafkaTopicPartition, int]] = {}
        self._committed: dict[KafkaTopicPartition, int] = {}
        self._under_way = 0

    def remember(self, checkpoint_id: int, positions: Mapping[KafkaTopicPartition, int]) -> None:
        """The positions of a checkpoint; those at which nothing was read yet are unknown to the group."""
        self._of_checkpoints[checkpoint_id] = {
            partition: offset for partition, offset in positions.items() if offset >= 0
        }

    def forget(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted."""
        self._of_checkpoints.pop(checkpoint_id, None)

    def committing(self, checkpoint_id: int) -> Callable[[Any], None]:
        """What has the client commit the positions of a checkpoint, without waiting; earlier ones are out of date."""
        positions = self._of_checkpoints.pop(checkpoint_id, {})
        self._of_checkpoints = {
            other: offsets for other, offsets in self._of_checkpoints.items() if other > checkpoint_id
        }
        return partial(self._commit, positions=positions)

    def _commit(self, consumer: Any, positions: Mapping[KafkaTopicPartition, int]) -> None:
        """Only what has changed; in the thread that has the client, as all that follows."""
        from confluent_kafka import KafkaException

        news = {key: offset for key, offset in positions.items() if self._committed.get(key) != offset}
        if not news:
            return
        self._committed.update(news)
        self._under_way += 1
        try:
            consumer.commit(
                offsets=[to_client(key, offset) for key, offset in news.items()], asynchronous=True
            )
        except KafkaException as error:
            self.on_commit(error, [])

    def on_commit(self, error: Any, offsets: Any) -> None:
        """The client tells how a commit ended."""
        self._under_way -= 1
        if error is not None:
            self._failed.inc()
            self._warn(error)
            return
        self._succeeded.inc()
        for each in offsets:
            self._confirmed[KafkaTopicPartition(each.topic, each.partition)] = each.offset

    def confirmed(self, partition: KafkaTopicPartition) -> int:
        """What the group has of a partition, as far as it is known to have been committed here; else -1."""
        return self._confirmed.get(partition, -1)

    def _warn(self, error: Any) -> None:
        _LOG.warning(
            "the Kafka source could not commit offsets for group %r, which only monitoring needs: %s; it tries again with the "
            "next checkpoint",
            self._group,
            error,
        )
        self._committed.clear()

    def wait(self, consumer: Any) -> None:
        """Let commits under way come to their end, for a while; nobody else polls the client by now."""
        deadline = time.monotonic() + LAST_COMMIT_SECONDS
        while self._under_way > 0 and time.monotonic() < deadline:
            consumer.poll(0.05)
