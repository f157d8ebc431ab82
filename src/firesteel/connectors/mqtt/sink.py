"""Topics of MQTT as a sink: messages of quality 1, at least once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import WrongArgumentError, short_repr
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.batching_sink import BatchClient, BatchingSink
from firesteel.connectors.mqtt.session import ANSWER_SECONDS, Session, check_url, place_of
from firesteel.contracts.sink import SinkContext


class MqttSink(BatchingSink[Any]):
    """Publishes records: ``message_of`` gives topic and payload (text or bytes). A batch is done when the broker has it."""

    def __init__(
        self,
        url: str,
        message_of: Callable[[Any], tuple[str, str | bytes]],
        *,
        retain: bool = False,
        batch_size: int = 500,
        linger: float = 0.1,
        backoff: Backoff | None = None,
    ) -> None:
        self.url = check_url(url)
        self.message_of = message_of
        self.retain = retain
        self.batch_size = batch_size
        self.linger = linger
        self.backoff = backoff or Backoff()

    @override
    def describe(self) -> str:
        return f"writing to {place_of(self.url)}"

    @override
    def connect(self, context: SinkContext) -> BatchClient[Any]:
        return _Publisher(self)


class _Publisher(BatchClient[Any]):
    def __init__(self, sink: MqttSink) -> None:
        self._sink = sink
        self._session = Session(sink.url, "", keep=False, on_message=lambda _: None)

    @override
    def write_batch(self, batch: list[Any]) -> None:
        sent = [self._publish(record) for record in batch]
        for message in sent:
            self._session.check()
            try:
                message.wait_for_publish(ANSWER_SECONDS)
            except (RuntimeError, ValueError) as error:
                raise ConnectionError(f"{place_of(self._sink.url)}: {error}") from error
            if not message.is_published():
                raise ConnectionError(f"{place_of(self._sink.url)} does not confirm a message")

    def _publish(self, record: Any) -> Any:
        match self._sink.message_of(record):
            case str(topic), (str() | bytes()) as payload:
                return self._session.client.publish(topic, payload, qos=1, retain=self._sink.retain)
            case other:
                raise WrongArgumentError(
                    f"message_of has to give a topic and a payload of text or bytes, got {short_repr(other)} for the record "
                    f"{short_repr(record)}"
                )

    @override
    def close(self) -> None:
        self._session.close()
