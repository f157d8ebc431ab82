"""A queue of RabbitMQ as a source: messages are acknowledged when a checkpoint that has them is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError, short_repr
from firesteel.common.serialization import DeserializationSchema
from firesteel.connectors.acknowledging_source import AcknowledgingClient, AcknowledgingSource, Delivery
from firesteel.connectors.rabbitmq.config import RMQConnectionConfig
from firesteel.connectors.rabbitmq.connection import Connection
from firesteel.contracts.source import SourceReaderContext
from firesteel.formats.decoding import Decoded, decode, end_of_stream


class QueueMessage(NamedTuple):
    """A message as it came."""

    body: bytes
    delivery_tag: int
    correlation_id: str | None


class QueueSource(AcknowledgingSource[Any]):
    """Reads a queue: exactly once with ``use_correlation_id``, if every message has an id of its own, else at least once.

    Without checkpoints messages are acknowledged as they are read. With correlation ids there is one subtask; without them
    several can share the queue. Like Flink it declares the queue, durable, if it is missing.
    """

    decodes = True
    gives_away = True  # what a function of the user gives is made a value where it is called

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: DeserializationSchema,
    ) -> None:
        self.config = connection_config
        self.queue = queue_name
        self.recognises = use_correlation_id
        self.schema = deserialization_schema
        self.backoff = connection_config.backoff

    @override
    def describe(self) -> str:
        return f"reading the queue {self.queue!r} of {self.config.place}"

    @override
    def decode_batch(self, messages: list[QueueMessage]) -> Decoded:
        def where(index: int) -> dict[str, Any]:
            message = messages[index]
            details = {"queue": self.queue, "delivery_tag": message.delivery_tag}
            return (
                details
                if message.correlation_id is None
                else details | {"correlation_id": message.correlation_id}
            )

        return decode(self.schema, [message.body for message in messages], where)

    @override
    def end_of_stream(self) -> Callable[[Any], bool] | None:
        return end_of_stream(self.schema)

    @override
    def connect(self, context: SourceReaderContext) -> AcknowledgingClient:
        return _QueueClient(self)


class _QueueClient(AcknowledgingClient):
    def __init__(self, source: QueueSource) -> None:
        self._source = source
        self._received: list[Delivery] = []
        self._consumer: str | None = None
        self._open = Connection(source.config, source.queue)
        with self._open.told():
            if source.config.prefetch_count is not None:
                self._open.channel.basic_qos(prefetch_count=source.config.prefetch_count)
            if source.recognises:  # an acknowledgement is sure only when its transaction is
                self._open.channel.tx_select()

    @override
    def receive(self, seconds: float) -> list[Delivery]:
        with self._open.told():
            if self._consumer is None:
                self._consumer = self._open.channel.basic_consume(self._source.queue, self._take)
            self._open.connection.process_data_events(0 if self._received else seconds)
            if not self._open.channel.is_open or not self._open.channel.consumer_tags:
                self._consumer = None  # RabbitMQ has cancelled it: the queue is gone, and is declared again
                self._open.channel.queue_declare(self._source.queue, durable=True)
        received, self._received = self._received, []
        return received

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        number = properties.correlation_id
        if self._source.recognises and number is None:
            raise JobExecutionError(
                f"a message of the queue {self._source.queue!r} has no correlation id: {short_repr(body)}; exactly-once "
                "needs one that is unique in every message. Use QueueSource(..., use_correlation_id=False) for at-least-once"
            )
        message = QueueMessage(body, method.delivery_tag, number)
        self._received.append(Delivery(message, method.delivery_tag, number))

    @override
    def acknowledge(self, tags: list[Any]) -> None:
        """All up to the last: they were given in the order in which they came."""
        with self._open.told():
            self._open.channel.basic_ack(max(tags), multiple=True)
            if self._source.recognises:
                self._open.channel.tx_commit()
            else:
                self._open.connection.process_data_events(0)

    @override
    def keep_alive(self) -> None:
        """Heartbeats go on, and RabbitMQ keeps what the job cannot take now."""
        with self._open.told():
            if self._consumer is not None:
                self._open.channel.basic_cancel(self._consumer)
                self._consumer = None
            self._open.connection.process_data_events(0)

    @override
    def close(self) -> None:
        self._open.close()
