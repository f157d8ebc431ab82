"""What a Kafka consumer can say instead of records, and what it means for the job."""

from __future__ import annotations

import logging
from typing import Any

from firesteel.common.errors import JobExecutionError
from firesteel.connectors.kafka.client_trouble import Trouble, describe
from firesteel.connectors.kafka.source_client import to_client
from firesteel.connectors.kafka.source_offsets import KafkaOffsetResetStrategy
from firesteel.connectors.kafka.source_splits import KafkaTopicPartition

__all__ = ["ReadErrors"]

_LOG = logging.getLogger(__name__)

_WATERMARK_SECONDS = 30.0


class ReadErrors:
    """Tells errors that end the job from those that the client gets over, and resets positions where the user wants it."""

    def __init__(self, servers: str, reset: KafkaOffsetResetStrategy | None) -> None:
        self._servers = servers
        self._reset = reset
        self._trouble = Trouble("source", servers)
        self.note = self._trouble.note

    def partition_to_reset(self, message: Any) -> KafkaTopicPartition | None:
        """The partition whose position is not there any more; None after a trouble that passes; others are raised."""
        from confluent_kafka import KafkaError

        error = message.error()
        code = error.code()
        if code == KafkaError._AUTO_OFFSET_RESET:
            return KafkaTopicPartition(message.topic(), message.partition())
        if error.fatal() or not (error.retriable() or _passes(code)):
            raise JobExecutionError(
                f"Kafka at {self._servers} refuses to give records of partition {message.partition()} of topic "
                f"{message.topic()!r}: {describe(error)}"
            )
        self.note(error)
        return None

    def reset(self, consumer: Any, partition: KafkaTopicPartition, offset: int) -> None:
        """Go on where the user chose; without a choice, records are lost and that is an error."""
        low, high = self._ends_of(consumer, partition, offset)
        there = (
            f"there are records from offset {low} to {high - 1}"
            if high > low
            else f"there are none, and the next one gets offset {high}"
        )
        trouble = (
            f"the Kafka source is to resume at offset {offset} of partition {partition.partition} of topic {partition.topic!r}, but "
            f"{there}. "
        )
        if self._reset is None:
            raise JobExecutionError(trouble + _cause(offset, low, high) + _REMEDY)
        target = int(low if self._reset is KafkaOffsetResetStrategy.EARLIEST else high)
        _LOG.warning("%sIt resumes at %d, the %s one", trouble, target, self._reset.value)
        consumer.incremental_unassign([to_client(partition)])
        consumer.incremental_assign([to_client(partition, target)])

    def _ends_of(self, consumer: Any, partition: KafkaTopicPartition, offset: int) -> tuple[int, int]:
        from confluent_kafka import KafkaException

        try:
            ends: tuple[int, int] = consumer.get_watermark_offsets(
                to_client(partition), timeout=_WATERMARK_SECONDS
            )
            return ends
        except KafkaException as error:
            raise JobExecutionError(
                f"offset {offset} of partition {partition.partition} of topic {partition.topic!r} is not there, and Kafka at "
                f"{self._servers} does not tell which are: {describe(error)}; start the job again when the brokers answer"
            ) from error


_REMEDY = (
    " To continue with what is there, set the property auto.offset.reset to earliest or latest; to keep all records, let the topic "
    "keep them for longer (retention.ms, retention.bytes) than the job can be down"
)


def _cause(offset: int, low: int, high: int) -> str:
    if offset < low:
        return f"{low - offset} offsets were deleted before they were read, by retention probably."
    return (
        f"The topic ends {offset - high} before it: it was probably deleted and made again, or lost records."
    )


def _passes(code: int) -> bool:
    from confluent_kafka import KafkaError

    return code in (
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._MAX_POLL_EXCEEDED,
        # Whether a topic is gone, or a broker does not know it yet, is found out by `PartitionWatch`.
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
