"""What the Kafka source reads: partitions of topics, from an offset to an end, and which reader reads which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["EARLIEST", "KafkaSplit", "KafkaTopicPartition", "owner_of"]

#: The offset of the oldest record that is there when reading begins, whatever number it has by then.
EARLIEST = -2


class KafkaTopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class KafkaSplit:
    """The records of a partition from ``offset`` (or `EARLIEST`) up to, not including, ``stop``; None: without end."""

    topic: str
    partition: int
    offset: int
    stop: int | None = None

    @property
    def of(self) -> KafkaTopicPartition:
        """The partition."""
        return KafkaTopicPartition(self.topic, self.partition)


def owner_of(partition: KafkaTopicPartition, readers: int) -> int:
    """The reader of a partition: those of a topic go round, beginning at a reader that its name decides, as in Flink.

    >>> [owner_of(KafkaTopicPartition("orders", number), 4) for number in range(5)]
    [3, 0, 1, 2, 3]
    """
    start = ((_java_hash(partition.topic) * 31) & 0x7FFFFFFF) % readers
    return (start + partition.partition) % readers


def _java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number; topics have ASCII names."""
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return code
