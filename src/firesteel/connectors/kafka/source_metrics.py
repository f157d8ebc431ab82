"""Metrics of a Kafka reader: how far it is in each partition, and how much is still to be read. Their names are Flink's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.connectors.kafka.source_splits import EARLIEST, KafkaTopicPartition
from firesteel.metrics import MetricGroup

__all__ = ["PartitionEnds", "reader_group", "register_partition"]


def reader_group(group: MetricGroup) -> MetricGroup:
    """The group of what only this source has."""
    return group.add_group("KafkaSourceReader")


def register_partition(
    group: MetricGroup,
    partition: KafkaTopicPartition,
    position: Callable[[], int],
    committed: Callable[[], int] | None,
    lag: Callable[[], int | None],
) -> None:
    """What there is to know of one partition; ``position`` is where the next record is read."""
    place = reader_group(group).add_group("topic", partition.topic)
    place = place.add_group("partition", str(partition.partition))
    # As in Flink, that of the last record; -1 before the first.
    place.gauge("currentOffset", lambda: max(position() - 1, -1))
    place.gauge("records-lag", lag)
    if committed is not None:
        place.gauge("committedOffset", committed)


class PartitionEnds:
    """The ends of partitions as the client last heard of them, in answers to its fetches: nobody is asked for them.

    They are looked up by the thread that has the client (``call``) and are there for whoever asks the next time.
    """

    def __init__(self, call: Callable[[Callable[[Any], None]], None]) -> None:
        self._call = call
        self._known: dict[KafkaTopicPartition, tuple[int, int]] = {}
        self._is_looking = False

    def refresh(self) -> None:
        """Have them looked up, unless that is still under way."""
        if not self._is_looking:
            self._is_looking = True
            self._call(self._look)

    def _look(self, consumer: Any) -> None:
        for each in consumer.assignment():
            low, high = consumer.get_watermark_offsets(each, cached=True)
            if high >= 0:
                self._known[KafkaTopicPartition(each.topic, each.partition)] = (low, high)
        self._is_looking = False

    def behind(self, partition: KafkaTopicPartition, position: int, stop: int | None) -> int | None:
        """How many offsets there are from a position to the end, or to where reading stops; None if the end is not known."""
        if partition not in self._known:
            return None
        low, high = self._known[partition]
        end = high if stop is None else min(stop, high)
        return max(end - (max(low, 0) if position == EARLIEST else position), 0)
