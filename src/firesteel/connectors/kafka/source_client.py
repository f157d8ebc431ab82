"""The client library behind the Kafka source: how consumers are made, and what a cluster is asked before reading."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from firesteel.common.errors import InvalidArgumentError, JobExecutionError, SetupError
from firesteel.connectors.kafka.client_trouble import Trouble, describe, refusal
from firesteel.connectors.kafka.source_properties import SourceProperties
from firesteel.connectors.kafka.source_splits import EARLIEST, KafkaTopicPartition

__all__ = ["Callbacks", "Cluster", "Connect", "check_client", "connect", "to_client"]

#: What the client library itself has to say.
client_log = logging.getLogger("firesteel.connectors.kafka.client")

#: Makes a consumer of confluent-kafka, or what behaves like one, with properties and the client's callbacks.
Callbacks = Mapping[str, Callable[..., None]]
Connect = Callable[[dict[str, str], Callbacks], Any]

_LATEST = -1
_PAUSE_SECONDS = 0.2
#: How long a question waits at first: only between questions the client tells that it is not let in. Then twice as long.
_FIRST_WAIT_SECONDS = 1.0


def connect(properties: dict[str, str], callbacks: Callbacks) -> Any:
    """A consumer of confluent-kafka; connections are made in the background."""
    confluent = _confluent()
    try:
        return confluent.Consumer({**properties, **callbacks}, logger=client_log)
    except confluent.KafkaException as error:
        raise InvalidArgumentError(
            f"the Kafka client refuses the properties of the source: {describe(error)}; known are the properties of librdkafka "
            "and of Java's consumer"
        ) from error


def check_client(properties: SourceProperties) -> None:
    """Refuse what the client will refuse, or that there is none, before a job starts."""
    # Without brokers nothing is connected.
    probe = {
        key: value for key, value in properties.for_client("check").items() if key != "bootstrap.servers"
    }
    connect(probe, {}).close()


def _confluent() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise SetupError(
            "the Kafka source needs the package confluent-kafka, which is not installed: install firesteel[kafka]"
        ) from error
    return confluent_kafka


class Cluster:
    """Answers questions about topics and offsets, each within the time-out or with an error that names the brokers."""

    def __init__(self, properties: SourceProperties, connect: Connect) -> None:
        self._properties = properties
        self._connect = connect
        self._client: Any = None
        self._trouble = Trouble("source", properties.servers)

    def topics(self) -> dict[str, list[int]]:
        """All topics, with the numbers of their partitions."""
        metadata = self._ask("the topics", lambda client, timeout: client.list_topics(timeout=timeout))
        return {
            name: sorted(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None
        }

    def end_offsets(self, partitions: Iterable[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The offsets that the next records will have; of committed records only, if only those are read."""
        return self._offsets(partitions, _LATEST)

    def offsets_at(
        self, partitions: Iterable[KafkaTopicPartition], timestamp: int
    ) -> dict[KafkaTopicPartition, int]:
        """The first offsets at or after a time; the end where there is none."""
        wanted = list(partitions)
        offsets = self._offsets(wanted, timestamp)
        behind = [each for each in wanted if offsets[each] < 0]
        return offsets | self.end_offsets(behind) if behind else offsets

    def committed_offsets(self, partitions: Iterable[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """What the group has committed; partitions without are left out, and so are all if there is no group."""
        if self._properties.group is None:
            return {}
        asked = [to_client(each) for each in partitions]
        answer = self._ask(
            f"the offsets of group {self._properties.group!r}",
            lambda client, timeout: _without_errors(client.committed(asked, timeout=timeout)),
        )
        return {_from_client(each): each.offset for each in answer if each.offset >= 0}

    def _offsets(
        self, partitions: Iterable[KafkaTopicPartition], timestamp: int
    ) -> dict[KafkaTopicPartition, int]:
        # To the broker the times -1 and -2 mean the end and the beginning; so this takes one request for each broker.
        asked = [to_client(each, timestamp) for each in partitions]
        if not asked:
            return {}
        answer = self._ask(
            "offsets",
            lambda client, timeout: _without_errors(client.offsets_for_times(asked, timeout=timeout)),
        )
        return {_from_client(each): each.offset for each in answer}

    def _ask(self, what: str, question: Callable[[Any, float], Any]) -> Any:
        """Ask until there is an answer; coordinators move, brokers start."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._properties.timeout_seconds
        wait = _FIRST_WAIT_SECONDS
        while True:
            left = max(0.1, deadline - time.monotonic())
            try:
                answer = question(self._consumer(), min(wait, left))
                self._trouble.is_over()
                return answer
            except KafkaException as error:
                self._consumer().poll(0)  # has the client tell its troubles
                if self._trouble.refused or not _passes(error) or time.monotonic() >= deadline:
                    raise self._no_answer(what, error) from error
                time.sleep(_PAUSE_SECONDS)
                wait *= 2

    def _no_answer(self, what: str, error: Exception) -> JobExecutionError:
        servers, reason = self._properties.servers, self._trouble.reason
        if self._trouble.refused:
            return JobExecutionError(refusal(servers, reason))
        return JobExecutionError(
            f"Kafka at {servers} does not tell {what}: {describe(error)}{f' ({reason})' if reason else ''}; waited up to "
            f"{self._properties.timeout_seconds:g} s (default.api.timeout.ms). Look at bootstrap.servers, at the security "
            "properties, and whether the brokers run and can be reached from here"
        )

    def _consumer(self) -> Any:
        if self._client is None:
            self._client = self._connect(
                self._properties.for_client("enumerator"), {"error_cb": self._trouble.note}
            )
        return self._client

    def close(self) -> None:
        """Give the connections up; the next question makes new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _without_errors(answer: list[Any]) -> list[Any]:
    """What was answered for partitions; an error of one is raised: it is not a partition without an offset."""
    from confluent_kafka import KafkaError, KafkaException

    for each in answer:
        if each.error is not None:
            text = f"partition {each.partition} of topic {each.topic!r}: {each.error.str()}"
            retriable = each.error.retriable()
            raise KafkaException(KafkaError(each.error.code(), text, retriable=retriable))
    return answer


def _passes(error: Exception) -> bool:
    """Whether asking again can help: the broker starts, or moves a group."""
    from confluent_kafka import KafkaError

    told = error.args[0]
    return told.retriable() or told.code() in (
        KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REQUEST_TIMED_OUT,
    )  # fmt: skip


def to_client(partition: KafkaTopicPartition, offset: int = 0) -> Any:
    """The client library's way to name a partition and a position in it."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    return TopicPartition(
        partition.topic, partition.partition, OFFSET_BEGINNING if offset == EARLIEST else offset
    )


def _from_client(partition: Any) -> KafkaTopicPartition:
    return KafkaTopicPartition(partition.topic, partition.partition)
