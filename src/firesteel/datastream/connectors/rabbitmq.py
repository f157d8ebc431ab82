"""RabbitMQ: queues as a source and as a sink. Needs ``firesteel[rabbitmq]``."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common.serialization import DeserializationSchema
from firesteel.connectors.rabbitmq.config import RMQConnectionConfig
from firesteel.connectors.rabbitmq.sink import RMQSink
from firesteel.connectors.rabbitmq.source import QueueSource
from firesteel.contracts.source import Source, SourceFunctionOfSource

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]


class RMQSource(SourceFunctionOfSource[Any]):
    """Reads a queue: exactly once with ``use_correlation_id``, if every message has an id of its own, else at least once.

    Without checkpoints messages are acknowledged as they are read. With correlation ids there is one subtask; without them
    several can share the queue. Like Flink it declares the queue, durable, if it is missing.
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: DeserializationSchema,
    ) -> None:
        self._source = QueueSource(connection_config, queue_name, use_correlation_id, deserialization_schema)

    @override
    def as_source(self) -> Source[Any]:
        """The source that does the work."""
        return self._source
