"""A queue of RabbitMQ as a sink: batches in transactions of the channel, at least once."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError
from firesteel.common.serialization import SerializationSchema
from firesteel.connectors.batching_sink import BatchClient, BatchingSink
from firesteel.connectors.rabbitmq.config import RMQConnectionConfig
from firesteel.connectors.rabbitmq.connection import Connection, durable
from firesteel.contracts.sink import SinkContext


class RMQSink(BatchingSink[Any]):
    """Writes to a queue, which it declares, durable, if it is missing. Messages survive a restart of RabbitMQ."""

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        serialization_schema: SerializationSchema,
    ) -> None:
        self.config = connection_config
        self.queue = queue_name
        self.schema = serialization_schema
        self.backoff = connection_config.backoff
        self.linger = 0.1

    @override
    def describe(self) -> str:
        return f"writing to the queue {self.queue!r} of {self.config.place}"

    @override
    def connect(self, context: SinkContext) -> BatchClient[Any]:
        return _Publisher(self)


class _Publisher(BatchClient[Any]):
    def __init__(self, sink: RMQSink) -> None:
        self._sink = sink
        self._returned = 0
        self._open = Connection(sink.config, sink.queue)
        with self._open.told():
            self._open.channel.add_on_return_callback(self._count_returned)
            self._open.channel.tx_select()

    def _count_returned(self, *_: Any) -> None:
        self._returned += 1

    @override
    def write_batch(self, batch: list[Any]) -> None:
        properties = durable()
        bodies = [self._sink.schema.serialize(record) for record in batch]
        with self._open.told():
            for body in bodies:
                if body is not None:
                    self._open.channel.basic_publish("", self._sink.queue, body, properties, mandatory=True)
            self._open.channel.tx_commit()
            self._open.connection.process_data_events(0)
        if self._returned:
            raise JobExecutionError(
                f"{self._returned} messages came back from {self._sink.config.place}: the queue {self._sink.queue!r} was deleted "
                "while the job was writing to it"
            )

    @override
    def close(self) -> None:
        self._open.close()
