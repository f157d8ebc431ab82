"""Looks whether the partitions that a consumer reads are still there: the client waits for deleted ones for ever."""

from __future__ import annotations

import time
from typing import Any

from firesteel.common.errors import JobExecutionError
from firesteel.connectors.kafka.source_splits import KafkaTopicPartition

__all__ = ["PartitionWatch"]

#: A broker that has just started may not know all topics yet: only what is missing so often in a row is gone.
LOOKS = 3
LOOK_AGAIN_SECONDS = 1.0
#: The thread does nothing else meanwhile; brokers that are away are not waited for.
ANSWER_SECONDS = 1.0


class PartitionWatch:
    """Asks for the topics once in a while."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._due = time.monotonic() + interval
        self._missed = 0

    def look(self, consumer: Any) -> None:
        """Raise an error if a partition that is being read is gone; most calls have nothing to do."""
        if time.monotonic() < self._due:
            return
        missing = self._missing(consumer)
        self._missed = self._missed + 1 if missing else 0
        if missing and self._missed >= LOOKS:
            raise JobExecutionError(
                f"partition {missing[0].partition} of topic {missing[0].topic!r} is not there any more: the topic was deleted while the "
                "job read it, or while it was down. Create it again and start without the checkpoint, or take it out of the "
                "source's topics"
            )
        self._due = time.monotonic() + (LOOK_AGAIN_SECONDS if missing else self._interval)

    def _missing(self, consumer: Any) -> list[KafkaTopicPartition]:
        from confluent_kafka import KafkaException

        read = [KafkaTopicPartition(each.topic, each.partition) for each in consumer.assignment()]
        if not read:
            return []
        try:
            topics = consumer.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException:  # brokers are away, which the client tells by itself
            return []
        return sorted(
            each
            for each in read
            if each.topic not in topics
            or (topics[each.topic].error is None and each.partition not in topics[each.topic].partitions)
        )
