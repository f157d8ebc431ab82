"""Topics of MQTT as a source: messages of quality 1 are acknowledged when a checkpoint that has them is complete."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, JobExecutionError
from firesteel.common.serialization import DeserializationSchema
from firesteel.connectors.acknowledging_source import AcknowledgingClient, AcknowledgingSource, Delivery
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.message_source import MessageDecoder
from firesteel.connectors.mqtt.session import ANSWER_SECONDS, Session, check_url, place_of
from firesteel.contracts.source import SourceReaderContext
from firesteel.formats.decoding import Decoded

#: Messages in one batch.
BATCH = 1000
#: So many messages may wait for a job that is too slow; the broker holds back what has to be acknowledged, but not the rest.
WAITING = 1_000_000


@dataclass(frozen=True, slots=True)
class MqttMessage:
    """A message as it came."""

    topic: str
    payload: bytes
    retained: bool = False


class MqttSource(AcknowledgingSource[Any]):
    """Messages of topics (``sensors/+/temperature``, ``sensors/#``), at least once.

    The broker keeps the session of ``client_id`` while the job is down, so the id has to be the job's own and stay the same;
    of two clients with one id the broker cuts off the first.
    Messages are acknowledged at checkpoints; brokers limit how many may wait for that (Mosquitto: 20, its option
    ``max_inflight_messages``), and send no more before. One subtask reads. A record is a `MqttMessage`, or what
    ``deserialize`` makes of it: a function, or a schema, which sees the payload; None drops the message.
    """

    decodes = True
    gives_away = True  # what a function of the user gives is made a value where it is called

    def __init__(
        self,
        url: str,
        *topics: str,
        client_id: str,
        deserialize: Callable[[MqttMessage], Any] | DeserializationSchema | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        if not topics:
            raise InvalidArgumentError("an MqttSource subscribes to at least one topic; none was given")
        if not client_id:
            raise InvalidArgumentError(
                "an MqttSource needs a client_id, by which the broker knows its session again"
            )
        self.url = check_url(url)
        self.topics = topics
        self.client_id = client_id
        self.deserialize = deserialize
        self.backoff = backoff or Backoff()

    @property
    @override
    def max_subtasks(self) -> int:
        return 1

    @override
    def describe(self) -> str:
        return f"reading the topics {', '.join(self.topics)} of {place_of(self.url)}"

    @override
    def decode_batch(self, messages: list[MqttMessage]) -> Decoded:
        if self.deserialize is None:
            return Decoded(messages)
        return MessageDecoder(self.deserialize, _payload, _topic).decode(messages)

    @override
    def connect(self, context: SourceReaderContext) -> AcknowledgingClient:
        return _Subscriber(self)


def _payload(message: MqttMessage) -> bytes:
    return message.payload


def _topic(message: MqttMessage) -> dict[str, str]:
    return {"topic": message.topic}


class _Subscriber(AcknowledgingClient):
    def __init__(self, source: MqttSource) -> None:
        self._source = source
        self._received: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._granted: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._session = Session(source.url, source.client_id, keep=True, on_message=self._received.put)
        try:
            self._subscribe()
        except BaseException:
            self.close()
            raise

    def _subscribe(self) -> None:
        client = self._session.client
        client.on_subscribe = lambda *details: self._granted.put(details[3])
        client.subscribe([(topic, 1) for topic in self._source.topics])
        try:
            granted = self._granted.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise ConnectionError(f"{place_of(self._source.url)} does not answer a subscription") from None
        for topic, reason in zip(self._source.topics, granted, strict=False):
            if reason.is_failure:
                raise JobExecutionError(
                    f"{place_of(self._source.url)} refuses the subscription to {topic!r}: {reason}; check the topic and the "
                    "rights of the user"
                )

    @override
    def receive(self, seconds: float) -> list[Delivery]:
        deliveries: list[Delivery] = []
        try:
            while len(deliveries) < BATCH:
                message = self._received.get(timeout=0 if deliveries else seconds)
                deliveries.append(self._delivery(message))
        except queue.Empty:
            if not deliveries:
                self._session.check()
        return deliveries

    def _delivery(self, message: Any) -> Delivery:
        came = MqttMessage(message.topic, bytes(message.payload), message.retain)
        return Delivery(came, (message.mid, message.qos))

    @override
    def acknowledge(self, tags: list[Any]) -> None:
        for number, quality in tags:
            self._session.client.ack(number, quality)

    @override
    def keep_alive(self) -> None:
        if self._received.qsize() > WAITING:
            raise JobExecutionError(
                f"{place_of(self._source.url)} sends more messages than the job can take, and {WAITING} wait: messages of quality "
                "0 cannot be held back; publish them with quality 1, or give the job more processors"
            )

    @override
    def close(self) -> None:
        self._session.close()
