"""Which partitions the Kafka source reads: those of topics, of topics that match a pattern, or a set of them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError
from firesteel.connectors.kafka.source_splits import KafkaTopicPartition

__all__ = ["PartitionSet", "Subscription", "TopicList", "TopicPattern"]

Topics = Mapping[str, Sequence[int]]


class Subscription(ABC):
    """Chooses among what is there."""

    @abstractmethod
    def choose(self, topics: Topics) -> list[KafkaTopicPartition]:
        """The partitions to read; what is missing is an error."""


@dataclass(frozen=True)
class TopicList(Subscription):
    """All partitions of these topics."""

    names: tuple[str, ...]

    @override
    def choose(self, topics: Topics) -> list[KafkaTopicPartition]:
        for name in self.names:
            if name not in topics:
                raise JobExecutionError(_no_topic(name, topics))
        return [KafkaTopicPartition(name, number) for name in self.names for number in topics[name]]


@dataclass(frozen=True)
class TopicPattern(Subscription):
    """All partitions of topics whose whole name matches; there may be none yet."""

    pattern: str

    @override
    def choose(self, topics: Topics) -> list[KafkaTopicPartition]:
        matches = re.compile(self.pattern).fullmatch
        return [
            KafkaTopicPartition(name, number)
            for name in sorted(topics)
            if matches(name)
            for number in topics[name]
        ]


@dataclass(frozen=True)
class PartitionSet(Subscription):
    """These partitions."""

    partitions: tuple[KafkaTopicPartition, ...]

    @override
    def choose(self, topics: Topics) -> list[KafkaTopicPartition]:
        for each in self.partitions:
            if each.topic not in topics:
                raise JobExecutionError(_no_topic(each.topic, topics))
            if each.partition not in topics[each.topic]:
                raise JobExecutionError(
                    f"topic {each.topic!r} has no partition {each.partition}, but {len(topics[each.topic])}, counted from 0"
                )
        return list(self.partitions)


def _no_topic(name: str, topics: Topics) -> str:
    names = sorted(each for each in topics if not each.startswith("__"))
    names.sort(key=lambda each: SequenceMatcher(None, name, each).ratio(), reverse=True)
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"there is no topic {name!r}; the brokers have {shown or 'no topics'}. Create it first, or correct its name"
