"""Which partition a record goes to: Kafka's own choice by the hash of the key, fixed, in turn, or as a function says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from firesteel.common._override import override

__all__ = ["CallablePartitioner", "FlinkFixedPartitioner", "FlinkKafkaPartitioner", "RoundRobinPartitioner"]


class FlinkKafkaPartitioner(ABC):
    """Chooses the partition of each record; every subtask has its own copy."""

    def open(self, parallel_instance_id: int, parallel_instances: int) -> None:
        """Comes once, before any record: which subtask this is, and how many there are."""

    @abstractmethod
    def partition(
        self,
        record: Any,
        key: bytes | None,
        value: bytes | None,
        target_topic: str,
        partitions: list[int],
        /,
    ) -> int:
        """Return one of the partitions that the topic has."""


class FlinkFixedPartitioner(FlinkKafkaPartitioner):
    """Everything that a subtask writes goes to one partition; with fewer subtasks than partitions some stay empty."""

    def __init__(self) -> None:
        self._subtask = 0

    @override
    def open(self, parallel_instance_id: int, parallel_instances: int) -> None:
        self._subtask = parallel_instance_id

    @override
    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: list[int]
    ) -> int:
        return partitions[self._subtask % len(partitions)]


class RoundRobinPartitioner(FlinkKafkaPartitioner):
    """One partition after the other, for each topic; each subtask begins with another one."""

    def __init__(self) -> None:
        self._first = 0
        self._next: dict[str, int] = {}

    @override
    def open(self, parallel_instance_id: int, parallel_instances: int) -> None:
        self._first = parallel_instance_id

    @override
    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: list[int]
    ) -> int:
        index = self._next.get(target_topic, self._first)
        self._next[target_topic] = index + 1
        return partitions[index % len(partitions)]


class CallablePartitioner(FlinkKafkaPartitioner):
    """A function of the record and the number of partitions."""

    def __init__(self, choose: Callable[[Any, int], int]) -> None:
        self._choose = choose

    @override
    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: list[int]
    ) -> int:
        return self._choose(record, len(partitions))
