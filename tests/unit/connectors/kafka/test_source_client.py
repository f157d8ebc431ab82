"""What the source asks of a cluster, on a client that answers as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from firesteel.common.errors import JobExecutionError
from firesteel.connectors.kafka import source_client
from firesteel.connectors.kafka.source_client import Cluster
from firesteel.connectors.kafka.source_properties import SourceProperties
from firesteel.connectors.kafka.source_splits import KafkaTopicPartition

PARTITION = KafkaTopicPartition("t", 3)


class Answer:
    """An offset, or why there is none."""

    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self.topic, self.partition, self.offset, self.error = *PARTITION, offset, error


class Client:
    """Gives the answers one after the other, the last one again and again; an error is raised."""

    def __init__(self, *answers: Answer | KafkaError) -> None:
        self._answers = list(answers)
        self.error_cb: Callable[[KafkaError], None] = print
        self.says: list[KafkaError] = []

    def _answer(self, asked: list[TopicPartition], timeout: float) -> list[Any]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        return [answer]

    committed = offsets_for_times = _answer

    def poll(self, timeout: float) -> None:
        while self.says:
            self.error_cb(self.says.pop())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_client, "_PAUSE_SECONDS", 0.0)


def cluster(client: Client, timeout_ms: str = "60000") -> Cluster:
    properties = {"bootstrap.servers": "b:1", "group.id": "g", "default.api.timeout.ms": timeout_ms}

    def connect(_: dict[str, str], callbacks: Any) -> Client:
        client.error_cb = callbacks["error_cb"]
        return client

    return Cluster(SourceProperties.of(properties, False), connect)


@pytest.mark.parametrize("question", [Cluster.end_offsets, Cluster.committed_offsets])
def test_a_partition_whose_leader_moves_is_asked_for_again(question: Callable[..., dict[Any, int]]) -> None:
    moving = Answer(-1001, KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
    away = KafkaError(KafkaError._TRANSPORT)
    assert question(cluster(Client(moving, away, Answer(17))), [PARTITION]) == {PARTITION: 17}


@pytest.mark.parametrize("question", [Cluster.end_offsets, Cluster.committed_offsets])
def test_a_partition_that_cannot_be_asked_for_is_named(question: Callable[..., dict[Any, int]]) -> None:
    """Taken for one without an offset, it would be read from somewhere else."""
    denied = Answer(-1001, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(
        JobExecutionError, match=r"partition 3 of topic 't': .*authorization failed"
    ) as raised:
        question(cluster(Client(denied)), [PARTITION])
    assert "Kafka at b:1 does not tell" in str(raised.value)


def test_a_partition_without_a_committed_offset_is_left_out() -> None:
    assert cluster(Client(Answer(-1001))).committed_offsets([PARTITION]) == {}


def test_who_is_not_let_in_does_not_wait_for_the_time_out() -> None:
    client = Client(KafkaError(KafkaError._TRANSPORT))
    client.says = [KafkaError(KafkaError._AUTHENTICATION, "wrong password")]
    with pytest.raises(JobExecutionError, match=r"wrong password .* check security\.protocol"):
        cluster(client, "600000").end_offsets([PARTITION])


def test_a_refusal_of_long_ago_is_forgotten() -> None:
    client = Client(Answer(1))
    asked = cluster(client, "1")
    asked.end_offsets([PARTITION])
    client.error_cb(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    asked.end_offsets([PARTITION])
    client._answers = [KafkaError(KafkaError._TRANSPORT)]
    with pytest.raises(JobExecutionError, match="does not tell offsets"):
        asked.end_offsets([PARTITION])
