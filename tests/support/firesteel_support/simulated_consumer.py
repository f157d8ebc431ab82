"""A consumer of confluent-kafka without a broker: what the Kafka source calls, with the same behaviour."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

__all__ = ["SimulatedConsumer", "SimulatedMessage", "SimulatedTopics"]


class SimulatedMessage:
    """A record, or an error in its place."""

    def __init__(
        self, topic: str, partition: int, offset: int, value: bytes | None, error: Any = None
    ) -> None:
        self._where = topic, partition, offset
        self._value = value
        self._error = error

    def topic(self) -> str:
        return self._where[0]

    def partition(self) -> int:
        return self._where[1]

    def offset(self) -> int:
        return self._where[2]

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, self._where[2] * 10

    def error(self) -> Any:
        return self._error


class SimulatedTopics:
    """Logs of partitions: value by offset, from ``low`` on; gaps are what compaction or transactions leave."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], dict[int, bytes | None]] = {}
        self.low: dict[tuple[str, int], int] = {}
        self.end: dict[tuple[str, int], int] = {}
        self.consumers: list[SimulatedConsumer] = []

    def put(self, topic: str, partition: int, *values: bytes | None, gap: int = 0) -> None:
        """Append records, then ``gap`` offsets without any."""
        key = topic, partition
        log, end = self.logs.setdefault(key, {}), self.end.get(key, 0)
        for value in values:
            log[end] = value
            end += 1
        self.end[key] = end + gap
        self.low.setdefault(key, 0)

    def connect(self, properties: dict[str, str], callbacks: Mapping[str, Callable[..., None]]) -> Any:
        """A consumer, as `source_client.connect` makes them."""
        self.consumers.append(SimulatedConsumer(self, callbacks))
        return self.consumers[-1]


class SimulatedConsumer:
    """One partition after the other, an end-of-partition event behind its last record, one thread at a time."""

    def __init__(self, topics: SimulatedTopics, callbacks: Mapping[str, Callable[..., None]]) -> None:
        self._topics = topics
        self._callbacks = callbacks
        self._positions: dict[tuple[str, int], int] = {}
        self._told: set[tuple[tuple[str, int], int]] = set()
        self._inside = threading.Lock()
        self._pending: list[Callable[[], None]] = []
        self.committed: dict[tuple[str, int], int] = {}
        self.closed = False

    def _next(self) -> SimulatedMessage | None:
        for key, position in self._positions.items():
            if position < self._topics.low[key] or position > self._topics.end[key]:
                if (key, position) in self._told:
                    continue
                self._told.add((key, position))
                return SimulatedMessage(*key, position, None, KafkaError(KafkaError._AUTO_OFFSET_RESET))
            found = [offset for offset in self._topics.logs[key] if offset >= position]
            if found:
                self._positions[key] = found[0] + 1
                return SimulatedMessage(*key, found[0], self._topics.logs[key][found[0]])
            if (key, self._topics.end[key]) not in self._told:
                self._told.add((key, self._topics.end[key]))
                return SimulatedMessage(
                    *key, self._topics.end[key], None, KafkaError(KafkaError._PARTITION_EOF)
                )
        return None

    def poll(self, timeout: float) -> SimulatedMessage | None:
        with self._alone():
            while self._pending:
                self._pending.pop(0)()
            return self._next()

    def consume(self, count: int, timeout: float) -> list[SimulatedMessage]:
        with self._alone():
            found: list[SimulatedMessage] = []
            while len(found) < count and (message := self._next()) is not None:
                found.append(message)
            return found

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        with self._alone():
            for each in partitions:
                key = each.topic, each.partition
                assert key not in self._positions
                self._positions[key] = (
                    self._topics.low[key] if each.offset == OFFSET_BEGINNING else each.offset
                )

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        with self._alone():
            for each in partitions:
                del self._positions[each.topic, each.partition]

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*key) for key in self._positions]

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = 0.0, cached: bool = False
    ) -> tuple[int, int]:
        key = partition.topic, partition.partition
        return self._topics.low[key], self._topics.end[key]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        with self._alone():
            self.committed.update({(each.topic, each.partition): each.offset for each in offsets})
            self._pending.append(lambda: self._callbacks["on_commit"](None, offsets))

    def close(self) -> None:
        self.closed = True

    def _alone(self) -> Any:
        assert not self._inside.locked(), "two threads use the consumer"
        return self._inside
